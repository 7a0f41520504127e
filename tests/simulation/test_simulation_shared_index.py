"""The index of the whole network against the scan, under churn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_scenarios import FILTERS

from reefcast.errors import LocalError
from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.routing.tables import NextHops, Row, next_hops_of
from reefcast.simulation import shared_index
from reefcast.simulation.shared_index import SharedMatching

PUBLICATIONS = [
    Publication("p", seq, 0, {"a": a, "s": s})
    for seq, (a, s) in enumerate((a, s) for a in range(6) for s in "xyz")
]
LINKS = ("c0", "c1", "n0", "n1", "n2")
ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 5), st.sampled_from(FILTERS), st.sampled_from(LINKS)
    ),
    max_size=30,
)


def row_of(number: int, text: str, link: str) -> Row:
    return Row(("s", number), parse_filter(text), link, link.startswith("c"))


def in_order(next_hops: NextHops) -> tuple[object, ...]:
    local = {client: sorted(numbers) for client, numbers in next_hops.local.items()}
    return local, sorted(next_hops.hops), next_hops.matched


@settings(max_examples=50, deadline=None)
@given(ACTIONS, st.sampled_from((1, 62)))
def test_shared_matching_equals_an_index_for_each_broker(
    actions: list[tuple[int, int, str, str]], hops_of_a_mask: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_index, "HOPS_OF_A_MASK", hops_of_a_mask)
        shared = SharedMatching()
        indexes = [shared.new_index() for _ in range(2)]
        twins: list[ScanIndex[Row]] = [ScanIndex() for _ in range(2)]
        rows: dict[tuple[int, int], Row] = {}
        for broker, number, text, link in actions:
            old = rows.pop((broker, number), None)
            row = old or rows.setdefault((broker, number), row_of(number, text, link))
            for index in (indexes[broker], twins[broker]):
                index.remove(row) if old else index.add(row, row.filter)
            assert len(indexes[broker]) == len(twins[broker])
            for mine, twin in zip(indexes, twins, strict=True):
                matched = twin.match_many(PUBLICATIONS)
                assert list(map(set, mine.match_many(PUBLICATIONS))) == list(map(set, matched))
                expected = [in_order(next_hops_of(found)) for found in matched]
                assert [
                    in_order(next_hops) for next_hops in mine.next_hops(PUBLICATIONS)
                ] == expected


def test_answers_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_index, "REMEMBERED", 3)
    index = SharedMatching().new_index()
    row = row_of(1, "a < 3", "n0")
    index.add(row, row.filter)
    for publication in PUBLICATIONS * 2:
        assert index.match(publication) == ([row] if publication.attributes["a"] < 3 else [])


def test_a_row_comes_and_goes_once() -> None:
    index = SharedMatching().new_index()
    row = row_of(1, "a < 3", "n0")
    with pytest.raises(LocalError):
        index.remove(row)
    index.add(row, row.filter)
    assert row in index
    with pytest.raises(LocalError):
        index.add(row, row.filter)
