"""Make a trace of many rows, to see how `reefcast analyze` copes with it:

    python tools/big_trace.py out/big 100000000
    reefcast analyze out/big --tables out/big-tables --out out/big.html

The rows are skewed: one publisher has half of the publications, one broker more than half of the
deliveries.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from reefcast.pipeline.session import spark_session
from reefcast.traces.files import write_run

BROKERS = 56
FILES = 24
SHARES = {"publish": (20, 1), "message": (240, 12), "delivery": (100, 5), "matching": (40, 2)}
"""By kind of row: its share in 400 rows, and how many rows a publication has."""


def broker(number: Column) -> Column:
    return F.format_string("b%02d", number % BROKERS)


def rows_of(spark: SparkSession, kind: str, rows: int) -> DataFrame:
    """Return the columns of rows of one kind. `k`: which row of publication `p` it is; `h`:
    anything below a million."""
    share, each = SHARES[kind]
    made = spark.range(0, rows * share // 400, 1, FILES)
    made = made.withColumn("p", F.floor(F.col("id") / each)).withColumn("k", F.col("id") % each)
    hot = F.when(F.col("p") % 2 == 0, F.lit("hot"))
    return made.select(
        "k",
        "p",
        hot.otherwise(F.concat(F.lit("p"), (F.col("p") % 1000).cast("string"))).alias("publisher"),
        F.col("p").alias("seq"),
        (F.col("p") * 200).alias("published_us"),
        F.pmod(F.xxhash64("id"), F.lit(1_000_003)).alias("h"),
    )


def columns(kind: str) -> dict[str, Column]:
    p, k, h, at = (F.col(name) for name in ("p", "k", "h", "published_us"))
    if kind == "publish":
        return {"time_us": at, "broker": broker(p), "size_bytes": F.lit(120)}
    if kind == "message":
        name = F.when(h % 50 == 0, "subscribe").otherwise("publish")
        way = {"time_us": at + k * 100, "broker": broker(p + k), "link": broker(p + k + 1)}
        return way | {"message": name, "size_bytes": 150 + h % 50, "queue_len": h % 20}
    if kind == "delivery":
        late = at + 300 + F.exp(h / 70_000.0).cast("long")
        where = F.when(k < 3, "b00").otherwise(broker(p + 3 * k))
        counts = {"subscribers": 1 + h % 4, "subscriptions": 1 + h % 4, "hops": k * 2}
        return {"time_us": late, "broker": where, "published_us": at} | counts
    return {"time_us": at, "broker": broker(p + k), "matched": h % 30, "duration_ns": h}


def main(folder: Path, rows: int) -> None:
    names = [f"b{number:02d}" for number in range(BROKERS)]
    links = [list(pair) for pair in pairwise(names)]
    told = {"simulated": True, "routing": "idr", "brokers": names, "links": links, "level": "full"}
    write_run(folder, told)
    with spark_session("big trace") as spark:
        for kind in SHARES:
            made = rows_of(spark, kind, rows)
            texts = ("broker", "link", "message")
            chosen = [
                (column if name in texts else column.cast("long")).alias(name)
                for name, column in columns(kind).items()
            ]
            path = str(folder / kind)
            made.select("publisher", "seq", *chosen).write.mode("overwrite").parquet(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
