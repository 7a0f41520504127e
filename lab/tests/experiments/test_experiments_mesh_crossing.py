"""The compiled loop does what the kernel does, to the last digit, while brokers find links."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reefcast.errors import LocalError
from reefcast.model.messages import Deliver, Publish
from reefcast.overlay.topology import Graph, graph
from reefcast.routing.links import Links
from reefcast.routing.mesh import gains, overlay
from reefcast.routing.mesh.gains import Period, Round
from reefcast.routing.mesh.maps import Neighbourhood
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.strategies import StrategyName
from reefcast.simulation.costs import CostModel, preset
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import Link, LinkSpec
from reefcast.simulation.node import Node
from reefcast.simulation.recording import BrokerTrace
from reefcast.simulation.senders import Sender
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.sizes import publication_size
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.mesh import crossing, light, loop, measuring, meshes, throughput
from reefcast_lab.experiments.mesh.crossing import Crossing, Passed
from reefcast_lab.experiments.mesh.parameters import section
from reefcast_lab.experiments.script import Claim, Event, Script

TINY: dict[str, dict[str, Any]] = {
    "overlay": {"C1": 22, "C2": 30, "C3": 22, "CPL": 10},
    "mesh": {"subscribe_s": 0.5, "round_s": 2.0},
    "light": {"duration_s": 12.0},
    "covering": {"fanouts": [5, 10], "warm_rounds": 2},
    "throughput": {"per_minute": 12_000, "warm_rounds": 3, "duration_s": 2.5},
    "uplinks": {"warm_rounds": 2, "duration_s": 5.0},
    "planetlab": {"warm_rounds": 2, "duration_s": 5.0},
    "friends": {"warm_rounds": 2, "duration_s": 5.0},
    "social": {"users": 60, "pairs": 120, "interactions": 900},
    **{f"DT{number}": {"subscriptions": 120, "feeds": 20} for number in range(1, 6)},
    "DT-C": {"subscriptions": 120, "feeds": 10},
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("REEFCAST_SOCIAL", raising=False)
    for name, values in TINY.items():
        for key, value in values.items():
            monkeypatch.setitem(section(name, "small")._values, key, value)
    monkeypatch.setitem(section("throughput", "small")._values, "publication_s", 0.02)
    monkeypatch.setattr(crossing, "ROOM", 128)  # so that room is made
    yield


class Simulated:
    """What `Crossing` does, with the kernel alone: its twin."""

    def __init__(self, simulated: Simulation) -> None:
        self.simulated = simulated
        assert isinstance(simulated.world, Kernel)
        self.kernel = simulated.world
        self.kernel.watch = self._sent

    def _sent(self, link: Link, publish: Publish, at: float) -> None:
        self.out[link.source] += 1
        self.to[link.target] += 1
        self.over_time[int(at / crossing.CURVE_S)] += 1

    def _handed_out(self, trace: BrokerTrace | None, deliver: Deliver, at: float) -> None:
        if deliver.publish.header.hops:
            self.hops.append(deliver.publish.header.hops)
            self.delay_s.append(at - deliver.publish.publication.time_us * 1e-6)

    def pass_on(
        self,
        events: Sequence[Event],
        from_s: float,
        until_s: float = np.inf,
        rounds_until_s: float = 0.0,
    ) -> Passed:
        self.out, self.to, self.over_time = Counter[str](), Counter[str](), Counter[int]()
        self.hops, self.delay_s = list[int](), list[float]()
        record: Any = self.kernel.record
        record.handed_out = self._handed_out
        before = self.kernel.record.forwarded
        Script(events=list(events)).load(self.simulated, from_s)
        if until_s < np.inf:
            self.simulated.advance(until_s)
        else:
            if rounds_until_s:
                self.simulated.advance(rounds_until_s)
            self.simulated.advance()
        published = [entry[1] for entry in list(self.kernel.published.values())[-len(events) :]]
        return Passed(
            published=len(events),
            sends=self.kernel.record.forwarded - before,
            hops=np.array(self.hops, np.int64),
            delay_s=np.array(self.delay_s),
            to=self.to,
            out=self.out,
            over_time=[self.over_time[i] for i in range(400)],
            bytes_each=float(np.mean([publication_size(one) for one in published] or [0.0])),
        )


@pytest.fixture
def with_kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that has publications pass through the kernel from now on."""
    made: list[Simulation] = []

    def simulation(*given: Any, **named: Any) -> Simulation:
        made[:] = [Simulation(*given, **named)]
        return made[0]

    def switch() -> None:
        monkeypatch.setattr(measuring, "Simulation", simulation)
        monkeypatch.setattr(measuring, "Crossing", lambda kernel, claims: Simulated(made[0]))

    return switch


CAMPAIGNS = {
    "light": light.CAMPAIGN,
    "covering": meshes.COVERING_SETS,
    **{
        one.name: one
        for one in (throughput.DT1, throughput.UPLINK, throughput.LAB, throughput.SOCIAL_TRACE)
    },
}


@pytest.mark.parametrize(
    ("campaign", "strategy", "x"),
    [
        ("light", "S0", 1.0),
        ("light", "SH", 2.0),
        ("covering", "S2", 22.0),
        ("throughput-DT1", "S1", 5.0),
        ("throughput-DT1", "SH", 35.0),
        ("uplinks", "SH", 20.0),
        ("planetlab", "S2", 5.0),
        ("friends", "S2", 20.0),
    ],
)
def test_all_figures_are_those_of_the_kernel(
    campaign: str, strategy: str, x: float, with_kernel: Any
) -> None:
    run = Run("mesh", "small", campaign, strategy, x, "", 1)
    compiled = list(CAMPAIGNS[campaign].measure(run))
    with_kernel()
    simulated = list(CAMPAIGNS[campaign].measure(run))
    assert [one._replace(value=0.0) for one in compiled] == [
        one._replace(value=0.0) for one in simulated
    ]
    values = [one.value for one in simulated]
    assert [one.value for one in compiled] == pytest.approx(values, rel=1e-12, abs=0)


# --- any mesh -------------------------------------------------------------------------------------

BROKERS = 14


class Scenario(NamedTuple):
    """`parents`: the tree. `publication_s`, `bytes_per_s`: what may be too slow. `rate`:
    publications a second, in each of two periods. `at_once`: publications and rounds are due at
    the same instants, and only the former take time."""

    strategy: StrategyName
    parents: tuple[int, ...]
    delta: int
    fanout: int
    publication_s: float
    bytes_per_s: float
    capacity_per_s: float
    rate: float
    until_s: float
    at_once: bool
    rng: random.Random


scenarios = st.builds(
    Scenario,
    strategy=st.sampled_from(("S0", "S1", "S2", "SH")),
    parents=st.tuples(*(st.integers(0, number) for number in range(BROKERS - 1))),
    delta=st.integers(2, 4),
    fanout=st.integers(3, 8),
    publication_s=st.sampled_from((0.0, 0.001, 0.02, 0.2)),
    bytes_per_s=st.sampled_from((125e6, 20_000.0, 2_000.0)),
    capacity_per_s=st.sampled_from((0.0, 10.0, 50.0)),
    rate=st.sampled_from((5.0, 40.0)),
    until_s=st.sampled_from((3.0, math.inf)),
    at_once=st.booleans(),
    rng=st.randoms(use_true_random=False),
)


def tree_of(parents: Sequence[int]) -> Graph:
    brokers = [f"b{number:02}" for number in range(len(parents) + 1)]
    return graph(brokers, [(brokers[i + 1], brokers[parent]) for i, parent in enumerate(parents)])


def script_of(one: Scenario) -> tuple[list[Claim], list[list[Event]]]:
    """Make 30 subscriptions, two publishers, and publications of two periods of 4 s."""
    rng, names = one.rng, list(tree_of(one.parents))
    claims = [Claim(f"p{i}", rng.choice(names), "a >= 0", 0.0, advertises=True) for i in range(2)]
    for i in range(30):
        low = rng.randrange(20)
        text = f"a BETWEEN {low} AND {low + rng.randrange(6)}"
        claims.append(Claim(f"s{i}", rng.choice(names), text, 1.0 + i * 0.01))
    periods = []
    for _ in range(2):
        times = sorted(rng.uniform(0.0, 4.0) for _ in range(int(4 * one.rate)))
        if one.at_once:
            times = [round(4 * at_s) / 4 for at_s in times]
        publishers = [claims[rng.randrange(2)] for _ in times]
        periods.append(
            [
                Event(who.client, who.broker, {"a": rng.randrange(25)}, at_s)
                for who, at_s in zip(publishers, times, strict=True)
            ]
        )
    return claims, periods


def outcome(
    one: Scenario, claims: list[Claim], periods: list[list[Event]], *, compiled: bool
) -> list[Any]:
    """Return all that the two periods did, what brokers saw of their links in each round, and what
    they think of them in the end."""
    seen = defaultdict[str, list[Any]](list)

    def one_round(mom: Neighbourhood, links: Any, period: Period, *others: Any) -> Round:
        seen[mom.me].append((links, period))
        return gains.one_round(mom, links, period, *others)

    with patch.object(overlay, "one_round", one_round):
        return [*_outcome(one, claims, periods, compiled=compiled), seen]


def _outcome(
    one: Scenario, claims: list[Claim], periods: list[list[Event]], *, compiled: bool
) -> list[Any]:
    soft = one.strategy != "S0"
    options = MeshOptions(
        strategy=one.strategy,
        delta=one.delta,
        fanout=one.fanout if soft else 1,
        maxlinks=one.fanout + 3 if soft else 1,
        round_s=0.75,
        capacity_per_s=one.capacity_per_s,
    )
    lengths = [0.75 + 0.01 * (not one.at_once) * number for number in range(BROKERS)]
    own = {
        name: msgspec.structs.replace(options, round_s=length)
        for name, length in zip(tree_of(one.parents), lengths, strict=True)
    }
    costs = CostModel(publication_s=one.publication_s, matched_row_s=0.0, copy_s=0.0)
    if one.at_once:
        costs = replace(preset("free"), publication_s=0.25 if one.publication_s else 0.0)
    setup = Setup(
        graph=tree_of(one.parents),
        routing="mesh",
        options=options,
        broker_options=own,
        costs=costs,
        link=LinkSpec(latency_s=0.001, bytes_per_s=one.bytes_per_s),
        sender="broker",
        keep_deliveries=False,
    )
    simulated = Simulation(setup, kernel=measuring.MeshKernel)
    kernel = simulated.world
    assert isinstance(kernel, measuring.MeshKernel)
    Script(claims=claims).load(simulated, 0.0)
    simulated.advance()
    passing = Crossing(kernel, claims) if compiled else Simulated(simulated)
    first = passing.pass_on(periods[0], math.ceil(simulated.now_s))
    found: list[Any] = [simulated.now_s]
    found += [(node.busy_until, _sender(node).free_at) for node in kernel.nodes.values()]
    from_s = math.ceil(simulated.now_s)
    round_s = math.ceil((from_s + 4.0) / 0.75) * 0.75
    second = passing.pass_on(periods[1], from_s, from_s + one.until_s, rounds_until_s=round_s)
    found.append(simulated.now_s)
    for passed in (first, second):
        counts = (+passed.to, +passed.out, +Counter(dict(enumerate(passed.over_time))))
        # In the kernel's order but around the time until which rounds go on, where it stops.
        deliveries = sorted(zip(passed.hops.tolist(), passed.delay_s.tolist(), strict=True))
        found += [passed.sends, deliveries, *counts]
    found += [dict(kernel.record.control), kernel.record.bytes]
    for node in kernel.nodes.values():
        mesh = node.core.router.mesh  # type: ignore[attr-defined]  # it is a mesh's
        found.append((node.name, mesh.soft_links, mesh.candidates, mesh.reports, mesh._loads))
    return found


def _sender(node: Node) -> Sender:
    return next(iter(node.links.values())).sender


BUSY = ("SH", (*[0] * 5, *[1] * 5, *[7] * 3), 3, 6, 0.02, 2e3, 10.0, 40.0, 3.0, False)
QUIET = ("S2", (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6), 3, 4, 0.0, 125e6, 0.0, 5.0, math.inf, True)
SLOW = ("S2", tuple(range(13)), 4, 4, 0.2, 125e6, 0.0, 40.0, 3.0, True)


@example(Scenario(*BUSY, random.Random(1)))
@example(Scenario(*SLOW, random.Random(2)))
@example(Scenario(*QUIET, random.Random(3)))
@given(scenarios)
@settings(deadline=None, max_examples=20)
def test_any_mesh_does_what_it_does_in_the_kernel(one: Scenario) -> None:
    claims, periods = script_of(one)
    compiled = outcome(one, claims, periods, compiled=True)
    assert compiled == outcome(one, claims, periods, compiled=False)


@given(st.lists(st.floats(0.0, 6.0), max_size=30), st.lists(st.floats(0.0, 6.0), min_size=1))
def test_rates_of_links_are_those_of_a_broker(copies: list[float], looks: list[float]) -> None:
    twin, links = Links(), crossing._link_arrays(1, 1)
    for at, puts in sorted([*((at, True) for at in copies), *((at, False) for at in looks)]):
        twin.pass_time(at)
        if puts:
            loop.count_copy(links, 0, at)
            twin.goes("b")
        else:
            last = loop.copies_in(links, 0, int(at) - 1)
            assert twin.rates("b").out_per_s == last


def simulation_of(**named: Any) -> tuple[Simulation, Kernel]:
    free = CostModel(publication_s=0.001, matched_row_s=0.0, copy_s=0.0)
    made: dict[str, Any] = {"graph": tree_of((0, 1, 1)), "costs": free, "sender": "broker"}
    simulated = Simulation(Setup(routing="mesh", **made | {"options": MeshOptions()} | named))
    assert isinstance(simulated.world, Kernel)
    return simulated, simulated.world


@pytest.mark.parametrize(
    "wrong",
    [
        {"costs": CostModel()},
        {"sender": "link"},
        {"link": LinkSpec(jitter_s=0.1)},
        {"options": None},
        {"graph": graph(["b00"], [])},
        {"broker_options": {"b01": MeshOptions(strategy="S1")}},
        {"broker_options": {"b01": MeshOptions(capacity_per_s=10.0)}},
    ],
)
def test_a_network_that_the_loop_does_not_know_is_refused(wrong: dict[str, Any]) -> None:
    simulated, kernel = simulation_of(**wrong)
    simulated.advance()
    with pytest.raises(LocalError, match="the loop knows"):
        Crossing(kernel, [])


def test_a_network_that_is_not_at_rest_is_refused() -> None:
    _, kernel = simulation_of()
    with pytest.raises(LocalError, match="nothing is under way or planned"):
        Crossing(kernel, [])  # brokers are not up yet
    simulated, kernel = simulation_of()
    simulated.publish("p", "b00", {"a": 1}, 0.0)
    simulated.advance()
    with pytest.raises(LocalError, match="before the first publication"):
        Crossing(kernel, [])


def test_a_network_with_a_message_on_a_link_alone_is_refused() -> None:
    simulated, kernel = simulation_of()
    simulated.advance()
    simulated.advertise("p", "b00", "a >= 0", simulated.now_s)
    nodes = list(kernel.nodes.values())
    while not any(out.flight for node in nodes for out in node.links.values()):
        kernel.step()
    assert not any(node.queue or node.leaving or node.urgent for node in nodes)
    with pytest.raises(LocalError, match="nothing is under way or planned"):
        Crossing(kernel, [])


def test_a_broker_of_too_many_links_is_refused() -> None:
    star = [f"b{number:02}" for number in range(loop.MOST + 2)]
    simulated, kernel = simulation_of(graph=graph(star, [(star[0], leaf) for leaf in star[1:]]))
    simulated.advance()
    with pytest.raises(LocalError, match="62 links and candidates, not of 63"):
        Crossing(kernel, [])


def test_scripts_that_the_loop_does_not_know_are_refused() -> None:
    simulated, kernel = simulation_of()
    claims = [
        Claim("p", "b00", "a >= 0", 0.0, advertises=True),
        *(Claim("s", "b01", f"a = {number}", 1.0) for number in (1, 2)),
    ]
    Script(claims=claims).load(simulated, 0.0)
    simulated.advance()
    with pytest.raises(LocalError, match="one subscription each"):
        Crossing(kernel, claims)
    simulated, kernel = simulation_of()
    Script(claims=claims[:2]).load(simulated, 0.0)
    simulated.advance()
    passing = Crossing(kernel, claims[:2])
    early, late = (Event("p", "b00", {"a": 1}, at_s) for at_s in (1.0, 2.0))
    for wrong in ([late, early], [Event("x", "b00", {"a": 1}, 0.0)]):
        with pytest.raises(LocalError, match="in the order of time, and of clients that advertise"):
            passing.pass_on(wrong, simulated.now_s)
    assert passing.pass_on([early, late], 10.0, 11.5).sends == 1
    with pytest.raises(LocalError, match="stopped in the middle"):
        passing.pass_on([], 20.0)
