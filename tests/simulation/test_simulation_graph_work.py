"""Comparisons of brokers that look for covering without an index, counted beside those with one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reefcast.matching import new_index
from reefcast.matching.cover.graphs import SimplifiedGraph
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import Publication
from reefcast.routing.tables import Row, RowIndex
from reefcast.simulation.graph_work import GraphWork

INTERVALS = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)
SETS = st.lists(INTERVALS.map(tuple), min_size=1, max_size=25, unique=True)
"""Intervals of which no two are equal."""


def interval(low: int, high: int) -> Filter:
    return parse_filter(f"x BETWEEN {low} AND {high}")


def row(number: int, filter: Filter) -> Row:
    return Row(("c", number), filter, "c", local=True)


class Traversing:
    """Algorithm 1 without an index, and where a filter got in it, read off its edges."""

    def __init__(self) -> None:
        self.graph: SimplifiedGraph[int] = SimplifiedGraph()

    def add(self, key: int, filter: Filter) -> tuple[int, int, list[int]]:
        """Comparisons; nodes beside and below it; how many stand at each level above."""
        before = self.graph.comparisons
        self.graph.add(key, filter)
        parent_of = {child: parent for parent, child in self.graph.edges()}
        children: dict[int | None, int] = {}
        for one in range(key + 1):
            over = parent_of.get(one)
            children[over] = children.get(over, 0) + 1
        place = parent_of.get(key)
        beside = children[place] - 1 + children.get(key, 0)
        above = []
        while place is not None:
            place = parent_of.get(place)
            above.append(children[place])
        return self.graph.comparisons - before, beside, above


@given(SETS, st.data())
def test_counts_what_a_traversal_compares_up_to_where_the_first_cover_stood(
    ends: list[tuple[int, int]], data: st.DataObject
) -> None:
    work, twin = GraphWork(), Traversing()
    taken = 0.0
    for number, (low, high) in enumerate(ends):
        filter = interval(low, high)
        work.add(row(number, filter), filter)
        compared, beside, above = twin.add(number, filter)
        assert beside + len(above) <= compared <= beside + sum(above)
        packed = data.draw(st.booleans())
        found = work.drain(packed=packed)
        taken += found
        if packed:
            assert found == beside
        else:
            assert found == beside + sum((met + 1) / 2 for met in above)
            assert beside + len(above) <= found <= beside + sum(above)
        if not above:
            assert found == compared
    assert work.comparisons == taken


@given(SETS, st.data())
def test_what_went_is_met_no_more(ends: list[tuple[int, int]], data: st.DataObject) -> None:
    work = GraphWork()
    rows = [row(number, interval(*one)) for number, one in enumerate(ends)]
    for one in rows:
        work.add(one, one.filter)
    stay = data.draw(st.lists(st.sampled_from(rows), unique=True))
    for one in rows:
        if one not in stay:
            work.remove(one)
    work.drain(packed=False)
    everything = interval(-1, 13)
    work.add(row(len(rows), everything), everything)
    roots = [a for a in stay if not any(a is not b and within(a, b) for b in stay)]
    assert work.drain(packed=False) == len(roots)


def within(one: Row, other: Row) -> bool:
    ends, others = (tuple(bounds(each)) for each in (one, other))
    return others[0] <= ends[0] and ends[1] <= others[1]


def bounds(one: Row) -> list[int]:
    holds = [x for x in range(13) if one.filter.holds({"x": x})]
    return [min(holds), max(holds)]


def test_several_that_come_at_once_are_taken_together_and_once() -> None:
    work = GraphWork()
    for number, ends in enumerate([(0, 9), (20, 29), (1, 2), (3, 4)]):
        work.add(row(number, interval(*ends)), interval(*ends))
    # 0, then 1 beside one, then two levels of which the first has two: 1.5 above, and 0 and 1.
    assert work.drain(packed=False) == 0 + 1 + (1.5 + 0) + (1.5 + 1)
    assert work.drain(packed=False) == 0.0


def test_a_watched_index_answers_as_before_and_tells_the_graph() -> None:
    work = GraphWork()
    index = work.watch(new_index)()
    plain = RowIndex(new_index())
    rows = [row(number, interval(number, number + 3)) for number in range(6)]
    for each in (index, plain):
        for one in rows:
            each.add(one, one.filter)
        each.remove(rows[2])
    publication = Publication("p", 1, 0, {"x": 3})
    assert index.next_hops([publication]) == plain.next_hops([publication])
    assert work.drain(packed=True) == sum(range(6))
