"""What the index costs where no predicate on a single attribute decides: `bench match --cliffs`.

Conditions over several attributes, patterns, long lists, many ORs, exclusions, wide events. The
baseline is the obvious way, to ask each filter in turn, on some of the filters; both must find the
same of them. Times are those of the thread's processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from time import thread_time

import numpy as np

from reefcast.errors import InternalError
from reefcast.matching.index import CompiledIndex
from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import Filter
from reefcast.model.language import parse
from reefcast.model.publication import Publication, Value
from reefcast_lab.bench.matching.cases import case_of, each_case, timed_us
from reefcast_lab.bench.matching.engines import no_collection

SEED, RUNS, PASSES = 1, 2, 5
SCANNED_FILTERS, SCANNED_EVENTS = 100, 8
LETTERS = "etaoinshrdlu   cmfwypvbgkqjxz"


@dataclass(frozen=True, slots=True)
class Case:
    """`filter` and `event` draw one; the former gets its number too. `divisor`: so many times fewer
    filters than asked for, where each is large. `events`: how many there are."""

    filter: Callable[[Random, int], str]
    event: Callable[[Random], dict[str, Value]]
    divisor: int = 1
    events: int = 64


@dataclass(frozen=True, slots=True)
class CliffRow:
    """`ns_per_filter`: of an event, for each filter that is stored; `scan_ns_per_filter`: the same
    of the obvious way, and `ratio` how many times as long that takes. `parse_us`, `add_p50_us`: of
    a filter; `add_max_us`: the longest addition."""

    workload: str
    n: int
    us_per_event: float
    ns_per_filter: float
    matches_per_event: float
    ns_per_match: float | None
    scan_ns_per_filter: float
    ratio: float
    memory_bytes_per_filter: float
    parse_us: float
    add_p50_us: float
    add_max_us: float


def _letters(rng: Random, count: int) -> str:
    return "".join(rng.choices(LETTERS, k=count))


def _word(rng: Random, count: int) -> str:
    return _letters(rng, 3 * count).replace(" ", "")[:count]


def _numbers(names: Iterable[str], below: int) -> Callable[[Random], dict[str, Value]]:
    listed = tuple(names)
    return lambda rng: {name: rng.randrange(below) for name in listed}


def _ors(count: int) -> Case:
    def filter(rng: Random, number: int) -> str:
        pairs = [(rng.randrange(50), rng.randrange(50)) for _ in range(count)]
        return " AND ".join(f"(a{i} = {a} OR b{i} = {b})" for i, (a, b) in enumerate(pairs))

    return Case(filter, _numbers((f"{side}{i}" for side in "ab" for i in range(count)), 50))


def _unequal(count: int) -> Case:
    def filter(rng: Random, number: int) -> str:
        return " AND ".join(f"x{i} <> {rng.randrange(1000)}" for i in range(count))

    return Case(filter, _numbers((f"x{i}" for i in range(count)), 1000))


def _wide(rng: Random, number: int) -> str:
    equal, above = rng.randrange(5), 5 + rng.randrange(3)
    return f"x{equal} = {rng.randrange(1000)} AND x{above} > {rng.randrange(1000)}"


def _long_text(rng: Random) -> dict[str, Value]:
    return {"s": _letters(rng, 10_000)}


def _list(rng: Random, number: int) -> str:
    return f"a IN ({', '.join(map(str, rng.sample(range(10**6), 1000)))})"


def _string_list(rng: Random, number: int) -> str:
    listed = ", ".join(f"'k{key}'" for key in rng.sample(range(10**6), 1000))
    return f"a IN ({listed})"


CASES: Mapping[str, Case] = {
    "a > b": Case(lambda rng, number: f"a > b + {number}", _numbers("ab", 4000)),
    "the same a > b": Case(lambda rng, number: "a > b", _numbers("ab", 20)),
    "s = and a > b": Case(
        lambda rng, number: f"s = 'v{rng.randrange(500)}' AND a > b * 2 + {number}",
        lambda rng: {"s": f"v{rng.randrange(500)}", **_numbers("ab", 4000)(rng)},
    ),
    "LIKE, 60": Case(
        lambda rng, number: f"s LIKE '%{_word(rng, 4)}%'", lambda rng: {"s": _letters(rng, 60)}
    ),
    "LIKE, 10 000": Case(
        lambda rng, number: f"s LIKE '%{_word(rng, 4)}%'", _long_text, events=SCANNED_EVENTS
    ),
    "NOT LIKE, 10 000": Case(
        lambda rng, number: f"s NOT LIKE '%{_word(rng, 6)}%'", _long_text, events=SCANNED_EVENTS
    ),
    "IN 1000 numbers": Case(_list, _numbers("a", 10**6), divisor=2),
    "IN 1000 strings": Case(_string_list, lambda rng: {"a": f"k{rng.randrange(10**6)}"}, divisor=2),
    "8 ORs": _ors(8),
    "9 ORs": _ors(9),
    "<> on 5": _unequal(5),
    "200 attributes": Case(_wide, _numbers((f"x{i}" for i in range(200)), 1000)),
}


def cliffs(
    names: Sequence[str], sizes: Sequence[int], tell: Callable[[str], None]
) -> Iterator[CliffRow]:
    """Return a row for each of `CASES`, or of those named, at each size."""
    return each_case(cliff, names or CASES, sizes, tell)


def cliff(name: str, rows: int) -> CliffRow:
    """Return the figures of one of `CASES`; `ConfigurationError` for another name."""
    case, rng = case_of(CASES, name), Random(f"{SEED} {name}")
    texts = [case.filter(rng, number) for number in range(max(1, rows // case.divisor))]
    events = [Publication("p", 1, 0, case.event(rng)) for _ in range(case.events)]
    with no_collection():
        begun = thread_time()
        filters = [Filter(text, parse(text)) for text in texts]
        parse_us = (thread_time() - begun) * 1e6 / len(texts)
        made = [_filled(filters) for _ in range(RUNS)]
        index = made[0][0]
        adds = np.min([times for _, times in made], axis=0)
        us = min(_us_per_event(index, events) for _ in range(PASSES))
        scan_ns = _scanned(index, filters, events[:SCANNED_EVENTS], name)
    found = sum(len(index.match(each)) for each in events) / len(events)
    ns = us * 1e3 / len(filters)
    return CliffRow(
        workload=name,
        n=len(filters),
        us_per_event=us,
        ns_per_filter=ns,
        matches_per_event=found,
        ns_per_match=us * 1e3 / found if found >= 1 else None,
        scan_ns_per_filter=scan_ns,
        ratio=scan_ns / ns,
        memory_bytes_per_filter=index.memory_bytes() / len(filters),
        parse_us=parse_us,
        add_p50_us=float(np.median(adds)),
        add_max_us=float(adds.max()),
    )


def _filled(filters: Sequence[Filter]) -> tuple[CompiledIndex[int], list[float]]:
    """Return an index of the filters, and the microseconds of each addition."""
    index: CompiledIndex[int] = CompiledIndex()
    return index, timed_us(index.add, enumerate(filters), thread_time)


def _us_per_event(index: CompiledIndex[int], events: Sequence[Publication]) -> float:
    begun = thread_time()
    for each in events:
        index.match(each)
    return (thread_time() - begun) * 1e6 / len(events)


def _scanned(
    index: CompiledIndex[int], filters: Sequence[Filter], events: Sequence[Publication], name: str
) -> float:
    """Return the nanoseconds per filter of a scan. Raises `InternalError` if the index finds
    something else."""
    scan: ScanIndex[int] = ScanIndex()
    for key in range(0, len(filters), max(1, len(filters) // SCANNED_FILTERS)):
        scan.add(key, filters[key])
    begun = thread_time()
    wanted = [sorted(scan.match(each)) for each in events]
    seconds = thread_time() - begun
    found = [sorted(key for key in index.match(each) if key in scan) for each in events]
    if found != wanted:
        raise InternalError(f"the index finds something wrong in {name!r}: report it")
    return seconds * 1e9 / len(events) / len(scan)
