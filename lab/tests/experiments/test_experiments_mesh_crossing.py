"""The compiled loop does what the kernel does, to the last digit, while brokers find their links."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reefcast.errors import LocalError
from reefcast.model.messages import Deliver, Publish
from reefcast.overlay.topology import Graph
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import Link, LinkSpec
from reefcast.simulation.recording import BrokerTrace
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.sizes import publication_size
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.mesh import crossing, light, measuring, meshes, throughput
from reefcast_lab.experiments.mesh.crossing import Crossing, Passed
from reefcast_lab.experiments.mesh.measuring import Brokers, MeshRun
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
        self.kernel.record.handed_out = self._handed_out  # type: ignore[method-assign]
        before = self.kernel.record.forwarded
        Script(events=list(events)).load(self.simulated, from_s)
        self.simulated.advance(max(until_s if until_s < np.inf else 0.0, rounds_until_s))
        if until_s == np.inf:
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
