"""What a publication's header says crosses the wire, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import FIRST_HOP, MOST_HOPS, Header, Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import HEAD_BYTES, FrameKind

PUBLICATION = Publication("p", 1, 2, {"x": 1})
BODY = wire.encode_publication(PUBLICATION)

civs = st.one_of(
    st.integers(0, 2**100),
    st.sampled_from((255, 256, 2**63 - 1, 2**63, 2**64 - 1, 2**64)),
)
tids = st.none() | st.tuples(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1))


@given(st.integers(0, MOST_HOPS), civs, tids, st.booleans())
def test_a_header_comes_out_as_it_went_in(
    hops: int, civ: int, tid: tuple[str, int] | None, switched: bool
) -> None:
    header = Header(hops, civ, tid, switched and tid is not None)
    frame = wire.encode_publish(Publish(PUBLICATION, header, BODY))
    decoded = wire.decode_publish(frame[HEAD_BYTES:])
    assert decoded == Publish(PUBLICATION, header, BODY)
    assert type(decoded.header) is Header
    plain = wire.encode_publish(Publish(PUBLICATION, Header(hops), BODY))
    assert len(frame) - len(plain) == wire.header_bytes(header)


def test_a_plain_header_holds_the_hops_only() -> None:
    bare = wire.encode_parts(FrameKind.PUBLISH, (), BODY)
    assert len(wire.encode_publish(Publish(PUBLICATION, FIRST_HOP, BODY))) - len(bare) == 1
    assert wire.header_fields(Header(3)) == (3,)
    assert wire.header_fields(Header(3, 5)) == (3, 5)


@pytest.mark.parametrize(
    "fields", [(-1,), (MOST_HOPS + 1,), (1, -5), (1, "x"), (2**64 - 2,), (1, 0, 7), (1, b"1", 7)]
)
def test_a_header_that_is_none_is_refused(fields: tuple[object, ...]) -> None:
    frame = wire.encode_parts(FrameKind.PUBLISH, fields, BODY)
    with pytest.raises(ProtocolError, match="malformed publication header"):
        wire.decode_publish(frame[HEAD_BYTES:])
