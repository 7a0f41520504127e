"""The bytes that Spark reads: less where less is asked for, and the same rows."""

from __future__ import annotations

import pytest

from reefcast_lab.bench.spark_bytes import bench_bytes

pytestmark = pytest.mark.spark


@pytest.mark.soak  # it starts Java and its workers anew
def test_less_is_sent_where_less_is_asked_for(java: None) -> None:
    rows = {row.asked: row for row in bench_bytes(300, "local[2]")}
    whole = rows["everything"]
    assert (whole.rows, whole.share) == (300, 1.0)
    assert rows["two columns, `.schema(...)`"].wire_bytes < whole.wire_bytes / 2
    assert rows["the same with `pushdown`"].rows == rows["six columns, `where(...)`"].rows
    either, filtered = (
        rows["six columns, an OR in `where(...)`, with `pushdown`"],
        rows["the same OR in the option `filter`"],
    )
    assert either.rows == filtered.rows > 0
    assert filtered.wire_bytes < either.wire_bytes / 2
