"""The figures of a trace, simulated or live: delays, load, tables, queues, discards.

Reads the data sets of `traces.vocabulary`; any of them may be missing (a trace level leaves out
most). `trace_metrics` and `trace_sums` define each figure; this module reads the trace, gathers the
figures, and writes them as tables."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefcast.pipeline import trace_metrics as metrics
from reefcast.pipeline import trace_sums as sums
from reefcast.pipeline.session import sized
from reefcast.traces.files import read_run
from reefcast.traces.vocabulary import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_SQL_TYPES = {"int64": "BIGINT", "float64": "DOUBLE", "string": "STRING"}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The figures of a trace. Times in microseconds, sizes in bytes.

    `run`: what `run.json` says. `totals`: name, value; see `_totals`. `delays`: count (deliveries
    to clients), mean, p50, p90, p99, p999, max, within_1s. `delay_bins`: low_us, high_us, count.
    `delays_by_hops`: hops, count, p50, p99.
    `links`: a, b, publications, control, size_bytes, both directions together. `messages`: message,
    count, size_bytes, between brokers. `brokers`: broker, published, sent (publications to other
    brokers), deliveries, matching_ns (mean), matched (mean). `tables`: broker, table, rows (at the
    end), most. `discards`: reason, count. `queues`: broker, link, mean, most. `counters`: counter,
    count, of the brokers in all. `overloaded`: broker, link, count (of decisions that met the link
    so). `seconds`: what `trace_metrics.over_time` says.
    """

    run: Row
    totals: list[Row]
    delays: Row
    delay_bins: list[Row]
    delays_by_hops: list[Row]
    links: list[Row]
    messages: list[Row]
    brokers: list[Row]
    tables: list[Row]
    discards: list[Row]
    queues: list[Row]
    counters: list[Row]
    overloaded: list[Row]
    seconds: list[Row]

    @property
    def link_publications(self) -> int:
        """Publications that crossed a link between brokers."""
        return sum(link["publications"] for link in self.links)

    @property
    def publication_bytes(self) -> int:
        """Bytes of their frames."""
        return sum(row["size_bytes"] for row in self.messages if row["message"] == "publish")

    @property
    def link_bytes(self) -> int:
        """Bytes of all frames on links between brokers."""
        return sum(link["size_bytes"] for link in self.links)

    @property
    def body_bytes(self) -> float:
        """Mean size of a publication's body; 0 without any."""
        found = {row["name"]: row["value"] for row in self.totals}
        return float(found.get("body_bytes", 0.0))


def analyze(spark: SparkSession, directory: Path) -> Analysis:
    """Run the jobs over the trace in `directory`. Raises `ConfigurationError` if there is none."""
    run = read_run(directory)
    size = sum(file.stat().st_size for file in directory.glob("*/*.parquet"))
    with ExitStack() as stack:
        stack.enter_context(sized(spark, size))
        traces = {kind: read_kind(spark, directory, kind) for kind in KINDS}
        return _analyzed(traces, run, stack)


def _analyzed(traces: dict[str, DataFrame], run: Row, stack: ExitStack) -> Analysis:
    scale = 1 / run["sample"] if run.get("level") == "sampled" and run.get("sample") else 1.0
    names = list(run["brokers"])
    deliveries = metrics.delivery_counts(traces["delivery"]).persist()
    stack.callback(deliveries.unpersist)
    messages = _rows(metrics.message_counts(traces["message"], names, scale))
    counts = _rows(metrics.last_counts(traces["counter"]))
    delays = _one(metrics.delays(deliveries, scale))
    published = _rows(metrics.published_by_broker(traces["publish"], scale))
    links = sums.link_load(messages, run["links"])
    tables = _rows(metrics.table_sizes(traces["table"]))
    dropped = _rows(metrics.discards(traces["discard"], scale))
    reach = _one(metrics.pure_forwarders(traces["message"], traces["delivery"], names, scale))
    return Analysis(
        run=run,
        totals=_totals(delays, published, links, reach, dropped, tables),
        delays=delays,
        delay_bins=_rows(metrics.delay_bins(deliveries, scale)),
        delays_by_hops=_rows(metrics.delays_by_hops(deliveries, scale)),
        links=links,
        messages=sums.messages_by_type(messages),
        brokers=_broker_rows(
            names,
            published,
            sums.sent_by_broker(messages),
            _rows(metrics.deliveries_by_broker(deliveries, scale)),
            _rows(metrics.matching_by_broker(traces["matching"])),
        ),
        tables=tables,
        discards=dropped,
        queues=_rows(metrics.queue_lengths(traces["queue"])),
        counters=sums.counters(counts),
        overloaded=sums.overloaded(counts),
        seconds=_rows(metrics.over_time(traces, names, scale)),
    )


def read_kind(spark: SparkSession, directory: Path, kind: str) -> DataFrame:
    """Read one data set of the trace, empty if it was not written."""
    columns = [(f"`{c.name}`", _SQL_TYPES[c.type]) for c in KINDS[kind]]
    folder = directory / kind
    if not folder.is_dir():  # no job is run for what Spark knows to be empty
        empty = ", ".join(f"CAST(NULL AS {type}) AS {name}" for name, type in columns)
        return spark.sql(f"SELECT {empty} WHERE false")
    schema = ", ".join(map(" ".join, columns))
    return spark.read.schema(schema).parquet(str(folder.absolute()))


def _totals(
    delays: Row,
    published: Sequence[Row],
    links: Sequence[Row],
    reach: Row,
    dropped: Sequence[Row],
    tables: Sequence[Row],
) -> list[Row]:
    """Return (name, value) rows: one figure of the whole run each, as far as the trace tells it.

    `messages_per_publication`: between brokers. `yield`: deliveries for each of these messages.
    `pure_forwarders`: over publications, brokers that got it without having a subscriber for it.
    `duplicates`: copies that came by another way, of `duplicate_share` of all that were sent.
    `published_per_s`: over the time in which anything was published. `rows_<table>`: mean over
    brokers, at the end.
    """
    events = sum(row["published"] for row in published)
    sent = sum(link["publications"] for link in links)
    times = [row[name] for row in published for name in ("first_us", "last_us")]
    lasted_s = (max(times) - min(times)) / 1e6 if times else 0.0
    duplicates = sum(row["count"] for row in dropped if row["reason"] == "duplicate")
    found = {
        "published": events,
        "deliveries": delays["count"],
        "link_publications": sent,
        "link_bytes": sum(link["size_bytes"] for link in links),
        "control_messages": sum(link["control"] for link in links),
        "pure_forwarders": reach["pure_forwarders"],
        "brokers_reached": reach["reached"],
        "duplicates": duplicates,
        "body_bytes": _ratio(sum(row["bytes"] for row in published), events),
        "messages_per_publication": _ratio(sent, events),
        "yield": _ratio(delays["count"], sent),
        "duplicate_share": _ratio(duplicates, sent),
        "published_per_s": _ratio(events, lasted_s),
        "deliveries_per_s": _ratio(delays["count"], lasted_s),
        "link_publications_per_s": _ratio(sent, lasted_s),
        **_mean_rows(tables),
    }
    return [{"name": n, "value": float(v)} for n, v in found.items() if v is not None]


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean_rows(tables: Sequence[Row]) -> dict[str, float]:
    by_table: dict[str, list[int]] = {}
    for row in tables:
        by_table.setdefault(f"rows_{row['table']}", []).append(row["rows"])
    return {name: sum(rows) / len(rows) for name, rows in by_table.items()}


def _broker_rows(names: Sequence[str], *figures: Sequence[Row]) -> list[Row]:
    nothing = {"published": 0, "sent": 0, "deliveries": 0, "matching_ns": 0, "matched": 0.0}
    rows: dict[str, Row] = {name: {"broker": name, **nothing} for name in sorted(names)}
    for found in (row for rows_of_one in figures for row in rows_of_one):
        row = rows[found["broker"]]
        row.update({name: found[name] for name in nothing if name in found})
    return list(rows.values())


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]


def _one(frame: DataFrame) -> Row:
    return _rows(frame)[0]


# --- tables --------------------------------------------------------------------------------------

TABLES = {
    "totals": "name STRING, value DOUBLE",
    "delays": "count BIGINT, mean DOUBLE, p50 DOUBLE, p90 DOUBLE, p99 DOUBLE, p999 DOUBLE, "
    "max BIGINT, within_1s DOUBLE",
    "delay_bins": "low_us DOUBLE, high_us DOUBLE, count BIGINT",
    "delays_by_hops": "hops BIGINT, count BIGINT, p50 DOUBLE, p99 DOUBLE",
    "links": "a STRING, b STRING, publications BIGINT, control BIGINT, size_bytes BIGINT",
    "messages": "message STRING, count BIGINT, size_bytes BIGINT",
    "brokers": "broker STRING, published BIGINT, sent BIGINT, deliveries BIGINT, "
    "matching_ns BIGINT, matched DOUBLE",
    "tables": "broker STRING, table STRING, rows BIGINT, most BIGINT",
    "discards": "reason STRING, count BIGINT",
    "queues": "broker STRING, link STRING, mean DOUBLE, most BIGINT",
    "counters": "counter STRING, count BIGINT",
    "overloaded": "broker STRING, link STRING, count BIGINT",
    "seconds": "second BIGINT, published BIGINT, sent BIGINT, deliveries BIGINT, "
    "delay_mean_us DOUBLE, delay_max_us BIGINT, queue_max BIGINT",
}
"""The tables of an analysis, and their columns."""


def write_tables(analysis: Analysis, directory: Path) -> list[Path]:
    """Write a Parquet file for each of `TABLES`, <name>.parquet; those without rows too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"STRING": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, columns in TABLES.items():
        named = (column.split() for column in columns.split(", "))
        schema = pa.schema([(column, types[type]) for column, type in named])
        rows = getattr(analysis, name)
        table = pa.Table.from_pylist([rows] if isinstance(rows, dict) else rows, schema)
        written.append(directory / f"{name}.parquet")
        pq.write_table(table, written[-1])
    return written
