"""Lists of numbers, in each of their forms: small integers, keys, and keys with rests."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from matching_harness import SPECIAL, Both, event, number_to_sql

from reefcast.matching.index import CompiledIndex
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Value

small = st.one_of(
    st.integers(-60, 60), st.sampled_from((-(2**31), -(2**31) + 1, 2**31 - 2, 2**31 - 1))
)
keys = st.one_of(small, st.integers(-30, 30).map(lambda n: n / 4), st.sampled_from((2**31, 1e300)))
pairs = st.one_of(keys, st.integers(2**53 - 2, 2**53 + 9), st.integers(-(2**63) + 1, -(2**63) + 5))
lists = st.one_of(
    *(
        st.lists(numbers, min_size=1, max_size=size)
        for numbers in (small, keys, pairs)
        for size in (4, 70)
    )
)
filters = st.tuples(lists, st.sampled_from(("", "NOT ")), st.booleans()).map(
    lambda p: f"a {p[1]}IN ({', '.join(map(number_to_sql, p[0]))})" + " AND b <> 3" * p[2]
)
values: st.SearchStrategy[Value] = st.one_of(
    pairs, pairs.map(float), st.sampled_from((*SPECIAL, "1", True))
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(filters, min_size=1, max_size=6),
    st.lists(values, min_size=1, max_size=12),
    st.sampled_from((1, 40)),
)
def test_like_asking_each_filter(texts: list[str], drawn: list[Value], copies: int) -> None:
    """The index evaluates them row by row, and in bitmaps."""
    both = Both()
    for key, text in enumerate(texts * copies):
        both.add(key, parse_filter(text))
    both.check([event({"a": value, "b": b}) for value in drawn for b in (2, 3)])
    for key in list(both.filters):
        both.remove(key)
    assert both.index.plan()["rows"] == 0


def bytes_of(text: str) -> int:
    index: CompiledIndex[int] = CompiledIndex()
    index.add(0, parse_filter("a > 0"))
    empty = index.memory_bytes()
    index.add(1, parse_filter(text))
    return index.memory_bytes() - empty


def test_a_thousand_integers_have_five_thousand_bytes() -> None:
    numbers = range(0, 3000, 3)
    assert bytes_of(f"a IN ({', '.join(map(str, numbers))})") < 5300
    assert bytes_of(f"a IN ({', '.join(f'{n}.5' for n in numbers)})") < 9300
