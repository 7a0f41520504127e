"""A placement, turned into the storages that it makes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reefcast.pipeline.planning.placement.inputs import storages_of

NAMES = st.sampled_from("abcdef")


@given(st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=3, unique=True)))
def test_storages_keep_what_is_placed_at_them(kept: dict[str, list[str]]) -> None:
    storages = storages_of({topic: tuple(brokers) for topic, brokers in kept.items()})
    assert {(topic, each.broker) for each in storages for topic in each.topics} == {
        (topic, broker) for topic, brokers in kept.items() for broker in brokers
    }
    brokers = [each.broker for each in storages]
    assert brokers == sorted(set(brokers))
    assert all(each.topics == tuple(sorted(set(each.topics))) for each in storages)
