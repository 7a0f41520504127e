"""Rates of requests, counted for the topics that storages keep."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.patterns import topic_pattern_covers
from reefcast.pipeline.planning.placement.kept import rates_of_kept

TOPICS = st.sampled_from(["x", "a", "a/1", "a/2", "a/1/b", "a/+", "a/#", "+/1", "#"])
RATES = st.dictionaries(
    st.sampled_from(["b1", "b2"]), st.dictionaries(TOPICS, st.integers(0, 9).map(float)), min_size=1
)


def test_requests_count_for_the_narrowest_that_is_kept() -> None:
    rates = {"b1": {"a/1": 1.0, "a/2": 2.0, "x": 4.0}, "b2": {"a/1/b": 8.0, "a/1": 16.0}}
    assert rates_of_kept(rates, ["#", "a/#", "a/+", "y"]) == {
        "b1": {"a/+": 3.0, "#": 4.0, "a/#": 0.0, "y": 0.0},
        "b2": {"a/#": 8.0, "a/+": 16.0, "#": 0.0, "y": 0.0},
    }
    assert rates_of_kept(rates, ["+/1", "a/+"]) == {
        "b1": {"+/1": 1.0, "a/+": 2.0, "x": 4.0},
        "b2": {"+/1": 16.0, "a/1/b": 8.0, "a/+": 0.0},
    }
    assert rates_of_kept(rates, []) == rates


@given(rates=RATES, kept=st.lists(TOPICS, unique=True))
def test_no_request_is_lost_nor_counted_for_what_has_it_not(
    rates: Mapping[str, Mapping[str, float]], kept: list[str]
) -> None:
    found = rates_of_kept(rates, kept)
    assert found.keys() == rates.keys()
    for broker, of_broker in found.items():
        assert sum(of_broker.values()) == sum(rates[broker].values())
        assert set(kept) <= set(of_broker)
        for topic in set(of_broker) - set(kept):  # nobody keeps it, nor something wider
            assert topic in rates[broker]
            assert not any(topic_pattern_covers(own, topic) for own in kept)
