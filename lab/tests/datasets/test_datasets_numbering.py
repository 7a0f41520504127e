"""Row numbers, made in slices none of which is large, equal those of one window over all rows."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

ROWS, COLLECTED = 20_000, 5_000


def numbers_of(spark, time, tie):
    """Return rows with these expressions of `id`, numbered and collected."""
    from pyspark.sql import functions as F

    from reefcast_lab.datasets.numbering import numbered

    rows = spark.range(COLLECTED).select("id", F.expr(time).alias("t"), F.expr(tie).alias("tie"))
    found = numbered(rows.repartition(5, "id"), "number", "t", F.col("tie"))
    assert found.columns == ["number", "id", "t", "tie"]
    return [tuple(row) for row in found.orderBy("number").collect()]


SKEWED = {
    "even": ("id * 7919 % 20011", "id"),
    "most at the same time": ("if(id % 10 = 0, id, 5000L)", "-id"),
    "all at the same time": ("3L", "xxhash64(id)"),
    "few times": ("id % 3", "id"),
    "the largest number": ("if(id % 2 = 0, 9223372036854775807, -9223372036854775808)", "id"),
}


@pytest.mark.parametrize(("time", "tie"), SKEWED.values(), ids=SKEWED)
def test_numbers_ascend_with_time_and_tie_without_gaps(spark, time, tie):
    found = numbers_of(spark, time, tie)
    assert [row[0] for row in found] == list(range(COLLECTED))
    keys = [row[2:] for row in found]
    assert keys == sorted(keys)
    assert sorted(row[1] for row in found) == list(range(COLLECTED))


@pytest.mark.parametrize(("time", "tie"), SKEWED.values(), ids=SKEWED)
def test_no_slice_is_much_larger_than_others(spark, time, tie):
    from pyspark.sql import functions as F

    from reefcast_lab.datasets import numbering

    rows = spark.range(ROWS).select(F.expr(time).alias("t"), F.expr(tie).alias(numbering._TIE))
    slices = rows.select(numbering._slice("t", *numbering._cuts(rows, "t")).alias("slice"))
    sizes = [row["count"] for row in slices.groupBy("slice").count().collect()]
    assert sum(sizes) == ROWS
    assert max(sizes) <= 2.1 * ROWS / numbering.SLICES


def test_rows_that_agree_in_both_are_numbered_all_the_same(spark):
    found = numbers_of(spark, "1L", "1L")
    assert [row[0] for row in found] == list(range(COLLECTED))


def test_numbers_by_a_hash_do_not_depend_on_partitions(spark):
    from reefcast_lab.datasets.numbering import numbered_by_hash

    rows = spark.range(1000).withColumnRenamed("id", "key")
    one, many = (
        {row["key"]: row["number"] for row in numbered_by_hash(cut, "number", "key").collect()}
        for cut in (rows.coalesce(1), rows.repartition(7))
    )
    assert one == many and sorted(one.values()) == list(range(1000))


def test_no_rows(spark):
    from reefcast_lab.datasets.numbering import numbered_by_hash

    assert numbered_by_hash(spark.range(0), "number", "id").collect() == []
