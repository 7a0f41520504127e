"""Microseconds per event of the bitmap index and of its twin, in the same run.

    python benchmarks/bench_matching.py [--subscriptions 1000 10000]

Stock: 7 numbers, a range on each, 2 % or 0.1 % of the filters match. Flights: 36 attributes, three
predicates on any of them. `single` and `batch` (of 256) are the two ways of calling.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

from reefcast import matching
from reefcast.matching.bitmap import BitmapIndex
from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import Publication

BATCH = 256
Workload = tuple[list[Filter], list[Publication]]


def stock(n: int, selectivity: float, rng: random.Random) -> Workload:
    width = selectivity ** (1 / 7)

    def a_filter() -> Filter:
        lows = [rng.random() * (1 - width) for _ in range(7)]
        return parse_filter(
            " AND ".join(f"x{i} BETWEEN {x:e} AND {x + width:e}" for i, x in enumerate(lows))
        )

    def an_event() -> dict[str, float]:
        return {f"x{i}": rng.random() for i in range(7)}

    return [a_filter() for _ in range(n)], events(an_event)


def flights(n: int, rng: random.Random) -> Workload:
    def a_predicate(i: int) -> str:
        if i < 12:
            return f"a{i} IN ('v{rng.randrange(20)}', 'v{rng.randrange(20)}')"
        low = rng.randint(0, 800)
        return f"a{i} BETWEEN {low} AND {low + rng.randint(0, 300)}"

    def an_event() -> dict[str, str | int]:
        return {
            f"a{i}": f"v{rng.randrange(20)}" if i < 12 else rng.randrange(1000) for i in range(36)
        }

    filters = [
        parse_filter(" AND ".join(map(a_predicate, sorted(rng.sample(range(36), 3)))))
        for _ in range(n)
    ]
    return filters, events(an_event)


def events(draw: Callable[[], dict[str, float] | dict[str, str | int]]) -> list[Publication]:
    return [Publication("bench", seq, 0, dict(draw())) for seq in range(1, 2 * BATCH + 1)]


def microseconds(run: Callable[[], object], times: int, events: int) -> float:
    """The best of several runs, per event: other programs only ever add time."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1e6 / events


def report(name: str, workload: Workload) -> None:
    filters, publications = workload
    index: BitmapIndex[int] = BitmapIndex()
    twin: ScanIndex[int] = ScanIndex()
    start = time.perf_counter()
    for key, filter in enumerate(filters):
        index.add(key, filter)
    add = (time.perf_counter() - start) * 1e6 / len(filters)
    for key, filter in enumerate(filters):
        twin.add(key, filter)
    few = publications[: max(1, 20_000 // len(filters))]
    batch = publications[:BATCH]
    scan = microseconds(lambda: twin.match_many(few), 1, len(few))
    many = microseconds(lambda: index.match_many(batch), 20, len(batch))
    one = microseconds(lambda: [index.match(p) for p in batch], 5, len(batch))
    found = sum(map(len, index.match_many(batch))) / len(batch)
    print(
        f"{name:<14} {len(filters):>7} {found:>8.1f} {add:>8.1f} {one:>8.2f} {many:>8.2f} "
        f"{scan:>10.1f} {scan / many:>8.0f}x {index.memory_bytes() / len(filters):>8.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    matching.warm_up()
    print(
        "workload             n  matches   add us   single    batch    scan us    ratio  bytes/row"
    )
    for n in arguments.subscriptions:
        report("stock 2 %", stock(n, 0.02, rng))
        report("stock 0.1 %", stock(n, 0.001, rng))
        report("flights", flights(n, rng))


if __name__ == "__main__":
    main()
