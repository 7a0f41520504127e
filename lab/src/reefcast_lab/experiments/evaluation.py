"""Campaigns of one paper at one scale: what to run, what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from reefcast_lab.experiments import table
from reefcast_lab.experiments.campaign import Campaign, Claim, Measured, Paper, Run
from reefcast_lab.experiments.durations import Durations, durations
from reefcast_lab.experiments.registry import runs_of
from reefcast_lab.experiments.store import Store
from reefcast_lab.experiments.sweep import Ended, sweep

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Evaluation:
    """`runs` are all that figures are computed from, measured or not yet; `seeds` is how many
    repeats were asked for (None: as many as the campaigns take). `left_out`: runs that are to come
    (see `finished`)."""

    store: Store
    scale: str
    seeds: int | None
    runs: tuple[Run, ...]
    left_out: tuple[Run, ...] = ()

    @property
    def paper(self) -> Paper:
        return self.store.paper

    def finished(self) -> Evaluation:
        """Return the evaluation of only those runs that have been measured."""
        to_come = tuple(self.store.missing(self.runs))
        here = tuple(run for run in self.runs if run not in set(to_come))
        return replace(self, runs=here, left_out=to_come)

    def missing(self) -> list[Run]:
        """Return the runs to come, the longest first: what begins last is what all wait for."""
        takes = self.durations.of
        return sorted(self.store.missing(self.runs), key=lambda run: -takes(run))

    @cached_property
    def durations(self) -> Durations:
        """What runs take, as it was known when this was asked for first."""
        return durations(self.store.folder, self.paper.name, self.scale)

    def sweep(self, spark: SparkSession, tell: Callable[[Ended], None]) -> list[Ended]:
        """Run what is missing; return the runs that failed."""
        return sweep(spark, self.store, self.missing(), tell)

    def rows(self, spark: SparkSession, claims: Sequence[Claim]) -> list[table.Finding]:
        """Return the claims beside our figures."""
        return table.rows(self._results(spark), claims)

    def measured(self, spark: SparkSession) -> Measured:
        """Return what curves and evidence are made of."""
        results = self._results(spark)
        return Measured(self.scale, table.points(results), table.values(results))

    def table(self) -> pa.Table:
        """Return everything measured, a row for each measure of each run (`effects.RESULTS`)."""
        return self.store.table(self.runs)

    def _results(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(self.table())


def evaluation(
    folder: Path, paper: Paper, campaigns: Iterable[Campaign], scale: str, seeds: int | None
) -> Evaluation:
    """Make an evaluation whose results are kept in `folder`; `seeds` instead of as many as the
    campaigns would take."""
    runs = tuple(runs_of(campaigns, scale, seeds))
    return Evaluation(Store(folder, paper), scale, seeds, runs)
