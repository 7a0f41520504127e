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
from typing import Any

from reefcast.errors import LocalError
from reefcast.experiments.campaign import Measure, Paper, Run
from reefcast.experiments.versions import code_version


@dataclass(frozen=True)
class Store:
    """The results of one paper, under `folder`/<paper>/<scale>/<campaign>/."""

    folder: Path
    paper: Paper

    @cached_property
    def code_versions(self) -> dict[str, str]:
        """By campaign."""
        sources = self.paper.parameters_file.parent
        return {each.name: code_version(each, sources) for each in self.paper.campaigns}

    @cached_property
    def data_version(self) -> str:
        """Of the file of real data that is given; "" without one."""
        given = self.paper.data()
        return hashlib.sha256(Path(given).read_bytes()).hexdigest()[:12] if given else ""

    @cached_property
    def _parameters(self) -> str:
        text = self.paper.parameters_file.read_text(encoding="utf-8")
        return json.dumps(tomllib.loads(text), sort_keys=True, default=str)

    def file(self, run: Run) -> Path:
        """Where the results of this run are, or will be."""
        named = json.dumps(run._replace(x=float(run.x)))
        code = self.code_versions[run.campaign]
        content = f"{named} {code} {self.data_version} {self._parameters}"
        key = hashlib.sha256(content.encode()).hexdigest()[:20]
        return self.folder / run.paper / run.scale / run.campaign / f"{key}.parquet"

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        return [run for run in runs if not self.file(run).exists()]


def write(file: Path, run: Run, measures: Iterable[Measure]) -> None:
    """Puts the whole file in place at once, or none of it.

    Raises `LocalError` for a value that is no number: what was not reached has no row.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for measure in measures:
        if not math.isfinite(measure.value):
            raise LocalError(f"{measure.metric} at {measure.at} is {measure.value}: leave it out")
        rows.append(run._asdict() | measure._asdict())
    file.parent.mkdir(parents=True, exist_ok=True)
    started = file.with_name(f".{file.stem}.{os.getpid()}")
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(_columns(pa))), started)
    started.replace(file)


def _columns(pa: Any) -> list[tuple[str, Any]]:
    text, whole, real = pa.string(), pa.int64(), pa.float64()
    types = {"x": real, "seed": whole, "at": real, "value": real}
    return [(name, types.get(name, text)) for name in (*Run._fields, *Measure._fields)]
