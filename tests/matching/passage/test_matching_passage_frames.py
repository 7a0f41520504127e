"""Frames that kernels write, against those of `model.wire`."""

from __future__ import annotations

import struct
from functools import cache

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.matching.index import CompiledIndex
from reefcast.matching.passage import bodies, frames
from reefcast.matching.passage.courses import Courses, Directions
from reefcast.matching.passage.desk import Desk
from reefcast.matching.passage.layout import G_AT, G_SIZE, MOST_NUMBERS, WHOLE
from reefcast.matching.passage.leads import Leads
from reefcast.matching.passage.sources import ANYTHING, Source
from reefcast.model import frame_layout, wire
from reefcast.model.filters import Filter
from reefcast.model.language import parse
from reefcast.model.messages import Header, Publish
from reefcast.model.publication import INT64_MAX, Publication

EVERYTHING = Filter("TRUE", parse("TRUE"))
# Around every size that a number may have in msgpack.
ENDS = (1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, INT64_MAX)
numbers = st.one_of(
    st.sets(st.one_of(st.sampled_from(ENDS), st.integers(1, INT64_MAX)), min_size=1, max_size=18),
    st.sampled_from((set(range(1, 16)), set(range(1, 17)), set(range(200, 200 + MOST_NUMBERS)))),
)


@cache
def the_desk() -> Desk:
    return Desk()


def written(data: bytes, filters: CompiledIndex[int], leads: Leads, onward: Header) -> bytes:
    """Return what kernels write for the only destination of the publication in this frame;
    `onward`: the header of a copy."""
    desk = the_desk()
    assert desk.cut(data, 0, 1000) == 1
    courses = Courses(leads)
    table = courses.table("x", is_client=False)
    source = Source(filters, leads, -1, ANYTHING, b"", table, filters.is_topical)
    number, _ = desk.header_of(0)
    courses.enter("x", number, Directions(wire.encode_header(onward)))
    left, stopped, touched, *_ = desk.pass_on(0, 1, 0, source)
    assert (left, stopped) == (1, WHOLE)
    return desk.frames(touched[G_AT], touched[G_SIZE])


@settings(max_examples=50, deadline=None)
@given(numbers, st.integers(0, 126), st.sampled_from((0, 1, 300, 70_000)))
def test_both_ways_write_the_same_frames(numbers: set[int], hops: int, size: int) -> None:
    """The frames are a delivery to a client with these subscriptions, and the copy for a
    neighbour."""
    body = wire.encode_publication(Publication("p", 1, 2, {"a": 3}, (), bytes(size)))
    publish = Publish(Publication("p", 1, 2, {}), Header(hops), body)
    data = wire.encode_publish(publish)
    filters, leads = CompiledIndex[int](), Leads()
    for key, number in enumerate(numbers):
        filters.add(key, EVERYTHING)
        leads.add(filters.handle_of(key), "s", number, is_client=True)
    onward = Header(hops + 1)
    assert written(data, filters, leads, onward) == wire.encode_deliver(sorted(numbers), body)

    filters, leads = CompiledIndex[int](), Leads()
    filters.add(0, EVERYTHING)
    leads.add(filters.handle_of(0), "b", 0, is_client=False)
    further = msgspec.structs.replace(publish, header=onward)
    assert written(data, filters, leads, onward) == wire.encode_publish(further)


def test_the_layout_is_the_one_that_is_documented() -> None:
    """`wire`'s docstring describes it; a change of it is incompatible with all older programs."""
    assert frame_layout.PARTS == ((0, 4), (4, 1), (5, 4))
    frame = wire.encode_parts(wire.FrameKind.DELIVER, (1, 2), b"body")
    assert struct.unpack_from(">IBI", frame) == (len(frame) - 4, 4, 3)
    assert frame[9:] == b"\x92\x01\x02body"


def test_kernels_read_the_fields_of_a_body_in_their_order() -> None:
    fields = ("publisher", "seq", "time_us", "attributes", "topics", "payload")
    assert Publication.__struct_fields__ == fields
    assert (bodies.FEWEST_FIELDS, bodies.MOST_FIELDS) == (4, 6)
    assert len(wire.encode_publish(Publish(Publication("p", 1, 2, {}), Header(126)))) == (
        frames.PARTS_BYTES + frames.HOPS_BYTES
    )
