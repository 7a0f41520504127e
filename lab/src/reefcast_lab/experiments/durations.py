"""How long runs will take: what they took before, or what `durations.toml` says.

Results of an earlier version of the code are no results of this one, but they say how long a run
takes. So do those of other seeds. A run of which nothing is known takes as long as its campaign's
runs do on the whole.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from reefcast_lab.experiments.campaign import RUN_S, SCALES, Run
from reefcast_lab.experiments.store import is_whole

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

FILE = Path(__file__).with_name("durations.toml")
SMALL_S = 1.0
"""Seconds of a run at the scale small, unless one was measured."""


class Durations:
    """What runs take, by `measured`: seconds of some runs; and by `usual`: of a campaign's, in
    the mean."""

    def __init__(self, measured: Iterable[tuple[Run, float]], usual: Mapping[str, float]) -> None:
        self._usual = usual
        self._known: defaultdict[Hashable, list[float]] = defaultdict(list)
        for run, seconds in measured:
            for key in _keys(run):
                self._known[key].append(seconds)

    def of(self, run: Run) -> float:
        """Return the seconds that the run will take, about."""
        for key in _keys(run):
            if key in self._known:
                return fmean(self._known[key])
        return SMALL_S if run.scale == SCALES[0] else self._usual.get(run.campaign, SMALL_S)


def durations(folder: Path, paper: str, scale: str) -> Durations:
    """Read what runs of this paper took whose results are in `folder`."""
    return Durations(_measured(folder / paper / scale), _usual().get(paper, {}))


@cache
def _usual() -> dict[str, dict[str, float]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _keys(run: Run) -> Iterator[Hashable]:
    """Yield what runs have in common that take about as long, the most alike first."""
    yield run.campaign, run.routing, run.x, run.variant
    yield run.campaign, run.routing
    yield run.campaign


def _measured(folder: Path) -> Iterator[tuple[Run, float]]:
    import pyarrow.parquet as pq

    for file in sorted(folder.glob("*/*.parquet")):
        if is_whole(file):
            rows = pq.read_table(file, filters=[("metric", "=", RUN_S)]).to_pylist()
            for row in rows:
                yield Run(**{name: row[name] for name in Run._fields}), row["value"]
