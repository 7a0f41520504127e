"""What a run of the demonstration of covering comes to: the verdict, delays, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reefcast_lab.demos.burst_live import Run, Status, Visit
from reefcast_lab.demos.burst_script import Script

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Pairs of an event and a subscription: those that had to be delivered, those delivered twice,
    and those that nobody had asked for. All of the narrow subscriptions count, and of the monitor's
    what was published while its subscription had settled."""

    expected: int
    lost: int
    duplicated: int
    unexpected: int

    @property
    def passed(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected)


def judge(run: Run, script: Script) -> Verdict:
    """Compare the deliveries with the script."""
    wanted = {
        (seq, narrow) for seq, those in enumerate(script.wanted(run.steps), 1) for narrow in those
    }
    got = Counter((seq, narrow) for seq, narrow, _, _ in run.engines)
    stays = [set(range(visit.first, visit.last + 1)) for visit in run.visits]
    known = set(range(1, len(run.steps) + 1))
    monitored = list(zip(stays, (visit.got for visit in run.visits), strict=True))
    return Verdict(
        expected=len(wanted) + sum(map(len, stays)),
        lost=len(wanted - got.keys()) + sum(len(stay - came.keys()) for stay, came in monitored),
        duplicated=_again(got) + sum(_again(came) for _, came in monitored),
        unexpected=len(got.keys() - wanted)
        + sum(len(came.keys() - known) for _, came in monitored),
    )


def _again(got: Counter[int] | Counter[tuple[int, int]]) -> int:
    return sum(times > 1 for times in got.values())


class Delays:
    """The delays of deliveries to narrow subscriptions, in columns: when each was published, in
    microseconds after the first event; its delay, in microseconds."""

    def __init__(self, run: Run) -> None:
        self.origin_us = run.published_us[0]
        columns = np.array(run.engines, dtype=np.int64).reshape(-1, 4)
        self.published_us: Numbers = columns[:, 2] - self.origin_us
        self.delay_us: Numbers = columns[:, 3] - columns[:, 2]

    def under_way(self, spans: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
        """Return the deliveries that were under way in one of the spans of time (microseconds
        UTC)."""
        found = np.zeros(len(self.delay_us), dtype=bool)
        came_us = self.published_us + self.delay_us
        for start_us, end_us in spans:
            found |= (self.published_us <= end_us - self.origin_us) & (
                came_us >= start_us - self.origin_us
            )
        return found

    def longest_us(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the longest delay of those; 0 without any."""
        return int(self.delay_us[self.under_way(spans)].max(initial=0))


AROUND_US = 1_000_000
"""What brokers have still to do when all of them know is seen within that time."""


def comings(visits: Iterable[Visit]) -> list[tuple[int, int]]:
    """Return the spans in which the monitor was asking (microseconds UTC)."""
    return [(visit.came_us, visit.settled_us) for visit in visits]


def goings(visits: Iterable[Visit]) -> list[tuple[int, int]]:
    """Return the spans in which it was withdrawing that (microseconds UTC)."""
    return [(visit.left_us, visit.gone_us) for visit in visits]


def around(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans, each extended by `AROUND_US`."""
    return [(start_us, end_us + AROUND_US) for start_us, end_us in spans]


@dataclass(frozen=True, slots=True)
class AtBroker:
    """What a broker sent while events were published, and its PRT: with the monitor the last time,
    and at the end."""

    broker: str
    control: int
    nrs: int
    prt_with: int
    prt_without: int


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in numbers. Delays are those of narrow subscriptions, in microseconds: of all, of
    what was not under way around the monitor's coming and going (`rest`), and the longest of what
    was, for each visit.
    `coming_s`, `going_s`: seconds until every broker knew, for each visit. `copies`: publications
    between brokers, for one event. `false_positives`: of these, those that came to a broker where
    nobody wanted them, nor beyond."""

    covering: str
    published: int
    delivered: int
    verdict: Verdict
    p50_us: float
    p99_us: float
    longest_us: int
    rest_p50_us: float
    rest_p99_us: float
    rest_longest_us: int
    longest_coming_us: list[int]
    longest_going_us: list[int]
    coming_s: list[float]
    going_s: list[float]
    copies: float
    false_positives: int
    ghosts: int
    settling_s: float
    late_s: float
    brokers: list[AtBroker]

    @property
    def control(self) -> int:
        return sum(each.control for each in self.brokers)

    @property
    def nrs(self) -> int:
        return sum(each.nrs for each in self.brokers)

    @property
    def prt_with(self) -> int:
        return sum(each.prt_with for each in self.brokers)

    @property
    def prt_without(self) -> int:
        return sum(each.prt_without for each in self.brokers)


def figures(run: Run, script: Script) -> Figures:
    """Return the figures of a run; if all was lost, its delays are 0."""
    delays = Delays(run)
    coming, going = comings(run.visits), goings(run.visits)
    around_coming, around_going = around(coming), around(going)
    rest = delays.delay_us[~delays.under_way(around_coming + around_going)]
    p50, p99 = _percentiles(delays.delay_us)
    rest_p50, rest_p99 = _percentiles(rest)
    monitored = sum(sum(visit.got.values()) for visit in run.visits)
    return Figures(
        covering=run.covering,
        published=len(run.steps),
        delivered=len(run.engines) + monitored,
        verdict=judge(run, script),
        p50_us=p50,
        p99_us=p99,
        longest_us=int(delays.delay_us.max(initial=0)),
        rest_p50_us=rest_p50,
        rest_p99_us=rest_p99,
        rest_longest_us=int(rest.max(initial=0)),
        longest_coming_us=[delays.longest_us([span]) for span in around_coming],
        longest_going_us=[delays.longest_us([span]) for span in around_going],
        coming_s=[(end - start) / 1e6 for start, end in coming],
        going_s=[(end - start) / 1e6 for start, end in going],
        copies=_grown(run, "counters", "forwarded") / len(run.steps),
        false_positives=_grown(run, "counted", "false positives"),
        ghosts=sum(told["tables"].get("ghosts", 0) for told in run.ended.values()),
        settling_s=run.settling_s,
        late_s=run.late_s,
        brokers=list(at_brokers(run)),
    )


def _percentiles(delays_us: Numbers) -> tuple[float, float]:
    """Return the 50th and 99th percentiles; 0 without delays."""
    if not len(delays_us):
        return 0.0, 0.0
    p50, p99 = np.percentile(delays_us, (50, 99))
    return float(p50), float(p99)


def _grown(run: Run, group: str, counter: str) -> int:
    """Return by how much a counter of all brokers grew, from the first event to the last."""
    return _counted(run.ended, group, counter) - _counted(run.started, group, counter)


def _counted(status: Status, group: str, counter: str) -> int:
    return sum(told[group].get(counter, 0) for told in status.values())


def at_brokers(run: Run) -> Iterator[AtBroker]:
    sent = Counter(broker for _, broker in run.control)
    for name, told in run.ended.items():
        yield AtBroker(
            name,
            sent[name],
            told["counted"]["NRS"] - run.started[name]["counted"]["NRS"],
            run.visits[-1].watched[name]["tables"]["PRT"],
            told["tables"]["PRT"],
        )
