"""A publication's header crosses the wire complete, and nothing else does."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import FIRST_HOP, MOST_HOPS, EntityId, Header, PeerMessage, Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import CLIENT_CODEC, HEAD_BYTES, Codec, FrameKind

PUBLICATION = Publication("p", 1, 2, {"x": 1})
BODY = wire.encode_publication(PUBLICATION)


class Ping(PeerMessage, frozen=True, kw_only=True, tag="ping"):
    ids: tuple[EntityId, ...]


class Painted(Header, frozen=True):
    colour: str = ""
    tree: EntityId | None = None


CODEC = Codec([Ping], Painted)

hops = st.integers(0, MOST_HOPS)
trees = st.none() | st.tuples(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1))


def crossed(header: Header, codec: Codec) -> Publish:
    frame = wire.encode_publish(Publish(PUBLICATION, header, BODY))
    return codec.decode_publish(frame[HEAD_BYTES:])


@given(hops, st.text(max_size=5), trees)
def test_a_header_comes_out_as_it_went_in(hops: int, colour: str, tree: EntityId | None) -> None:
    header = Painted(hops, colour, tree)
    for _ in range(2):  # the second time from the headers that are kept
        assert crossed(header, CODEC) == Publish(PUBLICATION, header, BODY)
        assert crossed(Header(hops), CODEC) == Publish(PUBLICATION, Header(hops), BODY)
    frame = wire.encode_publish(Publish(PUBLICATION, header, BODY))
    plain = wire.encode_publish(Publish(PUBLICATION, Header(hops), BODY))
    assert len(frame) - len(plain) == wire.header_bytes(header)


def test_a_plain_header_holds_the_hops_only() -> None:
    bare = wire.encode_parts(FrameKind.PUBLISH, (), BODY)
    assert len(wire.encode_publish(Publish(PUBLICATION, FIRST_HOP, BODY))) - len(bare) == 1
    assert Header(3).packed() == (3,)


@pytest.mark.parametrize(
    "fields",
    [
        (-1,),
        (MOST_HOPS + 1,),
        (1, -5),
        (1, 2),
        (2**64 - 2,),
        (1, "", 7),
        (1, "", None, 7),
        (1, b"1"),
    ],
)
def test_a_header_that_is_none_is_refused(fields: tuple[object, ...]) -> None:
    frame = wire.encode_parts(FrameKind.PUBLISH, fields, BODY)
    with pytest.raises(ProtocolError, match="malformed publication header"):
        CODEC.decode_publish(frame[HEAD_BYTES:])


def test_the_header_of_a_routing_means_nothing_to_others() -> None:
    with pytest.raises(ProtocolError, match="malformed publication header"):
        crossed(Painted(1, "red"), Codec(header=Header))


@pytest.mark.parametrize("header", [Header(1), Painted(1, "red")])
def test_a_clients_header_says_nothing(header: Header) -> None:
    with pytest.raises(ProtocolError, match="header of one that is on its way between brokers"):
        crossed(header, CLIENT_CODEC)


def test_a_message_of_a_routing_is_known_to_its_own_codec_only() -> None:
    message = Ping(ids=(("a", 1),), token=7)
    payload = msgspec.msgpack.encode(message)
    assert CODEC.decode_control(payload) == message
    with pytest.raises(ProtocolError, match="malformed control message"):
        CLIENT_CODEC.decode_control(payload)
