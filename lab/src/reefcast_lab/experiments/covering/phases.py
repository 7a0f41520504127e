"""A stream of publications before, through and after changes of tables: simulated while tables
change, computed (`steady`) while they do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.covering.crowd import Stream, Subscription
from reefcast_lab.experiments.covering.measuring import CoverKernel
from reefcast_lab.experiments.covering.steady import Passage, control_under_way
from reefcast_lab.experiments.script import Script

CHUNK_S = 100.0
"""Simulated time between two looks at whether control messages are under way."""


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
    of deliveries to the subscriptions `remember`, and left out if there are none."""
    filled, first = np.searchsorted(stream.at_s, (until_s - filled_s, until_s)).tolist()
    if remembered := list(remember):
        passage.take(stream.part(0, filled), remember=remembered)
    Script(events=list(stream.part(filled, first).events())).load(simulated, 0.0)
    simulated.advance(until_s)
    return stream.part(first, len(stream))


@dataclass
class Play:
    """Publishes `stream`, and samples the `brokers` at `sample_at_s`. Tables change from the
    beginning to at least `changes_until_s`."""

    simulated: Simulation
    kernel: CoverKernel
    passage: Passage
    stream: Stream
    brokers: Sequence[str]
    sample_at_s: Sequence[float]
    changes_until_s: float

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
        until_s = max(self.simulated.now_s, self.stream.at_s[done]) + CHUNK_S
        end = int(np.searchsorted(self.stream.at_s, until_s))
        Script(events=list(self.stream.part(done, end).events())).load(self.simulated, 0.0)
        last = end == len(self.stream)
        self._run(self.stream.until_s if last else float(self.stream.at_s[end]))
        return end

    def _run(self, until_s: float) -> bool:
        """Let time pass; return whether nothing is under way then."""
        now_s = self.simulated.now_s
        times_s = [at_s for at_s in self.sample_at_s if now_s <= at_s < until_s]
        self.kernel.sample_at(self.brokers, times_s)
        return self.simulated.advance(until_s)

    def _at_rest(self) -> bool:
        return self.simulated.now_s > self.changes_until_s and not control_under_way(self.kernel)

    def _drain(self) -> None:
        """Serve all that has been published; what is published later waits behind it anyway."""
        while not self._run(self.simulated.now_s + CHUNK_S):
            pass

    def _compute(self, done: int) -> int:
        rest = self.stream.part(done, len(self.stream))
        times_s = [at_s for at_s in self.sample_at_s if at_s >= rest.at_s[0]]
        least = int(np.searchsorted(rest.at_s, self.simulated.now_s))
        return self.passage.take(rest, self.brokers, times_s, least=least)
