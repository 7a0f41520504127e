"""The CIV that a copy carries, on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import MOST_HOPS, Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import HEAD_BYTES, Codec, FrameKind
from reefcast.routing.clt import ScotHeader
from reefcast.routing.idr import Idr
from reefcast.routing.tid import TidD
from reefcast.routing.tid_tables import TidHeader

PUBLICATION = Publication("p", 1, 2, {"x": 1})
BODY = wire.encode_publication(PUBLICATION)

civs = st.one_of(
    st.integers(0, 2**100),
    st.sampled_from((255, 256, 2**63 - 1, 2**63, 2**64 - 1, 2**64)),
)
tids = st.none() | st.tuples(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1))


@given(st.integers(0, MOST_HOPS), civs)
def test_a_civ_of_any_number_of_clusters_crosses_the_wire(hops: int, civ: int) -> None:
    frame = wire.encode_publish(Publish(PUBLICATION, ScotHeader(hops, civ), BODY))
    decoded = Codec(Idr.messages, Idr.header).decode_publish(frame[HEAD_BYTES:])
    assert decoded == Publish(PUBLICATION, ScotHeader(hops, civ), BODY)


@given(st.integers(0, MOST_HOPS), tids, st.booleans())
def test_a_tid_crosses_the_wire(hops: int, tid: tuple[str, int] | None, switched: bool) -> None:
    header = TidHeader(hops, tid, switched)
    frame = wire.encode_publish(Publish(PUBLICATION, header, BODY))
    decoded = Codec(TidD.messages, TidD.header).decode_publish(frame[HEAD_BYTES:])
    assert decoded == Publish(PUBLICATION, header, BODY)


@pytest.mark.parametrize("fields", [(1, -5), (1, "x"), (1, 0, 7), (1, b"1", 7), (b"1", 1)])
def test_a_header_that_is_none_is_refused(fields: tuple[object, ...]) -> None:
    frame = wire.encode_parts(FrameKind.PUBLISH, fields, BODY)
    with pytest.raises(ProtocolError, match="malformed publication header"):
        Codec(Idr.messages, Idr.header).decode_publish(frame[HEAD_BYTES:])
