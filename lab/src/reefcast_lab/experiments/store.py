"""Results on disk: a small Parquet file for each run, so that a run is never measured twice.

A file's name is a hash of all that its content depends on: the run, the parameters, the code,
and the real data where they are given. So results of others of these are not found, rather than
taken for ours.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reefcast.errors import LocalError
from reefcast_lab.experiments.campaign import Campaign, Measure, Paper, Run
from reefcast_lab.experiments.versions import code_version

if TYPE_CHECKING:
    import pyarrow as pa


class Version(NamedTuple):
    """What results depend on beside their run: hashes of the sources and of the file of real data
    ("" without one), and the parameters."""

    code: str
    data: str
    parameters: str


def version_here(paper: Paper, campaign: Campaign) -> Version:
    """Return the version with which this process would measure now."""
    given = paper.data()
    data = hashlib.sha256(Path(given).read_bytes()).hexdigest()[:12] if given else ""
    parameters = tomllib.loads(paper.parameters_file.read_text(encoding="utf-8"))
    return Version(
        code_version(campaign, paper.parameters_file.parent),
        data,
        json.dumps(parameters, sort_keys=True, default=str),
    )


def check_version(paper: Paper, campaign: Campaign, expected: Version) -> None:
    """Raise `LocalError` if this process would measure with another version than expected: its
    result would get a wrong key."""
    here = version_here(paper, campaign)
    if here.data != expected.data:
        raise LocalError(
            f"this worker would take the data {paper.data() or 'of the generator'}, not those that "
            f"the sweep was started with; give {paper.data_variable} to the workers too"
        )
    if here != expected:
        raise LocalError(
            f"the sources changed while the sweep runs (code {here.code}, at its start "
            f"{expected.code}; or the parameters); start it again"
        )


@dataclass(frozen=True)
class Store:
    """The results of one paper, under `folder`/<paper>/<scale>/<campaign>/."""

    folder: Path
    paper: Paper

    @cached_property
    def versions(self) -> dict[str, Version]:
        """By campaign, as they were when they were asked for first."""
        return {each.name: version_here(self.paper, each) for each in self.paper.campaigns}

    def file(self, run: Run) -> Path:
        """Return where the results of this run are, or will be."""
        named = json.dumps(run._replace(x=float(run.x)))
        content = " ".join((named, *self.versions[run.campaign]))
        key = hashlib.sha256(content.encode()).hexdigest()[:20]
        return self.folder / run.paper / run.scale / run.campaign / f"{key}.parquet"

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        return [run for run in runs if not is_whole(self.file(run))]

    def table(self, runs: Iterable[Run]) -> pa.Table:
        """Return all that was measured of these runs, a row for each measure, with its run; in the
        runs' order. What is not measured yet has no row."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = [file for file in map(self.file, runs) if is_whole(file)]
        return pa.concat_tables([_schema().empty_table(), *map(pq.read_table, files)])


def is_whole(file: Path) -> bool:
    """Return whether the file exists and is complete: a Parquet file ends with its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(file)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def write(file: Path, run: Run, measures: Iterable[Measure]) -> None:
    """Write the whole file at once, or nothing, even if the machine stops. Raises `LocalError` for
    a value that is no number: a missing value has no row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for measure in measures:
        if not math.isfinite(measure.value):
            raise LocalError(f"{measure.metric} at {measure.at} is {measure.value}: leave it out")
        rows.append(run._asdict() | measure._asdict())
    file.parent.mkdir(parents=True, exist_ok=True)
    started = file.with_name(f".{file.stem}.{os.getpid()}")
    try:
        with started.open("wb") as out:
            pq.write_table(pa.Table.from_pylist(rows, _schema()), out)
            out.flush()
            os.fsync(out.fileno())
        started.replace(file)
    finally:
        started.unlink(missing_ok=True)


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, whole, real = pa.string(), pa.int64(), pa.float64()
    types = {"x": real, "seed": whole, "at": real, "value": real}
    return pa.schema([(n, types.get(n, text)) for n in (*Run._fields, *Measure._fields)])
