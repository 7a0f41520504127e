"""Publications cut down to the wanted parts, against decoding and encoding them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reefcast.history.projection import Projection
from reefcast.model import wire
from reefcast.model.publication import Publication

names = st.sampled_from(["a", "b", "c.d", "é", ""])
values = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.booleans() | st.text()
publications = st.builds(
    Publication,
    publisher=st.text(min_size=1),
    seq=st.integers(1, 2**63 - 1),
    time_us=st.integers(-(2**63), 2**63 - 1),
    attributes=st.dictionaries(names, values),
    topics=st.lists(st.text()).map(tuple),
    payload=st.binary(),
)


@given(st.lists(publications, max_size=3), st.none() | st.lists(names), st.booleans())
def test_a_cut_publication_has_the_wanted_parts_and_nothing_else(
    some: list[Publication], wanted: list[str] | None, payload: bool
) -> None:
    cut = Projection(wanted, payload=payload).cut(list(map(wire.encode_publication, some)))
    assert cut == [
        wire.encode_publication(
            Publication(
                each.publisher,
                each.seq,
                each.time_us,
                {k: v for k, v in each.attributes.items() if wanted is None or k in wanted},
                each.topics,
                each.payload if payload else b"",
            )
        )
        for each in some
    ]


def test_old_publications_have_neither_topics_nor_payload() -> None:
    body = b"\x94\xa1p\x01\x02\x81\xa1a\x07"
    assert wire.decode_publication(body) == Publication("p", 1, 2, {"a": 7})
    (cut,) = Projection((), payload=False).cut([body])
    assert wire.decode_publication(cut) == Publication("p", 1, 2, {})
