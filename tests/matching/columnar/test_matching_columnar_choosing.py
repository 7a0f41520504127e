"""A filter over encoded publications, against the filter's own judgment of each."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.matching.columnar.choosing import BodyFilter
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication

VALUES = (-1, 0, 1, 2, 0.5, 2**53 + 1, math.nan, math.inf, "", "a", "ab", "ü", True, False)
FILTERS = (
    *("n > 0", "n <> 1", "n IS NULL", "s LIKE 'a%'", "s = 'ü' OR n < 1", "NOT flag", "TRUE"),
    *("topic = 'a'", "topic MATCHES 'b/#' AND n >= 1", "topic = 'a' OR other = 1", "n > other"),
)
publications = st.builds(
    lambda attributes, topics: Publication("p", 1, 2, attributes, tuple(topics), b"x"),
    st.dictionaries(st.sampled_from(("n", "s", "flag", "other", "topic")), st.sampled_from(VALUES)),
    st.lists(st.sampled_from(("a", "b/c", "c")), max_size=3),
)


@given(st.sampled_from(FILTERS), st.lists(publications, max_size=10))
def test_the_same_publications_are_chosen(text: str, some: list[Publication]) -> None:
    filter = parse_filter(text)
    expected = [encode_publication(each) for each in some if filter.matches(each)]
    assert BodyFilter(filter).choose([*map(encode_publication, some)]) == expected


def test_what_another_program_wrote_is_decoded() -> None:
    head = b"\x94\xa1p\x01" + msgspec.msgpack.encode(10**15)
    narrow = head + b"\x81\xa1n\xca\x40\x00\x00\x00"  # 2.0 in 32 bits
    assert BodyFilter(parse_filter("n > 1")).choose([narrow]) == [narrow]
    assert BodyFilter(parse_filter("n < 1")).choose([narrow]) == []
    with pytest.raises(ProtocolError, match="malformed publication"):
        BodyFilter(parse_filter("n > 1")).choose([b"\x94"])
