"""Scenarios: a network, clients with scripts, faults, one seed; and their results.

    simulation = Simulation(Setup(graph=path(names(3)), seed=1))
    simulation.subscribe("alice", "b3", "price < 100", at_s=0.0)
    simulation.publish("bob", "b1", {"price": 90}, at_s=1.0)
    result = simulation.run()

One seed gives one run: the same setup and scripts give the same result and the same trace, to the
last byte, on every machine with the same versions of the libraries."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.history.asking import question_about
from reefcast.history.limits import Limits
from reefcast.model.filters import parse_filter
from reefcast.model.flat import as_sent
from reefcast.model.publication import Publication, PublicationId
from reefcast.model.topics import topic_filter
from reefcast.overlay.topology import edges_of
from reefcast.routing.tables import MOST_ROWS
from reefcast.simulation.clients import Asked, Claim, Scripted
from reefcast.simulation.faults import fault_mark
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.node import Node
from reefcast.simulation.past import PATIENCE_S, Requesting, Storing
from reefcast.simulation.recording import Deliveries, microseconds
from reefcast.simulation.stage import Stage, StageNode
from reefcast.simulation.wire.faults import Wire
from reefcast.simulation.world import Setup, World

GC_ALLOCATIONS = 100_000
"""During a run, Python's garbage collector examines the youngest objects after this many new
ones."""
WITHDRAWN = ("subscribe", "advertise", "store")
MESSAGE_LIMIT = 50_000_000
"""Messages between brokers after which a run that was given no other limit is stopped."""


@dataclass(frozen=True, slots=True)
class Published:
    """One publication as its broker got it. `handle` is the scenario's number for it."""

    handle: int
    publication: Publication
    broker: str


@dataclass(frozen=True, slots=True)
class Result:
    """A run so far. `quiet`: nothing is under way. `messages`: between brokers, by kind.
    `refused`: publications outside what their publishers advertised; `damaged`: those that a fault
    touched. `duration_s`: simulated time. `asked`: questions about the past, by client."""

    seed: int
    unseed: int
    quiet: bool
    duration_s: float
    published: list[Published]
    claims: list[Claim]
    messages: dict[str, int]
    counters: dict[str, int]
    discards: dict[str, int]
    refused: frozenset[PublicationId]
    damaged: frozenset[PublicationId]
    delivered_clients: int
    delivered_subscriptions: int
    asked: list[Asked]


_runs = itertools.count(1)
RUNS_BETWEEN = 16
"""Runs between two full collections: a finished simulation is a cycle, and would be frozen with the
next one again and again, and stay for ever."""


@contextmanager
def _setup_is_no_garbage() -> Iterator[None]:
    """Keep tables and scripts out of Python's garbage collector: examining them again and again
    would make a run a fifth slower. Reference counts free the objects of a run, so the collector
    finds little; and long queues of messages take long to examine. A program that has frozen
    objects itself keeps them frozen: `gc.unfreeze` would give back all."""
    thresholds = gc.get_threshold()
    if next(_runs) % RUNS_BETWEEN == 0:
        gc.collect()
    freezes = gc.get_freeze_count() == 0
    if freezes:
        gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if freezes:
            gc.unfreeze()


def _links_status(node: StageNode) -> Iterator[dict[str, Any]]:
    """Yield the status of the links of the overlay, and of the soft links that the core has."""
    for link in node.neighbours:
        yield {"link": link, "state": "up" if link in node.linked else "away"}
    for link, soft in node.core.soft_links.items():
        yield {"link": link, "state": "up" if soft.up else soft.value}


def _wire_world(setup: Setup, wire: Wire | bool) -> Stage:
    from reefcast.simulation.wire.world import WireWorld

    return WireWorld(setup, Wire() if wire is True or wire is False else wire)


class Simulation:
    """See the module's docstring. `kernel`: the fast one, or its plain twin.

    `wire`: run live brokers and clients, and simulate what is between them: see `wire.world`; a
    `Wire` says what else happens there. Costs of the CPU and traces are for simulated messages
    only, storages and questions about the past for live brokers only."""

    def __init__(
        self, setup: Setup, kernel: type[World] = Kernel, *, wire: Wire | bool = False
    ) -> None:
        self.setup = setup
        self.world = _wire_world(setup, wire) if wire else kernel(setup)
        self.quiet_at: list[float] = []
        self._quiet = False

    # --- scripts ----------------------------------------------------------------------------------

    def subscribe(
        self, client: str, broker: str, filter: str, at_s: float, *, order_s: float = 0.0
    ) -> int:
        """Have the client subscribe; return a handle for `withdraw`. `order_s`: see `Subscribe`."""
        return self._claim("subscribe", client, broker, filter, at_s, order_s)

    def advertise(self, client: str, broker: str, filter: str, at_s: float) -> int:
        """Have the client advertise; return a handle for `withdraw`."""
        return self._claim("advertise", client, broker, filter, at_s)

    def withdraw(self, handle: int, at_s: float) -> None:
        """Withdraw what `subscribe`, `advertise` or `store` gave the handle for."""
        made = self.world.scripts.get(handle)
        if made is None or made.kind not in WITHDRAWN or at_s < made.at_s:
            raise ConfigurationError(f"handle {handle} is nothing that was there at {at_s} s")
        script = Scripted(at_s, handle, made.client, "withdraw")
        self._schedule(self.world.next_handle(), script)

    def publish(
        self,
        client: str,
        broker: str,
        attributes: Mapping[str, object],
        at_s: float,
        *,
        topics: tuple[str, ...] = (),
        payload: bytes = b"",
    ) -> int:
        """Have the client publish; return a handle, by which `Result.published` names the event."""
        self.world.client(client, broker)
        handle = self.world.next_handle()
        checked = as_sent(attributes)
        script = Scripted(at_s, handle, client, "publish", "", checked, topics, payload)
        self._schedule(handle, script)
        return handle

    def store(
        self,
        client: str,
        broker: str,
        topics: Sequence[str],
        at_s: float,
        *,
        lifetime_s: float = math.inf,
    ) -> int:
        """Make the client a storage of these topics (names and patterns), which forgets what is
        older than `lifetime_s`; return a handle for `withdraw`, which ends its program. The storage
        answers for them once the other storages have sent what it lacks, which takes some seconds.
        """
        self._needs_wire("storages")
        parse_filter(topic_filter(topics))
        if any(s.kind == "store" and s.client == client for s in self.world.scripts.values()):
            raise ConfigurationError(f"client {client} is a storage already")
        self.world.client(client, broker)
        limits = Limits(lifetimes_s={"#": lifetime_s} if lifetime_s < math.inf else {})
        handle = self.world.next_handle()
        wanted = tuple(topics)
        script = Storing(at_s, handle, client, "store", topics=wanted, limits=limits)
        self._schedule(handle, script)
        return handle

    def request(
        self,
        client: str,
        broker: str,
        filter: str,
        at_s: float,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        limit: int = 0,
        handover_s: float = 0.0,
        patience_s: float = PATIENCE_S,
    ) -> int:
        """Have the client ask for what is stored (see `Client.history`); return a handle, by which
        `Result.asked` names it. The client asks again after `patience_s` without an answer."""
        question = question_about(
            filter,
            since_us=None if since_s is None else microseconds(since_s),
            until_us=None if until_s is None else microseconds(until_s),
            limit=limit,
            handover_s=handover_s,
        )
        self._needs_wire("questions about the past")
        self.world.client(client, broker)
        handle = self.world.next_handle()
        script = Requesting(
            at_s, handle, client, "request", question=question, patience_s=patience_s
        )
        self._schedule(handle, script)
        return handle

    def _needs_wire(self, what: str) -> None:
        if isinstance(self.world, World):
            raise ConfigurationError(f"{what} need live brokers and clients: give wire=True")

    def _claim(
        self, kind: str, client: str, broker: str, filter: str, at_s: float, order_s: float = 0.0
    ) -> int:
        parse_filter(filter)
        self.world.client(client, broker)
        handle = self.world.next_handle()
        script = Scripted(at_s, handle, client, kind, filter, order_s=order_s)
        self._schedule(handle, script)
        return handle

    def _schedule(self, number: int, script: Scripted) -> None:
        if not self.world.now <= script.at_s < math.inf:
            raise ConfigurationError(
                f"{script.kind} of {script.client} at {script.at_s} s: "
                f"the run is at {self.world.now} s already"
            )
        self.world.scripts[number] = script
        self.world.schedule(number, script.at_s)

    # --- runs -------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self.world.now

    def run(
        self,
        until_s: float = math.inf,
        limit: int | None = None,
        progress: Callable[[float], None] = lambda now_s: None,
    ) -> Result:
        """Run until nothing is under way, or up to `until_s`; may be called again, after more
        scripts. `progress` is called with the simulated time now and then. Raises `NoProgressError`
        after `limit` messages (`MESSAGE_LIMIT` if None)."""
        self.advance(until_s, limit, progress)
        return self.result()

    def advance(
        self,
        until_s: float = math.inf,
        limit: int | None = None,
        progress: Callable[[float], None] = lambda now_s: None,
    ) -> bool:
        """Run as `run` does; return only whether nothing is under way. A result has all that was
        published and claimed so far: who lets time pass in many steps does without."""
        with _setup_is_no_garbage():
            self._quiet = self.world.run(until_s, limit or MESSAGE_LIMIT, progress)
        if self._quiet:
            self.quiet_at.append(self.world.now)
        self.world.record.flush()
        self.world.record.write_run(self._description())
        return self._quiet

    def _description(self) -> dict[str, Any]:
        scot = self.setup.scot
        return {
            "simulated": True,
            "routing": self.setup.routing,
            "brokers": list(self.setup.graph),
            "links": [list(edge) for edge in edges_of(self.setup.graph)],
            "places": msgspec.to_builtins(scot.places) if scot else {},
            "seed": self.setup.seed,
            "faults": [fault_mark(fault) for fault in self.setup.faults],
        }

    def result(self) -> Result:
        record = self.world.record
        return Result(
            seed=self.setup.seed,
            unseed=self.world.unseed(),
            quiet=self._quiet,
            duration_s=self.world.now,
            published=[Published(*entry) for entry in self.world.published.values()],
            claims=[c for client in self.world.clients.values() for c in client.claims],
            messages={"publish": record.forwarded, **dict(sorted(record.control.items()))},
            counters=dict(sorted(record.counters.items())),
            discards=dict(sorted(record.discards.items())),
            refused=frozenset(id for c in self.world.clients.values() for id in c.refused),
            damaged=frozenset(record.damaged),
            delivered_clients=record.delivered_clients,
            delivered_subscriptions=record.delivered_subscriptions,
            asked=[a for c in self.world.clients.values() for a in c.asked],
        )

    def status(
        self, asked: Collection[str] = (), most_rows: int = MOST_ROWS
    ) -> dict[str, dict[str, Any] | None]:
        """Return what each broker reports now (`Broker.status`), with the state of its links and
        its clients as a live broker reports them; None for a broker that is down."""
        return {
            name: self._broker_status(node, asked, most_rows) if node.up else None
            for name, node in self.world.nodes.items()
        }

    def _broker_status(
        self, node: StageNode, asked: Collection[str], most_rows: int
    ) -> dict[str, Any]:
        if isinstance(node, Node):  # whose queues are of this time
            node.now = self.world.now
        return {
            **node.core.status(self.world.now, asked, most_rows),
            "links": [*_links_status(node)],
            "clients": [{"client": name} for name in node.core.clients],
        }

    def deliveries(self) -> Deliveries:
        """Return one row per publication and subscription; see `Setup.keep_deliveries`."""
        return self.world.record.deliveries()
