"""The covering degree of a set of filters, against twins that compare every pair."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError, LocalError
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.pipeline.planning.covering import plan_covering

pytestmark = pytest.mark.spark
SCHEMA = "subscription BIGINT, filter STRING, client STRING"


def plan(spark, filters):
    rows = [(i, text, f"c{i}") for i, text in enumerate(filters)]
    return plan_covering(spark.createDataFrame(rows, SCHEMA))


def slow_roots(filters):
    """Return the numbers of filters that no other one covers; of equal filters the first."""
    parsed = {i: parse_filter(text) for i, text in filters.items()}
    return {
        i
        for i, mine in parsed.items()
        if not any(
            j != i and covers(other, mine) and (not covers(mine, other) or j < i)
            for j, other in parsed.items()
        )
    }


INTERVALS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5)).map(
        lambda ends: f"x >= {min(ends)} AND x <= {max(ends)}"
    ),
    min_size=1,
    max_size=8,
)


@given(INTERVALS)
@settings(max_examples=3)
def test_roots_and_what_they_would_send(spark, filters):
    numbered = dict(enumerate(filters))
    roots = slow_roots(numbered)
    wanted = {
        root: len(slow_roots({i: f for i, f in numbered.items() if i != root}) - roots)
        for root in roots
    }
    found = plan(spark, filters)
    assert {row["subscription"]: row["triggered"] for row in found.rows} == wanted
    assert [row["triggered"] for row in found.rows] == sorted(wanted.values(), reverse=True)
    mean = sum(wanted.values()) / len(wanted)
    assert found.figures["covering degree: sent when a root goes, mean"] == pytest.approx(mean)


def test_a_set_by_hand(spark):
    found = plan(spark, ["x > 0", "x > 1", "x > 2 AND y = 1", "x > 5", "z = 1"])
    assert found.rows[0] == {"subscription": 0, "filter": "x > 0", "triggered": 1}
    assert found.rows[1] == {"subscription": 4, "filter": "z = 1", "triggered": 0}
    assert found.figures["subscriptions"] == 5
    assert found.figures["roots of all subscriptions, share"] == 0.4


def test_what_cannot_be(spark):
    with pytest.raises(ConfigurationError, match="there are no subscriptions"):
        plan_covering(spark.createDataFrame([], SCHEMA))
    with pytest.raises(LocalError, match="subscription 1: line 1, column 5"):
        plan(spark, ["x = 1", "x > ?"])
    named = spark.createDataFrame([("a", "x = 1")], "subscription STRING, filter STRING")
    with pytest.raises(ConfigurationError, match="column subscription is STRING"):
        plan_covering(named)
    twice = spark.createDataFrame([(1, "x = 1", "c"), (1, "x = 2", "d")], SCHEMA)
    with pytest.raises(ConfigurationError, match="2 subscriptions have 1 numbers"):
        plan_covering(twice)
