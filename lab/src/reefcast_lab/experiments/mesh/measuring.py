"""The simulator with the instruments of these experiments; a network that has found its links.

As in the paper a *delivery* is the arrival of a publication at a broker with a matching subscriber,
other than the publisher's; what a broker gets without one makes it a *pure forwarder*. Every broker
gets a publication once at the most, so that deliveries and pure forwarders are all that is sent.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from reefcast.model.messages import ControlMessage, LinkName, Publish
from reefcast.overlay.topology import Edge, Graph
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.strategies import StrategyName
from reefcast.simulation.costs import CostModel
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.recording import BrokerTrace, Recording, tag_of
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.mesh.crossing import CURVE_S, Crossing, Passed
from reefcast_lab.experiments.mesh.parameters import section
from reefcast_lab.experiments.parameters import Section
from reefcast_lab.experiments.script import Claim, Event, Script

STRATEGIES: tuple[StrategyName, ...] = ("S0", "S1", "S2", "SH")
BASELINE: StrategyName = "S0"


class Said(Recording):
    """What brokers say to each other besides publications, by its name, in bytes."""

    def __init__(self, brokers: Sequence[str]) -> None:
        super().__init__(None, brokers, keep=False)
        self.bytes: Counter[str] = Counter()

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
        if type(message) is not Publish:
            self.bytes[tag_of(message)] += size


class MeshKernel(Kernel):
    """The kernel that counts what is said besides publications, until `forget` is called."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.forget()

    def forget(self) -> None:
        """Forget the counts, and count again from now on."""
        self.record: Said = Said(list(self.setup.graph))


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
    """What happened in an interval. `said_bytes`: of all but publications, by its name; `curve`:
    publications sent between brokers, by `CURVE_S`."""

    duration_s: float
    passed: Passed
    said_bytes: Counter[str]
    curve: list[int]

    @property
    def deliveries(self) -> int:
        return len(self.passed.hops)

    @property
    def bytes_sent(self) -> float:
        """The bytes of publications between brokers."""
        return self.passed.sends * self.passed.bytes_each


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
        self._crossing: Crossing | None = None
        self._simulated = Simulation(setup, kernel=MeshKernel)
        assert isinstance(self._simulated.world, MeshKernel)
        self.kernel = self._simulated.world

    def settle(self, claims: list[Claim], events: list[Event]) -> Passed | None:
        """Make all claims; then find links while these events last, and return what they did. Where
        there are none to find, nothing would be left of the events."""
        Script(claims=claims).load(self._simulated, 0.0)
        self._simulated.advance()
        self._crossing = Crossing(self.kernel, claims)
        if not self._finds_links:
            return None
        return self._crossing.pass_on(events, self._simulated.now_s)

    def observe(self, events: list[Event], duration_s: float, *, to_the_end: bool) -> Observed:
        """Observe `events` at times from 0 to `duration_s`; what happens in that time, or
        `to_the_end`. It is the last that happens."""
        assert self._crossing is not None, "nothing is observed before the claims"
        from_s = self._simulated.now_s
        until_s = from_s + duration_s
        self.kernel.forget()
        if to_the_end:
            passed = self._crossing.pass_on(events, from_s, rounds_until_s=until_s)
        else:
            passed = self._crossing.pass_on(events, from_s, until_s)
        first, number = int(from_s / CURVE_S) + 1, int(duration_s / CURVE_S) - 1
        curve = passed.over_time[first : first + max(number, 0)]
        return Observed(duration_s, passed, self.kernel.record.bytes, curve)

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
