"""Event logs of business processes: CSV with the columns of the XES standard.

`case:concept:name`, `concept:name` and `time:timestamp` must be there, any others may. An event is
a step of a case, at its time (UTC); steps of the same time are in the order of the log. Attributes:
`case`, `activity` and, where the log has it, `lifecycle` (`lifecycle:transition`); all others are
named as in the log, with `_` for what a filter could not say without quotes (`org:group` as
`org_group`).

CSV does not tell types. The three attributes above and who performed a step (`org:`) are strings;
another column is int64 or float64 if all that it holds can be read so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast_lab.datasets.csv_files import (
    FILE,
    LINE,
    need_columns,
    plain_name,
    read_with_heads,
)
from reefcast_lab.datasets.numbering import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

TIME = "time:timestamp"
SHORT_NAMES = {
    "case:concept:name": "case",
    "concept:name": "activity",
    "lifecycle:transition": "lifecycle",
}
_NEEDED = ("case:concept:name", "concept:name", TIME)
_STRINGS = "org_"
_NUMBERS = ("bigint", "double")


def read(spark: SparkSession, path: Path) -> DataFrame:
    """Read the columns time, the attributes as strings, and `LINE`. Raises `ConfigurationError` if
    columns or files are missing, or if two columns would get the same name."""
    rows = read_with_heads(spark, path).drop(FILE)
    need_columns(path, rows.columns, _NEEDED)
    names = [_name(column) for column in rows.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{path}: two columns would both be {twice[0]}; rename one")
    return rows.toDF(*names)


def _name(column: str) -> str:
    if column in (TIME, LINE):
        return column
    return SHORT_NAMES.get(column) or plain_name(column)


def to_events(log: DataFrame) -> DataFrame:
    """Return event, time_us, case, activity, lifecycle, and the other columns of the log. Runs a
    job to find the types."""
    names = [name for name in log.columns if name not in (TIME, LINE)]
    first = [name for name in SHORT_NAMES.values() if name in names]
    others = [name for name in names if name not in first]
    kinds = _kinds(log, [name for name in others if not name.startswith(_STRINGS)])
    typed = [F.col(name).cast(kinds.get(name, "string")).alias(name) for name in others]
    when = F.unix_micros(F.col(f"`{TIME}`").cast("timestamp")).alias("time_us")
    rows = log.select(LINE, when, *first, *typed)
    return numbered(rows, "event", "time_us", F.col(LINE)).drop(LINE)


def _kinds(log: DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Return, by name, the first of `_NUMBERS` as which all values can be read; columns without
    one, or without values, are left out."""
    if not names:
        return {}
    row = log.agg(*(_fits(name, kind) for name in names for kind in _NUMBERS)).collect()[0]
    found = {}
    for name in names:
        fitting = [kind for kind in _NUMBERS if row[f"{name} {kind}"]]
        if fitting:
            found[name] = fitting[0]
    return found


def _fits(name: str, kind: str) -> Column:
    """Return whether there are values, and all can be read as this kind."""
    value = F.col(name)
    fits = F.count(value.try_cast(kind)) == F.count(value)
    return (fits & (F.count(value) > 0)).alias(f"{name} {kind}")
