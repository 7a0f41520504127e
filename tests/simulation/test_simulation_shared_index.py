"""The index of the whole network against the scan, under churn."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_scenarios import FILTERS

from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.simulation import shared_index
from reefcast.simulation.shared_index import SharedMatching

PUBLICATIONS = [
    Publication("p", seq, 0, {"a": a, "s": s})
    for seq, (a, s) in enumerate((a, s) for a in range(6) for s in "xyz")
]
ACTIONS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 5), st.sampled_from(FILTERS)), max_size=30
)


@settings(max_examples=50, deadline=None)
@given(ACTIONS)
def test_shared_matching_equals_an_index_for_each_broker(
    actions: list[tuple[int, int, str]],
) -> None:
    shared = SharedMatching()
    indexes = [shared.new_index() for _ in range(2)]
    twins: list[ScanIndex[int]] = [ScanIndex() for _ in range(2)]
    for broker, key, text in actions:
        for index in (indexes[broker], twins[broker]):
            if key in index:
                index.remove(key)
            else:
                index.add(key, parse_filter(text))
        assert len(indexes[broker]) == len(twins[broker])
        for index, twin in zip(indexes, twins, strict=True):
            found = [sorted(keys) for keys in index.match_many(PUBLICATIONS)]
            assert found == [sorted(keys) for keys in twin.match_many(PUBLICATIONS)]


def test_answers_are_forgotten_in_the_end(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(shared_index, "REMEMBERED", 3)
    shared = SharedMatching()
    index = shared.new_index()
    index.add("one", parse_filter("a < 3"))
    for publication in PUBLICATIONS * 2:
        assert index.match(publication) == (["one"] if publication.attributes["a"] < 3 else [])
