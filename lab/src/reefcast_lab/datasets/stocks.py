"""Daily quotes of stocks: CSV with Yahoo's columns.

Date, Open, High, Low, Close, Adj Close and Volume, in any order and spelling of capitals and blanks
(`adj_close`); and the symbol: a column `name`, `symbol` or `ticker`, or else the file's name, as in
a folder of downloads (`IBM.csv`, `MSFT.csv`). `null` is missing, as Yahoo writes it. The date may
be a time.

An event is a quote, at the time that its date says (UTC; midnight, where that is a day). Quotes
that no market makes are left out: a low above the opening, the closing or the high, a low of 0, no
volume. Those of the same time are in the order of their symbols.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reefcast_lab.datasets.csv_files import FILE, need_columns, plain_name, read_with_heads
from reefcast_lab.datasets.numbering import numbered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PRICES = ("open", "high", "low", "close")
ATTRIBUTES = ("symbol", *PRICES, "adj_close", "volume", "change")
"""`change`: of the closing price since the symbol's quote before, relative, rounded to six digits;
0 for its first one. Prices are float64, the volume int64."""

_NEEDED = ("date", *PRICES, "volume")
_SYMBOLS = ("name", "symbol", "ticker")
_MILLION = 1e6


def read(spark: SparkSession, path: Path) -> DataFrame:
    """Read date, the prices, adj_close, volume and symbol, all strings. Raises `ConfigurationError`
    if columns or files are missing."""
    rows = read_with_heads(spark, path)
    rows = rows.toDF(*(name if name == FILE else plain_name(name) for name in rows.columns))
    need_columns(path, rows.columns, _NEEDED)
    adjusted = F.col("adj_close") if "adj_close" in rows.columns else F.lit(None).cast("string")
    return rows.select(*_NEEDED, adjusted.alias("adj_close"), _symbol(rows).alias("symbol"))


def _symbol(rows: DataFrame) -> Column:
    named = next((F.col(name) for name in _SYMBOLS if name in rows.columns), None)
    return F.regexp_replace(FILE, r"(?i)\.csv(\.gz)?$", "") if named is None else named


def to_events(quotes: DataFrame) -> DataFrame:
    """Return event, time_us and `ATTRIBUTES`."""
    prices = [F.col(name).cast("double").alias(name) for name in (*PRICES, "adj_close")]
    volume = F.col("volume").cast("double").cast("bigint").alias("volume")
    when = F.unix_micros(F.col("date").cast("timestamp")).alias("time_us")
    sane = quotes.select(when, "symbol", *prices, volume).where(_sane())
    changed = sane.withColumn("change", _change()).select("time_us", *ATTRIBUTES)
    return numbered(changed, "event", "time_us", _order_of(F.col("symbol")))


def _sane() -> Column:
    low, high = F.col("low"), F.col("high")
    inside = [F.col(name).between(low, high) for name in ("open", "close")]
    return reduce(and_, [low > 0, F.col("volume") > 0, *inside])


def _change() -> Column:
    before = F.lag("close").over(Window.partitionBy("symbol").orderBy("time_us"))
    change = F.coalesce((F.col("close") - before) / before, F.lit(0.0))
    return F.rint(change * _MILLION) / _MILLION


def _order_of(text: Column) -> Column:
    """Return the first seven bytes as a number, which ascends with the text as far as these go."""
    seven = F.rpad(F.substring(F.hex(text), 1, 14), 14, "0")
    return F.conv(seven, 16, 10).cast("bigint")
