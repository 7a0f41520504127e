"""The example of a Spark job does what its page says, in a Spark session of its own; its
transformation is tested without a broker."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from example_pages import EXAMPLES, a_broker, interrupt, line_with, lines, page, until_stored
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.long
async def test_spark_job(java: None, tmp_path: Path) -> None:
    (alone, publish, job), [seen] = page("spark_job")
    async with a_broker(tmp_path, alone) as terminals:
        await terminals.run(publish)
        await until_stored(terminals.url, "departures", 10)
        query = await terminals.start(job)
        first, *rest = seen.splitlines(keepends=True)
        await line_with(query, first)
        assert await lines(query, len(rest)) == "".join(rest)
        _, errors = await interrupt(query)
        assert "Traceback" not in errors, errors


def test_the_transformation(spark: SparkSession) -> None:
    rows = [("AA", 10.0), ("AA", 15.0), ("AA", None), ("DL", -3.0)]
    departures = spark.createDataFrame(rows, "carrier STRING, delay DOUBLE")
    mean_delays = runpy.run_path(str(EXAMPLES / "spark_job" / "mean_delays.py"))["mean_delays"]
    found = [tuple(row) for row in mean_delays(departures).collect()]
    assert found == [("AA", 3, 12.5), ("DL", 1, -3.0)]
