"""Publications cut down to the wanted parts, against decoding and encoding them."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
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


@pytest.mark.long
def test_threads_may_share_one() -> None:
    """A reply is cut in a thread of its own, and what comes meanwhile beside it."""
    projection = Projection(["a"], payload=False)
    few, many = (
        [wire.encode_publication(Publication("p", n + 1, 2, {"a": n, "b": "x" * 40})) for n in some]
        for some in (range(1), range(1024))
    )
    expected = [projection.cut_one(body) for body in many]
    done = threading.Event()

    def cut_few() -> None:
        while not done.is_set():
            assert projection.cut(few) == expected[:1]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(cut_few)
            cuts = [projection.cut(many) for _ in range(600)]
            done.set()
            beside.result()
    finally:
        done.set()
        sys.setswitchinterval(before)
    assert all(each == expected for each in cuts)


@given(st.lists(publications, max_size=3), st.none() | st.lists(names), st.booleans())
@example([Publication("p", 1, 2, {f"a{n}": n for n in range(100)})] * 2, ["a3", "a99", "b"], True)
def test_a_cut_publication_has_the_wanted_parts_and_nothing_else(
    some: list[Publication], wanted: list[str] | None, payload: bool
) -> None:
    bodies, projection = (
        list(map(wire.encode_publication, some)),
        Projection(wanted, payload=payload),
    )
    cut = projection.cut(bodies)
    assert cut == list(map(projection.cut_one, bodies))
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


def test_what_other_programs_wrote_is_cut_among_the_others() -> None:
    ours = wire.encode_publication(Publication("p", 1, 2, {"a": 7, "b": 8}, ("t",), b"x"))
    narrow = b"\x94\xa1p\x01\x02\x82\xa1a\xca\x40\x00\x00\x00\xa1b\x01"  # 2.0 in 32 bits
    twice = b"\x94\xa1p\x01\x02\x82\xa1a\x07\xa1a\x08"
    cut = Projection(["a"], payload=True).cut([ours, narrow, twice, ours])
    assert [wire.decode_publication(each).attributes["a"] for each in cut] == [7, 2.0, 8, 7]
    assert cut[0] == cut[3] and wire.decode_publication(cut[0]).attributes == {"a": 7}
