"""The simulator with the instruments of these experiments; a network that has found its links.

As in the paper a *delivery* is the arrival of a publication at a broker with a matching subscriber,
other than the publisher's; what a broker gets without one makes it a *pure forwarder*. Every broker
gets a publication once at the most, so that deliveries and pure forwarders are all that is sent.
"""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from reefcast.model.messages import ControlMessage, Deliver, LinkName, Publish
from reefcast.overlay.topology import Edge, Graph
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.strategies import StrategyName
from reefcast.simulation.costs import CostModel
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import Link, LinkSpec
from reefcast.simulation.recording import BrokerTrace, Recording, tag_of
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.sizes import publication_size
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.mesh.parameters import section
from reefcast_lab.experiments.parameters import Section
from reefcast_lab.experiments.script import Claim, Event, Script

STRATEGIES: tuple[StrategyName, ...] = ("S0", "S1", "S2", "SH")
BASELINE: StrategyName = "S0"
CURVE_S = 10.0
"""Traffic over time is counted by so many seconds."""


class Arrivals(Recording):
    """Deliveries as columns, and the bytes of what brokers say to each other, by its name."""

    def __init__(self, brokers: Sequence[str]) -> None:
        super().__init__(None, brokers, keep=False)
        self.hops = array("l")
        self.delay_s = array("d")
        self.said_bytes: Counter[str] = Counter()

    def handed_out(self, trace: BrokerTrace | None, deliver: Deliver, at: float) -> None:
        super().handed_out(trace, deliver, at)
        publish = deliver.publish
        hops = publish.header.hops
        if hops:
            self.hops.append(hops)
            self.delay_s.append(at - publish.publication.time_us * 1e-6)

    def sent(
        self,
        trace: BrokerTrace | None,
        link: LinkName,
        message: ControlMessage | Publish,
        size: int,
        queue_len: int,
        at: float,
    ) -> None:
        super().sent(trace, link, message, size, queue_len, at)
        self.said_bytes[tag_of(message)] += size


class MeshKernel(Kernel):
    """The kernel with counters. It counts, until `forget` is called: publications by the broker
    that they were sent `to`, and those that each sent (`out`); and over time."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.forget()
        self.watch = self._note

    def forget(self) -> None:
        """Forget the counts, and count again from now on."""
        self.record: Arrivals = Arrivals(list(self.setup.graph))
        self.out: Counter[str] = Counter()
        self.to: Counter[str] = Counter()
        self.over_time: Counter[int] = Counter()

    def _note(self, link: Link, publish: Publish, at: float) -> None:
        self.out[link.source] += 1
        self.to[link.target] += 1
        self.over_time[int(at / CURVE_S)] += 1


@dataclass(frozen=True, kw_only=True)
class Brokers:
    """What they are like. `publication_s`: CPU for each publication that comes;
    `uplink_bytes_per_s`: for all links together; `capacity_per_s`: what a broker takes for the
    publications that it can send in a second."""

    publication_s: float
    uplink_bytes_per_s: float
    capacity_per_s: float


def brokers_with(publication_s: float = 0.0) -> Brokers:
    """Return brokers whose uplinks are never full; by default as fast as in M3."""
    entries = section("broker")
    takes_s = publication_s or entries.publication_s
    return Brokers(
        publication_s=takes_s,
        uplink_bytes_per_s=entries.uplink_bytes_per_s,
        capacity_per_s=1 / takes_s,
    )


def brokers_on(uplink_bytes_per_s: float, frame_bytes: float) -> Brokers:
    """Return brokers whose uplink is scarce."""
    return Brokers(
        publication_s=section("broker").publication_s,
        uplink_bytes_per_s=uplink_bytes_per_s,
        capacity_per_s=uplink_bytes_per_s / frame_bytes,
    )


class Observed(NamedTuple):
    """What happened in an interval. `sends`: publications between brokers; `hops`, `delay_s`: of
    each delivery; `to`, `out`: publications that each broker got and sent. `bytes_sent`: of
    publications; `said_bytes`: of all else, by its name. `over_time`: sends, by `CURVE_S`."""

    published: int
    duration_s: float
    sends: int
    hops: NDArray[np.int64]
    delay_s: NDArray[np.float64]
    to: Counter[str]
    out: Counter[str]
    bytes_sent: float
    said_bytes: Counter[str]
    over_time: list[int]

    @property
    def deliveries(self) -> int:
        return len(self.hops)


class MeshRun:
    """One network under one strategy: subscriptions are made, links found, intervals observed."""

    def __init__(
        self, tree: Graph, strategy: str, fanout: int, brokers: Brokers, scale: str, seed: int
    ) -> None:
        entries = section("mesh", scale)
        options = _options(entries, strategy, fanout, brokers)
        setup = Setup(
            graph=tree,
            routing="mesh",
            options=options,
            broker_options=_in_their_own_time(options, tree, entries.round_spread, seed),
            seed=seed,
            costs=CostModel(publication_s=brokers.publication_s, matched_row_s=0.0, copy_s=0.0),
            link=LinkSpec(latency_s=entries.latency_s, bytes_per_s=brokers.uplink_bytes_per_s),
            sender="broker",
            keep_deliveries=False,
        )
        self._finds_links = strategy != BASELINE
        self._simulated = Simulation(setup, kernel=MeshKernel)
        assert isinstance(self._simulated.world, MeshKernel)
        self.kernel = self._simulated.world

    def settle(self, claims: list[Claim], events: list[Event]) -> None:
        """Make all claims; then find links while these events last. Where there are none to find,
        nothing would be left of the events."""
        Script(claims=claims).load(self._simulated, 0.0)
        self._simulated.advance()
        if not self._finds_links:
            return
        Script(events=events).load(self._simulated, self._simulated.now_s)
        self._simulated.advance()

    def observe(self, events: list[Event], duration_s: float, *, to_the_end: bool) -> Observed:
        """Observe `events` at times from 0 to `duration_s`; what happens in that time, or
        `to_the_end`."""
        from_s = self._simulated.now_s
        Script(events=events).load(self._simulated, from_s)
        self.kernel.forget()
        self._simulated.advance(from_s + duration_s)
        if to_the_end:
            self._simulated.advance()
        return self._observed(events, from_s, duration_s)

    def _observed(self, events: list[Event], from_s: float, duration_s: float) -> Observed:
        kernel = self.kernel
        first, number = int(from_s / CURVE_S) + 1, int(duration_s / CURVE_S) - 1
        published = [entry[1] for entry in list(kernel.published.values())[-len(events) :]]
        sends = kernel.record.forwarded
        return Observed(
            published=len(events),
            duration_s=duration_s,
            sends=sends,
            hops=np.array(kernel.record.hops, dtype=np.int64),
            delay_s=np.array(kernel.record.delay_s),
            to=kernel.to,
            out=kernel.out,
            bytes_sent=sends * float(np.mean([publication_size(one) for one in published])),
            said_bytes=kernel.record.said_bytes,
            over_time=[kernel.over_time[first + i] for i in range(number)],
        )

    def soft_links(self) -> set[Edge]:
        """Return the present soft links, each once."""
        return {
            (name, other)
            for name, node in self.kernel.nodes.items()
            for other, state in node.core.soft_links.items()
            if state.up and name < other
        }


def _options(entries: Section, strategy: str, fanout: int, brokers: Brokers) -> MeshOptions:
    """Return the options of a strategy; the baseline has no soft links at all."""
    soft = strategy != BASELINE
    return msgspec.convert(
        {
            "strategy": strategy,
            "delta": entries.delta,
            "fanout": fanout if soft else 1,
            "maxlinks": fanout + entries.candidates if soft else 1,
            "round_s": entries.round_s,
            "capacity_per_s": brokers.capacity_per_s,
        },
        MeshOptions,
    )


def _in_their_own_time(
    options: MeshOptions, brokers: Iterable[str], spread: float, seed: int
) -> dict[str, MeshOptions]:
    """Give each broker a round length of its own: with rounds at the same instant, brokers whose
    room is taken by their own requests would refuse the requests of all others."""
    rng = random.Random(f"{seed}/mesh/rounds")
    return {
        broker: msgspec.structs.replace(
            options, round_s=options.round_s * rng.uniform(1 - spread, 1 + spread)
        )
        for broker in brokers
    }
