"""The check finds exactly what went wrong, and nothing else."""

from __future__ import annotations

import pytest

from four_flights import EVENTS, FILTERS
from reefcast_lab.demos.check import check

pytestmark = pytest.mark.spark

PUBLICATIONS = [("p", 1, 0), ("p", 2, 1), ("q", 1, 2), ("q", 2, 3)]
DELIVERIES = [
    (10, "p", 1),
    (11, "p", 1),
    (11, "p", 2),
    (11, "q", 1),
    (12, "q", 2),
    (13, "p", 2),
    (13, "q", 1),
]


@pytest.fixture
def run(spark):
    def run(publications=PUBLICATIONS, deliveries=DELIVERIES):
        return check(
            spark.createDataFrame(EVENTS, "event BIGINT, dest STRING, delay BIGINT, wind DOUBLE"),
            spark.createDataFrame(FILTERS, "subscription BIGINT, filter STRING"),
            spark.createDataFrame(publications, "publisher STRING, seq BIGINT, event BIGINT"),
            spark.createDataFrame(deliveries, "subscription BIGINT, publisher STRING, seq BIGINT"),
        )

    return run


def counts(result):
    return (result.expected, result.delivered, result.lost, result.duplicated, result.unexpected)


def test_clean_run_passes(run):
    result = run()
    assert counts(result) == (7, 7, 0, 0, 0)
    assert (result.replayed, result.published) == (4, 4)
    assert result.passed
    assert result.examples == {}


def test_removing_doubling_and_adding_one_is_seen_exactly(run):
    changed = [row for row in DELIVERIES if row != (12, "q", 2)]
    changed += [(11, "p", 2), (14, "q", 1)]
    result = run(deliveries=changed)
    assert counts(result) == (7, 8, 1, 1, 1)
    assert not result.passed
    assert result.examples == {
        "lost": [{"event": 3, "subscription": 12, "filter": FILTERS[2][1], "delivered": 0}],
        "duplicated": [{"event": 1, "subscription": 11, "filter": FILTERS[1][1], "delivered": 2}],
        "unexpected": [{"event": 2, "subscription": 14, "filter": FILTERS[4][1], "delivered": 1}],
    }


def test_nothing_delivered_is_all_lost(run):
    assert counts(run(deliveries=[])) == (7, 0, 7, 0, 0)


def test_delivery_of_an_unlogged_publication_is_unexpected(run):
    result = run(deliveries=[*DELIVERIES, (10, "p", 99)])
    assert counts(result) == (7, 8, 0, 0, 1)
    assert result.examples["unexpected"][0]["event"] is None


def test_an_event_that_was_not_published_fails_the_check(run):
    result = run(
        publications=[row for row in PUBLICATIONS if row[2] != 3],
        deliveries=[row for row in DELIVERIES if row[1:] != ("q", 2)],
    )
    assert (result.unpublished, result.published_wrongly, result.lost) == (1, 0, 1)
    assert not result.passed


def test_an_event_published_twice_or_out_of_the_blue_fails_the_check(run):
    result = run(publications=[*PUBLICATIONS, ("r", 1, 0), ("r", 2, 77)])
    assert (result.unpublished, result.published_wrongly) == (0, 2)
    assert not result.passed
