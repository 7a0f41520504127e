"""Real event logs of business processes as scripts, such as those of the BPI Challenges.

A log is a CSV file (it may be compressed by gzip) with the columns of the XES standard below, and
any others, whose values become attributes of the publications. A case is an instance of a process;
who performed a step decides at which engine it was performed. The rest is as in `workflow`: the
engine of each step subscribes, while the case lasts, to the completion of the step before it.
"""

from __future__ import annotations

import csv
import gzip
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.model.publication import Value
from reefcast_lab.experiments.covering.topology import Topology
from reefcast_lab.experiments.covering.workflow import (
    completed,
    completions,
    engine,
    monitors,
    samplers,
    spread,
    triggered,
    triggers,
)
from reefcast_lab.experiments.script import Claim, Event, Script, quoted

CASE, ACTIVITY, TIME = "case:concept:name", "concept:name", "time:timestamp"
LIFECYCLE = "lifecycle:transition"
PERFORMERS = ("org:group", "org:resource")
"""Who performed a step: the first of these columns that the log has."""
BANDS = 10

LoggedRow = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """`at_s`: when it was done, since the log's first step. `activity` with its transition."""

    at_s: float
    activity: str
    performer: str
    attributes: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Case:
    """Steps in the order of time, those of the same time in the log's."""

    process: str
    steps: tuple[Step, ...]


def read_log(path: Path, process: str) -> list[Case]:
    """Read the cases of a log in the order in which they start. `process`: the column that says, in
    the first row of a case, of which process it is an instance; if it contains numbers, cases fall
    into ten bands of about equally many. Raises `ConfigurationError` for a file that cannot be read
    or lacks columns."""
    rows = _rows(path, (CASE, ACTIVITY, TIME, process))
    by_case: dict[str, list[tuple[datetime, LoggedRow]]] = {}
    for when, row in rows:
        by_case.setdefault(row[CASE], []).append((when, row))
    cases = [sorted(case, key=lambda step: step[0]) for case in by_case.values()]
    cases.sort(key=lambda case: case[0][0])
    if not cases:
        raise ConfigurationError(f"event log {path} has no rows")
    start = cases[0][0][0]
    name_of = _classes(process, [case[0][1][process] for case in cases])
    return [
        Case(
            name_of(case[0][1][process]),
            tuple(_step(row, (when - start).total_seconds()) for when, row in case),
        )
        for case in cases
    ]


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[datetime, LoggedRow]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = sorted(set(columns) - set(reader.fieldnames or ()))
            if missing:
                raise ConfigurationError(f"event log {path} has no column {', '.join(missing)}")
            return [(datetime.fromisoformat(row[TIME]), row) for row in reader]
    except (OSError, EOFError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise ConfigurationError(f"event log {path} cannot be read: {error}") from error


def _step(row: LoggedRow, at_s: float) -> Step:
    transition = row.get(LIFECYCLE, "")
    performer = next((row[name] for name in PERFORMERS if name in row), "")
    attributes: dict[str, Value] = {
        name: value
        for name, value in row.items()
        if value and name not in (CASE, ACTIVITY, TIME, LIFECYCLE)
    }
    return Step(at_s, f"{row[ACTIVITY]} {transition}".strip(), performer, attributes)


def _classes(column: str, values: Sequence[str]) -> Callable[[str], str]:
    """Return a function from a value to the name of its process."""
    try:
        numbers = sorted(map(float, values))
    except ValueError:
        return lambda value: f"{column} {value}"
    cuts = sorted({numbers[i * len(numbers) // BANDS] for i in range(1, BANDS)})
    bounds = [f"below {cuts[0]:g}"] + [f"from {cut:g}" for cut in cuts]
    return lambda value: f"{column} {bounds[bisect_right(cuts, float(value))]}"


def log_script(
    cases: Sequence[Case],
    topology: Topology,
    *,
    duration_s: float,
    deploy_s: float,
    settle_s: float,
    longest_s: float,
    seed: int,
) -> Script:
    """Make a script of these cases, their time compressed into `duration_s`, of which the first
    `deploy_s` are for engines and monitors to make themselves known. The longest case lasts
    `longest_s`, the others in proportion; their starts have a pace of their own, so that cases run
    until the end, however short the log. A case is triggered `settle_s` before its first step is
    done, and its subscriptions go as long after its last."""
    rng = random.Random(f"{seed}/covering/log")
    home_of = _homes(cases, topology, rng)
    client, home = "client", rng.choice(topology.subscribers)
    script = Script(spread(_deployed(cases, client, home, home_of, topology, rng), deploy_s))
    script.claims.extend(samplers(topology, deploy_s, duration_s, rng))
    begins_s = [case.steps[0].at_s for case in cases]
    first_s, span_s = min(begins_s), max(begins_s) - min(begins_s) or 1.0
    pace = (duration_s - deploy_s - 2 * settle_s - longest_s) / span_s
    own_pace = longest_s / (max(map(_length_s, cases)) or 1.0)
    for number, (case, begin_s) in enumerate(zip(cases, begins_s, strict=True), 1):
        start_s = deploy_s + settle_s + (begin_s - first_s) * pace
        times = [start_s + (step.at_s - begin_s) * own_pace for step in case.steps]
        from_s, until_s = times[0] - settle_s, times[-1] + settle_s
        script.events.append(Event(client, home, triggered(case.process, number), from_s))
        script.claims.extend(_waiting(case, number, from_s, until_s, home_of))
        script.events.extend(_done(case, number, times, home_of))
    return script


def _length_s(case: Case) -> float:
    return case.steps[-1].at_s - case.steps[0].at_s


def usual(cases: Sequence[Case], share: float) -> list[Case]:
    """Return the cases without the longest: that share of them, in their order."""
    lengths = sorted(map(_length_s, cases))
    longest_s = lengths[max(0, round(share * len(cases)) - 1)]
    return [case for case in cases if _length_s(case) <= longest_s]


def _homes(cases: Sequence[Case], topology: Topology, rng: random.Random) -> dict[str, str]:
    """Return the broker of each performer's engine; brokers have equally many."""
    performers = sorted({step.performer for case in cases for step in case.steps})
    rng.shuffle(performers)
    engines = topology.publishers
    return {one: engines[i % len(engines)] for i, one in enumerate(performers)}


def _deployed(
    cases: Sequence[Case],
    client: str,
    home: str,
    home_of: Mapping[str, str],
    topology: Topology,
    rng: random.Random,
) -> list[Claim]:
    """Return the claims of deployment: engines advertise the completions of each process in which
    they have a part, and subscribe to the triggers of those whose cases they begin."""
    parts = {(case.process, home_of[step.performer]) for case in cases for step in case.steps}
    begun = {(case.process, home_of[case.steps[0].performer]) for case in cases}
    claims = [Claim(client, home, triggers(), 0.0, advertises=True)]
    claims += [
        Claim(engine(broker), broker, completions(process), 0.0, advertises=True)
        for process, broker in sorted(parts)
    ]
    claims += [
        Claim(engine(broker), broker, triggers(process), 0.0) for process, broker in sorted(begun)
    ]
    return claims + monitors(sorted({case.process for case in cases}), topology, rng)


def _waiting(
    case: Case, number: int, from_s: float, until_s: float, home_of: Mapping[str, str]
) -> Iterator[Claim]:
    """Yield what engines wait for while the case lasts: each step that precedes another, once."""
    waits = {
        (home_of[later.performer], earlier.activity): None
        for earlier, later in pairwise(case.steps)
    }
    for broker, activity in waits:
        what = (
            f"{completions(case.process)} AND activity = {quoted(activity)} AND instance = {number}"
        )
        yield Claim(engine(broker), broker, what, from_s, until_s)


def _done(
    case: Case, number: int, times: Sequence[float], home_of: Mapping[str, str]
) -> Iterator[Event]:
    for step, at_s in zip(case.steps, times, strict=True):
        broker = home_of[step.performer]
        says = {**step.attributes, **completed(case.process, number, step.activity)}
        yield Event(engine(broker), broker, says, at_s)
