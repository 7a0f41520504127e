"""A stream of publications before, through and after changes of tables.

Where brokers keep statistics it is simulated while tables change, and computed (`steady`) while
they do not. All others leave it to the compiled loop (`crossing`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.covering.crossing import Crossing
from reefcast_lab.experiments.covering.crowd import Stream, Subscription
from reefcast_lab.experiments.covering.measuring import CoverKernel, counted
from reefcast_lab.experiments.covering.settling import Settled
from reefcast_lab.experiments.covering.steady import Passage, acyclic, control_under_way
from reefcast_lab.experiments.script import Script

CHUNK_S = 100.0
"""Simulated time between two looks at whether control messages are under way, where tables change
for long."""


class Plan(NamedTuple):
    """Tables change from `from_s` to at least `until_s`. `filled_s`: of the stream before are
    simulated, so that publications are on all links. The `brokers` are sampled at `sample_at_s`.
    `chunk_s`: see `CHUNK_S`."""

    from_s: float
    until_s: float
    filled_s: float
    brokers: Sequence[str]
    sample_at_s: Sequence[float]
    chunk_s: float


class Played(NamedTuple):
    """`rows`: of the sampled brokers' PRTs when the last publication was published;
    `wrong_before`: false positives before tables changed, of which there are none without
    ghosts."""

    rows: list[int]
    wrong_before: float


def play(settled: Settled, stream: Stream, plan: Plan, remember: Iterable[Subscription]) -> Played:
    """Publish in a network where withdrawals are planned, and sample it. Brokers that keep
    statistics have those of deliveries to the subscriptions `remember` from before."""
    topology, crowd, simulated, kernel = settled.network
    if not any(acyclic(node).counts for node in kernel.nodes.values()):
        filled = int(np.searchsorted(stream.at_s, plan.from_s - plan.filled_s))
        rest = stream.part(filled, len(stream))
        crossing = Crossing(kernel, crowd, rest, plan.brokers, plan.sample_at_s)
        crossing.run()
        return Played(crossing.rows_at(stream.until_s), 0.0)
    passage = Passage(kernel, topology, crowd)
    observed = warm_up(simulated, passage, stream, plan.from_s, plan.filled_s, remember)
    wrong = counted(kernel, "false_positive", topology.graph)
    Play(simulated, kernel, passage, observed, plan).run()
    rows = [len(acyclic(kernel.nodes[name]).prt) for name in plan.brokers]
    return Played(rows, wrong)


def warm_up(
    simulated: Simulation,
    passage: Passage,
    stream: Stream,
    until_s: float,
    filled_s: float,
    remember: Iterable[Subscription],
) -> Stream:
    """Publish until the tables change; return what is left of the stream. The last `filled_s` are
    simulated, so that publications are on all links. Those before are passed on for the statistics
    of deliveries to the subscriptions `remember`."""
    filled, first = np.searchsorted(stream.at_s, (until_s - filled_s, until_s)).tolist()
    passage.take(stream.part(0, filled), remember=remember)
    Script(events=list(stream.part(filled, first).events())).load(simulated, 0.0)
    simulated.advance(until_s)
    return stream.part(first, len(stream))


@dataclass
class Play:
    """Publishes `stream` while tables change and afterwards."""

    simulated: Simulation
    kernel: CoverKernel
    passage: Passage
    stream: Stream
    plan: Plan

    def run(self) -> None:
        """Publish all. The time is then that of the last publication, or later: all that waits has
        been served if the rest was computed."""
        done = 0
        while done < len(self.stream):
            done = self._simulate(done)
            if done < len(self.stream) and self._at_rest():
                self._drain()
                done += self._compute(done)

    def _simulate(self, done: int) -> int:
        """Publish for a while, and let time pass until the next publication."""
        until_s = max(self.simulated.now_s, self.stream.at_s[done]) + self.plan.chunk_s
        end = int(np.searchsorted(self.stream.at_s, until_s))
        Script(events=list(self.stream.part(done, end).events())).load(self.simulated, 0.0)
        last = end == len(self.stream)
        self._run(self.stream.until_s if last else float(self.stream.at_s[end]))
        return end

    def _run(self, until_s: float) -> bool:
        """Let time pass; return whether nothing is under way then."""
        now_s = self.simulated.now_s
        times_s = [at_s for at_s in self.plan.sample_at_s if now_s <= at_s < until_s]
        self.kernel.sample_at(self.plan.brokers, times_s)
        return self.simulated.advance(until_s)

    def _at_rest(self) -> bool:
        return self.simulated.now_s > self.plan.until_s and not control_under_way(self.kernel)

    def _drain(self) -> None:
        """Serve all that has been published; what is published later waits behind it anyway."""
        while not self._run(self.simulated.now_s + self.plan.chunk_s):
            pass

    def _compute(self, done: int) -> int:
        rest = self.stream.part(done, len(self.stream))
        times_s = [at_s for at_s in self.plan.sample_at_s if at_s >= rest.at_s[0]]
        least = int(np.searchsorted(rest.at_s, self.simulated.now_s))
        return self.passage.take(rest, self.plan.brokers, times_s, least=least)
