"""The script of a torture: what publishers, sessions, consumers and faults do in a random network.

The generator of the network chooses. First it draws what kind of run this is (`_draw`): some have
no faults at all, so that what must hold without any is tried as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reefcast.model.messages import MoveLink
from reefcast.routing.mesh.meshed import Meshed
from reefcast.routing.mesh.movable import MovableMesh
from reefcast.routing.registry import routing_named
from reefcast.sessions.events import EXPIRES
from reefcast_lab.torture.consumers import Consumer
from reefcast_lab.torture.durable import Options, Wanted
from reefcast_lab.torture.judging import judge
from reefcast_lab.torture.network import Network
from reefcast_lab.torture.publishers import Publisher
from reefcast_lab.torture.travellers import Traveller

ADVERTISED = ("", "x >= 0", "x >= 0 AND x < 10")
MOST_SESSIONS, MOST_FILTERS, MOST_CONSUMERS, MOST_TRAVELLERS = 3, 6, 8, 6
Act = Callable[[], None]


class Torture:
    """A run of a network in which everything happens that may; its generator chooses."""

    def __init__(self, network: Network, publications: int) -> None:
        self.network, self.rng = network, network.rng
        self.left = publications * (3 if network.movable else 1)
        self.filters = 0
        self._draw()

    def _draw(self) -> None:
        rng = self.rng
        self._faults = rng.random() < 0.88
        self._limits = rng.random() < 0.4
        self._consumers = rng.random() < 0.6
        self._travellers = rng.random() < 0.4
        self._expires = rng.random() < 0.15
        self._soft = issubclass(routing_named(self.network.routing), Meshed)
        self._confirms = rng.choice((0.8, 0.4)) if self._soft else 0.8

    def run(self, rounds: int = 60) -> list[str]:
        """Let it happen, then let all come to an end; return what is wrong."""
        network, rng = self.network, self.rng
        acts, weights = zip(*self._acts(), strict=True)
        for name in rng.sample(network.names, min(2, len(network.names))):
            self._new_publisher(name)
        self._want()
        if rng.random() < 0.7:
            network.settle()
            self._open_soft()
        for _ in range(rounds):
            network.run(rng.choice((0, 1, 2, 5, 20)))
            rng.choices(acts, weights)[0]()
            if network.problems:
                return network.problems
        return judge(network)

    def _acts(self) -> list[tuple[Act, float]]:
        """Return what may happen, with weights."""
        acts: list[tuple[Act, float]] = [
            (self._publish, 40),
            (self._pass_time, 6),
            (self._want, 3),
            (self._remove, 1),
            (self._pass_by, 3),
            (self._move, 2),
            (self._readvertise, 1),
        ]
        if self._consumers:
            acts += [
                (self._consume, 16),
                (self._attach, 5),
                (self._manage, 3 if self._limits else 1),
            ]
        if self.network.movable:
            acts += [(self._move_amid, 12), (self._heal, 1)]
        if self._soft:
            acts += [(self._open_soft, 20), (self._close_soft, 2), (self._cut_soft, 4)]
        if self._travellers:
            acts += [(self._travel, 12), (self._arrive, 4)]
        if self._faults:
            acts += [
                (self._kill, 12),
                (self._kill_several, 2),
                (self._outage, 3),
                (self._start, 18),
                (self._cut, 6),
                (self._give_up, 3),
                (self._part, 1),
                (self._fill_disk, 3),
                (self._close, 1),
            ]
        return acts

    # --- publishers -------------------------------------------------------------------------------

    def _new_publisher(self, broker: str) -> None:
        name = f"p{len(self.network.publishers)}"
        self.network.publisher(name, broker, self.rng.choice(ADVERTISED))

    def _any_publisher(self) -> Publisher:
        return self.rng.choice(list(self.network.publishers.values()))

    def _publish(self) -> None:
        publisher, rng = self._any_publisher(), self.rng
        for _ in range(min(rng.choice((1, 1, 3)), self.left)):
            confirm = rng.random() < self._confirms
            if confirm or publisher.broker in self.network.cores:
                self.left -= 1
                attributes: dict[str, Any] = {
                    "x": rng.randrange(10),
                    "text": "-" * rng.choice((0, 0, 100)),
                }
                if self._expires and rng.random() < 0.3:
                    attributes[EXPIRES] = rng.choice((1, 10, 60))
                publisher.publish(attributes, confirm=confirm)

    def _move(self) -> None:
        self._any_publisher().move(self.rng.choice(self.network.names))

    def _readvertise(self) -> None:
        publisher = self._any_publisher()
        if publisher.advertises:
            publisher.readvertise(self.rng.choice(ADVERTISED[1:]))

    # --- sessions ---------------------------------------------------------------------------------

    def _want(self) -> None:
        network, rng = self.network, self.rng
        if self.filters < MOST_FILTERS:
            self.filters += 1
            name = f"s{rng.randrange(MOST_SESSIONS)}"
            wanted = network.sessions.get(name)
            if wanted is None or wanted.is_over:
                network.want(name, rng.choice(network.names), self._filter(), self._options())
            elif not wanted.ended and (filter := self._filter()) not in wanted.asked:
                network.want(name, wanted.home, filter)

    def _filter(self) -> str:
        x = self.rng.randrange(8)
        return self.rng.choice((f"x >= {x}", f"x >= {x}", f"x < {x + 1}", f"x = {x}"))

    def _options(self) -> Options:
        rng = self.rng
        if not self._limits:
            return {}
        options: Options = {"ack_wait_s": rng.choice((2.0, 30.0))}
        if rng.random() < 0.6:
            options["max_events"] = rng.choice((1, 2, 5))
            options["policy"] = rng.choice(("drop_oldest", "refuse", "block"))
        if rng.random() < 0.4:
            options["max_deliveries"] = rng.choice((1, 2, 3))
            options["max_dead_letters"] = rng.choice((1, 100))
        if rng.random() < 0.2:
            options["max_age_s"] = rng.choice((5.0, 50.0))
        if rng.random() < 0.2:
            options["expiry_s"] = 200.0
        if self._expires and options["ack_wait_s"] == 2.0:
            options["expires"] = "fresh"
        return options

    def _any_session(self) -> Wanted | None:
        sessions = [each for each in self.network.sessions.values() if not each.ended]
        return self.rng.choice(sessions) if sessions else None

    def _remove(self) -> None:
        wanted = self._any_session()
        if wanted is not None and len(wanted.settled) > 1:
            wanted.remove(self.rng.choice(sorted(wanted.settled)))

    def _close(self) -> None:
        wanted = self._any_session()
        if wanted is not None and wanted.life is not None and self.filters < MOST_FILTERS:
            wanted.close()

    def _manage(self) -> None:
        """Do what operators do to sessions, those with dead letters first."""
        sessions = [each for each in self.network.sessions.values() if not each.ended]
        wanted = next((each for each in sessions if each.has_dead_letters), self._any_session())
        if wanted is not None:
            wishes = ("drain", "move_dead_letters", "move_dead_letters", "drop_dead_letters")
            wanted.manage(self.rng.choice(wishes))

    def _pass_by(self) -> None:
        self.network.pass_by(self.rng.choice(self.network.names), self._filter())

    # --- consumers --------------------------------------------------------------------------------

    def _attach(self) -> None:
        network, rng = self.network, self.rng
        away = [
            each
            for each in network.consumers.values()
            if not (each.is_attached or each.is_gone or each.wanted.ended)
        ]
        wanted = self._any_session()
        if away and rng.random() < 0.6:
            rng.choice(away).attach()
        elif wanted is not None and wanted.life and len(network.consumers) < MOST_CONSUMERS:
            filter = self._filter() if rng.random() < 0.2 else ""
            network.consumer(wanted.name, rng.choice((1, 2, 10)), filter)

    def _consume(self) -> None:
        rng = self.rng
        consumers = [each for each in self.network.consumers.values() if each.is_attached]
        if not consumers:
            self._attach()
            return
        consumer = rng.choice(consumers)
        if rng.random() < 0.75:
            self._answer(consumer)
        else:
            self._leave(consumer)

    def _answer(self, consumer: Consumer) -> None:
        rng = self.rng
        if consumer.has:
            position = rng.choice(sorted(consumer.has))
            roll = rng.random()
            if roll < 0.3:
                consumer.acknowledge_up_to(position)
            elif roll < 0.7:
                consumer.acknowledge(position)
            else:
                consumer.reject(position, rng.choice((0.0, 0.0, 3.0, 20.0)))

    def _leave(self, consumer: Consumer) -> None:
        roll = self.rng.random()
        if roll < 0.3:
            consumer.detach()
        elif roll < 0.6:
            consumer.break_off()
        elif roll < 0.8:
            consumer.die()
        else:
            consumer.resize(self.rng.choice((0, 1, 10)))

    # --- soft links -------------------------------------------------------------------------------

    def _open_soft(self) -> None:
        soft, rng = self.network.soft, self.rng
        for name in sorted(self.network.cores) if self._soft else ():
            if able := soft.may_open(name):
                soft.open(name, rng.choice(able))

    def _close_soft(self) -> None:
        if pairs := self.network.soft.pairs():
            self.network.soft.close(*self.rng.sample(self.rng.choice(pairs), 2))

    def _cut_soft(self) -> None:
        if pairs := self.network.soft.pairs():
            self.network.soft.cut(*self.rng.choice(pairs))

    def _move_amid(self) -> None:
        """Ask for a move, and go on with what goes by it, with a fault now and then."""
        network, rng = self.network, self.rng
        if rng.random() < 0.7:
            self._heal()
        self._move_link(rng.choice(network.names))
        faults: list[tuple[Act, float]] = [
            (self._publish, 30),
            (self._pass_by, 1),
            (self._want, 1),
            (self._cut_soft, 1),
        ]
        if self._faults:
            faults += [(self._kill, 1), (self._start, 8), (self._cut, 1), (self._fill_disk, 0.5)]
        acts, weights = zip(*faults, strict=True)
        for _ in range(rng.randint(1, 40)):
            network.run(rng.choice((1, 3, 6)))
            rng.choices(acts, weights)[0]()

    def _move_link(self, name: str) -> None:
        """Ask a broker for another primary link in the place of one."""
        network, rng = self.network, self.rng
        router = network.cores[name].router if name in network.cores else None
        if isinstance(router, MovableMesh):
            mom = router.mesh.mom
            if far := [each for each in mom.brokers if mom.distance(each) > 1]:
                new = rng.choice(far)
                network.put(name, MoveLink(mom.branch(new), new), "")

    # --- consumers anywhere -----------------------------------------------------------------------

    def _arrive(self) -> None:
        network, rng, wanted = self.network, self.rng, self._any_session()
        if wanted is not None and wanted.life and len(network.travellers) < MOST_TRAVELLERS:
            filter = self._filter() if rng.random() < 0.2 else ""
            entry, window = rng.choice(network.names), rng.choice((1, 2, 10))
            network.traveller(wanted.name, entry, window, filter)

    def _travel(self) -> None:
        rng = self.rng
        here = [each for each in self.network.travellers.values() if not each.is_gone]
        if not here:
            self._arrive()
            return
        traveller = rng.choice(here)
        acts: list[tuple[Act, float]] = [
            (traveller.take, 40),
            (lambda: traveller.acknowledge(*traveller.in_hand[:1]), 25),
            (lambda: traveller.acknowledge(*traveller.in_hand), 5),
            (lambda: self._reject(traveller), 5),
            (lambda: traveller.resize(rng.choice((0, 1, 10))), 3),
            (lambda: traveller.move(rng.choice(self.network.names)), 5),
            (traveller.break_off, 5),
            (traveller.detach, 3),
            (traveller.die, 2),
        ]
        doing, weights = zip(*acts, strict=True)
        rng.choices(doing, weights)[0]()

    def _reject(self, traveller: Traveller) -> None:
        if traveller.in_hand:
            traveller.reject(traveller.in_hand[0], self.rng.choice((0.0, 3.0)))

    # --- faults -----------------------------------------------------------------------------------

    def _down(self) -> list[str]:
        return [name for name in self.network.names if name not in self.network.cores]

    def _kill(self) -> None:
        if self.network.cores:
            self.network.kill(self.rng.choice(sorted(self.network.cores)))

    def _kill_several(self) -> None:
        up = sorted(self.network.cores)
        for name in self.rng.sample(up, self.rng.randint(0, len(up))):
            self.network.kill(name)

    def _outage(self) -> None:
        """Kill several brokers, start only some of them, and go on without the others for a
        while."""
        network, rng = self.network, self.rng
        self._kill_several()
        for name in self._down():
            if rng.random() < 0.6:
                network.start(name)
                network.run(rng.choice((0, 2, 20)))
                if rng.random() < 0.2:
                    network.kill(name)
        network.pass_time(rng.choice((0.5, 6.0, 30.0)))
        network.run(20)
        self._publish()
        network.run(20)

    def _start(self) -> None:
        if down := self._down():
            self.network.start(self.rng.choice(down))

    def _cut(self) -> None:
        network = self.network
        if not network.edges:  # all are being moved
            return
        one, other = sorted(self.rng.choice(network.edges))
        if (one, other) in network.cut:
            network.repair((one, other))
        else:
            network.break_link((one, other))

    def _give_up(self) -> None:
        if down := self._down():
            self.network.give_up(self.rng.choice(down))

    def _part(self) -> None:
        """Have one or both ends of a link that is cut give the other one up."""
        if cut := sorted(self.network.cut):
            edge = self.rng.choice(cut)
            self.network.part(edge, self.rng.choice((edge, edge[:1], edge[1:])))

    def _fill_disk(self) -> None:
        disk = self.network.disks[self.rng.choice(self.network.names)]
        disk.fails = not disk.fails

    def _heal(self) -> None:
        """Let everything work again, so that moves come to their ends."""
        network = self.network
        for edge in sorted(network.cut):
            network.repair(edge)
        for name in self._down():
            network.start(name)
        for disk in network.disks.values():
            disk.fails = False
        network.run(100)
        network.pass_time(3.0)

    def _pass_time(self) -> None:
        self.network.pass_time(self.rng.choice((0.5, 3.0, 6.0, 30.0)))
