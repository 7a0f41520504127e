"""A network of live brokers and live clients, simulated: `server.node.Node` and `client.Client` as
users run them, on an event loop without a clock and on connections that break.

Only the network between them is simulated: links with a latency and a bandwidth, and the faults of
`Setup.faults` and `Wire.faults`. A broker's work takes no time. Scripts, results and checkers are
those of simulated messages; a publication is delivered when the application at the other end reads
it. One seed gives one run."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError, InternalError
from reefcast.model.messages import Deliver, LinkName, MoveLink, Publish
from reefcast.model.publication import Publication
from reefcast.network.file import NetworkFile
from reefcast.network.sections import BrokerEntry, LinkEntry, NetworkSection, OverloadSection
from reefcast.overlay.topology import Edge, edges_of
from reefcast.routing.registry import routing_named
from reefcast.simulation.clients import Scripted
from reefcast.simulation.faults import Crash, Delay, Move, Partition, fault_text
from reefcast.simulation.recording import Recording
from reefcast.simulation.stage import Stage
from reefcast.simulation.wire.brokers import WireBroker
from reefcast.simulation.wire.cables import Cable
from reefcast.simulation.wire.clients import WireClient
from reefcast.simulation.wire.connections import Address, Connections, Pair
from reefcast.simulation.wire.faults import (
    Again,
    Freeze,
    Pieces,
    Restart,
    Sever,
    Slices,
    Stop,
    Vanish,
    Wire,
)
from reefcast.simulation.wire.loop import SimulatedLoop
from reefcast.simulation.wire.machines import SimulatedMachine
from reefcast.simulation.wire.storages import Disk
from reefcast.simulation.world import NoProgressError, Setup

FIRST_PORT = 7301
LOOK_S = 0.05
QUIET_S = 0.5
"""The network is quiet if nothing was under way at any look during this time."""
ENDS_S = 600.0
"""After the last script and fault: longer than anybody waits for anything."""


def network_file(setup: Setup, wire: Wire) -> NetworkFile:
    """Return the network as live brokers read it."""
    routing = routing_named(setup.routing)
    options = setup.options or routing.options()
    if any(each.keeps_statistics for each in (options, *setup.broker_options.values())):
        raise ConfigurationError("live brokers keep statistics in files, which are not simulated")
    places = setup.scot.places if setup.scot else {}
    brokers = [
        BrokerEntry(
            name=name,
            listen=f"127.0.0.1:{FIRST_PORT + number}",
            region=places[name].region if name in places else None,
            cluster=places[name].cluster if name in places else None,
            routing=_options(setup.broker_options.get(name)),
        )
        for number, name in enumerate(setup.graph)
    ]
    return NetworkFile(
        network=NetworkSection(name="simulated", routing=setup.routing),
        routing=_options(options),
        limits=wire.limits,
        overload=OverloadSection(tau=setup.overload.tau, window_s=setup.overload.window_s),
        broker=brokers,
        link=[LinkEntry(between=edge) for edge in edges_of(setup.graph)],
    ).validate()


def _options(options: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(options)) if options is not None else {}


class WireWorld(Stage):
    """See the module's docstring; `loop`: on which all of it runs."""

    def __init__(self, setup: Setup, wire: Wire) -> None:
        self.setup = setup.validate()
        self.wire = wire
        self._check()
        self._network = network_file(setup, wire)
        addresses: dict[Address, str] = {
            self._network.address(name): name for name in self._network.names
        }
        self.loop = SimulatedLoop(Connections(addresses, self._make_cable))
        self.loop.set_exception_handler(self._failed)
        self.record = Recording(None, list(setup.graph), setup.keep_deliveries)
        self.nodes: dict[str, WireBroker] = {name: self._make_broker(name) for name in setup.graph}
        self.clients: dict[str, WireClient] = {}
        self.scripts: dict[int, Scripted] = {}
        self.published = {}
        self.now = 0.0
        self._disk = Disk()
        self._errors: list[str] = []
        self._cause: BaseException | None = None
        self._busy_s = 0.0
        self._begun = False
        self._last_s = self._plan()

    def _check(self) -> None:
        for fault in self.setup.faults:
            if not isinstance(fault, Crash | Partition | Delay | Move):
                raise ConfigurationError(f"{fault_text(fault)!r} happens to messages, not to bytes")
        if self.setup.trace:
            raise ConfigurationError("traces of live brokers are not simulated")

    def _make_broker(self, name: str) -> WireBroker:
        return WireBroker(name, self._network, str(self.setup.seed), self.loop, self)

    def sent(self, link: LinkName, message: Any) -> None:
        self.record.sent(None, link, message, 0, 0, self.loop.time())

    def forwarded(self, count: int) -> None:
        self.record.forwarded += count

    def lost(self, publish: Publish) -> None:
        self.record.damaged.add(publish.publication.id)

    def _failed(self, loop: object, context: dict[str, Any]) -> None:
        """Note the failure of a callback or a task: the run ends with it."""
        self._errors.append(f"at {self.loop.time()} s {context['message']}")
        self._cause = self._cause or context.get("exception")
        self.loop.stop()

    # --- connections ------------------------------------------------------------------------------

    def _make_cable(self, one: str, other: str) -> Cable:
        setup, ends = self.setup, (one, other)
        between = one in self.nodes and other in self.nodes
        spec = setup.links.get(ends) or setup.links.get(ends[::-1])
        spells = [
            spell
            for spell in (*setup.faults, *self.wire.faults)
            if isinstance(spell, Partition | Delay | Pieces) and _is_about(spell.links, ends)
        ]
        rng = random.Random(f"{setup.seed}/{one}/{other}")
        return Cable(spec or (setup.link if between else self.wire.client_link), spells, rng)

    def _pairs(self, links: tuple[Edge, ...]) -> Iterator[Pair]:
        connections = self.loop.connections
        if not links:
            yield from connections.all
        for one, other in links:
            yield from list(connections.pairs(one, other))

    # --- faults -----------------------------------------------------------------------------------

    def _plan(self) -> float:
        """Schedule all faults; return when the last one is over."""
        ends = [0.0]
        for fault in (*self.setup.faults, *self.wire.faults):
            at_s = fault.at_s if hasattr(fault, "at_s") else fault.from_s
            over = (getattr(fault, "to_s", at_s), getattr(fault, "restart_s", at_s))
            ends += [each for each in (at_s, *over) if each < math.inf]
            self._plan_one(fault, at_s)
        return max(ends)

    def _plan_one(self, fault: Any, at_s: float) -> None:
        call_at, brokers = self.loop.call_at, self.nodes
        if isinstance(fault, Crash):
            for_good = fault.restart_s == math.inf
            call_at(at_s, partial(brokers[fault.broker].kill, for_good=for_good))
            if fault.restart_s < math.inf:
                call_at(fault.restart_s, brokers[fault.broker].start)
        elif isinstance(fault, Stop):
            call_at(at_s, self._stop, fault)
        elif isinstance(fault, Freeze):
            call_at(at_s, self._freeze, fault)
        elif isinstance(fault, Restart):
            call_at(at_s, self._restart, fault)
        elif isinstance(fault, Slices):
            call_at(at_s, brokers[fault.broker].be_slow, fault.share)
            if fault.to_s < math.inf:
                call_at(fault.to_s, brokers[fault.broker].be_slow, 0.0)
        elif isinstance(fault, Sever):
            call_at(at_s, self._sever, fault)
        elif isinstance(fault, Vanish):
            call_at(at_s, self._vanish, fault)
        elif isinstance(fault, Again):
            call_at(at_s, self._again, fault)
        elif isinstance(fault, Move):
            call_at(at_s, self._move, fault)

    def _stop(self, fault: Stop) -> None:
        """Stop a broker; its clients may lose from now on what comes for them."""
        broker = self.nodes[fault.broker]
        for client in self.clients.values():
            if client.broker == broker.name:
                cable = self.loop.connections.cable(client.name, broker.name)
                cable.harmed.append(self.loop.time())
        broker.stop(lambda: self._start_later(broker, fault.restart_s))

    def _start_later(self, broker: WireBroker, at_s: float) -> None:
        at_s = max(at_s, self.loop.time())
        self._last_s = max(self._last_s, at_s)
        self.loop.call_at(at_s, broker.start)

    def _restart(self, fault: Restart) -> None:
        client = self.clients[fault.client]
        if client.storage is not None:
            self.loop.kill(client.machine)
            client.die()
            self.loop.call_at(fault.restart_s, self._start_client, client)

    def _start_client(self, client: WireClient) -> None:
        client.machine = self._make_machine(f"{client.name}/{self.loop.time()}", client.name)
        client.start_again()

    def _machine(self, name: str) -> SimulatedMachine:
        return self.nodes[name].machine if name in self.nodes else self.clients[name].machine

    def _freeze(self, fault: Freeze) -> None:
        machine = self._machine(fault.name)
        if not machine.dead:
            self.loop.freeze(machine, fault.to_s)

    def _sever(self, fault: Sever) -> None:
        for pair in self._pairs(fault.links):
            if fault.at:
                pair.cut_after(fault.after_bytes, fault.at)
            else:
                pair.reset()

    def _vanish(self, fault: Vanish) -> None:
        for pair in self._pairs(fault.links):
            pair.vanish(fault.told, drains=fault.drains)

    def _again(self, fault: Again) -> None:
        for one, other in fault.links or edges_of(self.setup.graph):
            self.nodes[one].dial_again(other)
            self.nodes[other].dial_again(one)

    def _move(self, fault: Move) -> None:
        broker = self.nodes[fault.broker]
        if broker.up:
            wish = partial(broker.node.host.driver.handle, MoveLink(fault.old, fault.new), "")
            broker.machine.context.run(wish)

    # --- scripts ----------------------------------------------------------------------------------

    def _new_client(self, name: str, broker: str) -> WireClient:
        client = self.clients[name] = WireClient(
            name,
            broker,
            self._make_machine(name, name),
            self._network.address(broker),
            self.wire.silence_s,
            lambda since_s: self.loop.connections.cable(name, broker).harmed_since(since_s),
            self._delivered,
            self._has_published,
            self._disk,
            calm=not (self.setup.faults or self.wire.faults),
        )
        return client

    def _make_machine(self, seed: str, name: str) -> SimulatedMachine:
        return SimulatedMachine(name, f"{self.setup.seed}/{seed}", self.loop)

    def schedule(self, handle: int, at: float) -> None:
        script = self.scripts[handle]
        if script.kind == "store":
            self.clients[script.client].will_store()
        self._last_s = max(self._last_s, at)
        self.loop.call_at(at, self._act, script)

    def _act(self, script: Scripted) -> None:
        """Have a client do what the script says; a frozen one does it afterwards."""
        client = self.clients[script.client]
        if self.loop.time() < client.machine.frozen_until_s < math.inf:
            self.loop.call_at(client.machine.frozen_until_s, self._act, script)
        else:
            client.act(script)

    def _has_published(self, script: Scripted, publication: Publication, broker: str) -> None:
        self.record.counters["published"] += 1
        self.published[publication.id] = (script.handle, publication, broker)

    def _delivered(self, client: str, number: int, publication: Publication) -> None:
        record = self.record
        record.delivered_clients += 1
        record.delivered_subscriptions += 1
        if record.keep:
            record.delivered.append(Deliver(Publish(publication), {client: [number]}))
            record.delivered_at.append(self.loop.time())

    # --- runs -------------------------------------------------------------------------------------

    def run(self, until: float, limit: int, progress: Callable[[float], None]) -> bool:
        """Run as other worlds do; also raise `InternalError` for what went wrong in callbacks and
        tasks."""
        if not self._begun:
            self._begun = True
            self.loop.call_soon(self._begin)
        stop = self.loop.call_at(until, self.loop.stop) if until < math.inf else None
        look = self.loop.call_soon(self._look, until, progress)
        self.loop.run_forever()
        look.cancel()
        if stop is not None:
            stop.cancel()
        self.now = self.loop.time()
        if self._errors:
            raise InternalError("; ".join(self._errors[:10])) from self._cause
        return self._is_quiet

    def _begin(self) -> None:
        for broker in self.nodes.values():
            broker.start()

    @property
    def _is_quiet(self) -> bool:
        return self.loop.time() >= max(self._busy_s, self._last_s) + QUIET_S

    def _look(self, until: float, progress: Callable[[float], None]) -> None:
        now = self.loop.time()
        progress(now)
        if any(True for _ in self._under_way()):
            self._busy_s = now
        if until == math.inf and self._is_quiet:
            self.loop.stop()
        elif now > self._last_s + ENDS_S and until == math.inf:
            busy = ", ".join(self._under_way())
            raise NoProgressError(f"at {now} s there is still under way: {busy}")
        elif now + LOOK_S < until:
            self.loop.call_later(LOOK_S, self._look, until, progress)

    def _under_way(self) -> Iterator[str]:
        """Yield what is still to end, in words."""
        gone = {broker.name for broker in self.nodes.values() if broker.gone}
        for client in self.clients.values():
            if not client.idle and client.broker not in gone:
                yield f"something of client {client.name}"
        for broker in self.nodes.values():
            if broker.up:
                yield from (f"{what} of {broker.name}" for what in broker.under_way(gone))

    # --- what became of it ------------------------------------------------------------------------

    def unseed(self) -> int:
        """Return a digest of all that was read."""
        return int(self.loop.connections.log.intdigest())

    def problems(self) -> list[str]:
        """Return problems that the checkers of all runs do not look for."""
        return [*self._failures(), *self._doubled(), *self._sessions_lost()]

    def _failures(self) -> Iterator[str]:
        for broker in self.nodes.values():
            for what, count in broker.failures.items():
                yield f"{count} {what}"
        for client in self.clients.values():
            if client.live is not None and client.live.ended is not None:
                yield f"client {client.name} ended: {client.live.ended}"
        yield from map(str, self._disk.damage)

    def _doubled(self) -> Iterator[str]:
        """Yield deliveries that an application got twice; to it a subscription is the same across
        reconnects."""
        for client in self.clients.values():
            if len(set(client.got)) < len(client.got):
                twice = {each for each in client.got if client.got.count(each) > 1}
                yield f"client {client.name} got twice: {sorted(twice)}"

    def _sessions_lost(self) -> Iterator[str]:
        """Yield sessions that were lost although no broker was restarted, and the client was not
        away for too long."""
        restarted = {f.broker for f in self.setup.faults if isinstance(f, Crash)}
        restarted |= {f.broker for f in self.wire.faults if isinstance(f, Stop)}
        for client in self.clients.values():
            for lost_s, found_s in client.anew if client.broker not in restarted else ():
                if found_s - lost_s < self.wire.limits.session_s:
                    yield f"client {client.name} lost its session at {lost_s}, was back {found_s}"


def _is_about(links: tuple[Edge, ...], ends: Edge) -> bool:
    return not links or ends in links or ends[::-1] in links
