"""A live broker in simulated time, through all of its lives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextvars import copy_context
from typing import Any, Protocol

from reefcast.model.messages import Effect, LinkName, Publish, Send
from reefcast.network.file import NetworkFile
from reefcast.routing.broker import Broker
from reefcast.server.broker_link import BrokerLink
from reefcast.server.dialing import dial
from reefcast.server.keeper import Keeping
from reefcast.server.node import Node
from reefcast.simulation.wire.loop import SimulatedLoop
from reefcast.simulation.wire.machines import SimulatedMachine

Handle = Callable[[Any, LinkName, float], list[Effect]]


class Observer(Protocol):
    """Whoever is told what the brokers do."""

    def lost(self, publish: Publish) -> None:
        """Note a publication that is lost, or was only in the memory of a broker that died."""

    def sent(self, link: LinkName, message: Any) -> None:
        """Note a message of a broker's core to a neighbour."""

    def forwarded(self, count: int) -> None:
        """Note how many copies the compiled path sent to neighbours."""


class WireBroker:
    """`observer` is told what it does. `gone`: it died, and will not come back. `failures`: its
    failures, and unexpected events, by kind."""

    def __init__(
        self,
        name: str,
        network: NetworkFile,
        seed: str,
        loop: SimulatedLoop,
        observer: Observer,
    ) -> None:
        self.name = name
        self.neighbours: tuple[LinkName, ...] = tuple(network.neighbours(name))
        self.machine: SimulatedMachine
        self.node: Node
        self.up = self.gone = False
        self.slow = 0.0
        self._network = network
        self._brokers = frozenset(network.names)
        self._seed = seed
        self._loop = loop
        self._observer = observer
        self._outside = copy_context()
        self._lives: list[tuple[SimulatedMachine, Node]] = []

    @property
    def core(self) -> Broker:
        return self.node.host.core

    @property
    def linked(self) -> tuple[LinkName, ...]:
        return self.node.overlay_links.connected

    @property
    def failures(self) -> dict[str, int]:
        found = {}
        for life, (_, node) in enumerate(self._lives):
            for kind in ("failures", "out_of_place"):
                if count := node.host.journal.counters[kind]:
                    found[f"{kind} of {self.name} in life {life}"] = count
        return found

    def under_way(self, gone: Collection[LinkName]) -> Iterator[str]:
        """Yield what the broker waits for, in words. It waits for neighbours that are `gone` until
        it gives up."""
        host = self.node.host
        for link in self.node.overlay_links.links.values():
            if link.state == "broken" or (link.state == "away" and link.name not in gone):
                yield f"the link to {link.name}"
        for queue in host.outputs.links.values():
            if not queue.window.all_acknowledged:
                yield f"what is for {queue.name}"
        for client, port in host.outputs.clients.items():
            if port.line is None or port.waits or port._sent:  # it has not acknowledged all
                yield f"what is for client {client}"
        if any(True for _ in self.core.waiting()):
            yield "publications that are held back"
        if host.driver.awaits_timer:
            yield "a timer"

    # --- lives ------------------------------------------------------------------------------------

    def start(self) -> None:
        life = len(self._lives)
        self.machine = SimulatedMachine(self.name, f"{self._seed}/{self.name}/{life}", self._loop)
        self.machine.slow = self.slow
        self.machine.context.run(self._begin)

    def new_keeper(self) -> Keeping | None:
        """Return what this life of the broker keeps durable sessions with; None: it has none."""
        return None

    def _begin(self) -> None:
        self.node = Node(self._network, self.name, keeper=self.new_keeper())
        self._lives.append((self.machine, self.node))
        journal = self.node.host.journal
        lost = journal.lost

        def listening(publish: Publish, reason: str, link: LinkName) -> None:
            lost(publish, reason, link)
            self._observer.lost(publish)

        journal.lost = listening  # type: ignore[method-assign]  # the journal keeps no ids itself
        for name in ("handle", "handle_publications"):
            setattr(self.core, name, self._counting(getattr(self.core, name)))
        self._count_compiled()
        self.up = True
        self._loop.create_task(self.node.start())

    def _counting(self, handle: Handle) -> Handle:
        """Wrap a handler so that what follows is counted: counters of live brokers do not have
        it."""

        def handled(what: Any, link: LinkName, now: float) -> list[Effect]:
            effects = handle(what, link, now)
            for effect in effects:
                if isinstance(effect, Send) and effect.link in self._brokers:
                    self._observer.sent(effect.link, effect.message)
            return effects

        return handled

    def _count_compiled(self) -> None:
        """Count the copies for neighbours that the compiled path makes: no effect tells of them."""
        way = self.core.plain_way
        passed = way.passed

        def counting(*what: Any) -> None:
            passed(*what)
            self._observer.forwarded(sum(what[-1].values()))

        setattr(way, "passed", counting)  # noqa: B010 (live brokers have no use for it)

    def kill(self, *, for_good: bool = False) -> None:
        """Kill the broker as `kill -9` does: its memory is gone."""
        self.gone = for_good
        if not self.up:
            return
        self.up = False
        for queue in self.node.host.outputs.links.values():
            for publish in queue.window.publications():
                self._observer.lost(publish)
        for publish in self.core.waiting():
            self._observer.lost(publish)
        self._loop.kill(self.machine)

    def stop(self, then: Callable[[], None]) -> None:
        """Stop the broker as SIGTERM does: it drains, and then its process ends."""
        if self.up:
            self.machine.context.run(self._loop.create_task, self._stop(self.node, then))

    async def _stop(self, node: Node, then: Callable[[], None]) -> None:
        await node.stop()
        self._loop.call_soon(self._stopped, node, then, context=self._outside)

    def _stopped(self, node: Node, then: Callable[[], None]) -> None:
        if self.up and self.node is node:
            self.kill()
            then()

    def be_slow(self, share: float) -> None:
        """Slow the broker down from now on, also after restarts."""
        self.slow = self.machine.slow = share

    def dial_again(self, neighbour: LinkName) -> None:
        """Make a second connection to the neighbour, if it is this broker's to dial."""
        link = self.node.overlay_links.links.get(neighbour)
        if self.up and link is not None and link.dials:
            self.machine.context.run(self._loop.create_task, self._dial(link))

    async def _dial(self, link: BrokerLink) -> None:
        links, address = self.node.overlay_links, self._network.address(link.name)
        await dial(self.node.shared, address, lambda: links.new_connection(link))
