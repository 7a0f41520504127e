"""Wire codec: frames, the versioned hello, and what each frame carries. No I/O.

Rules
-----
- A frame is `length (4 bytes, big endian) | kind (1 byte) | payload`; `length` counts kind and
  payload, at least 1, at most `MAX_FRAME_BYTES` (a peer that says more is told so and cut off;
  to a client `AROUND_BYTES` more).
  `frame_layout` declares this, and what a publication's frame begins with, for all who read or
  write it.
- The first frame in either direction is HELLO. It says which versions and features its sender can
  speak (see `versions`).
- Before it answers a hello, who was dialled may ask for a proof of who the other end is. PROOF
  frames go to and fro then; what they hold is agreed between the two ends' authenticators.
- PUBLISH_AGAIN and DELIVER_AGAIN are PUBLISH and DELIVER of a copy that was sent before, to a
  broker or by a link that failed then (`Publish.again`): a client that has had it drops it.
- PUBLISH_CONFIRM is a publication whose publisher wants to hear that it is where it must be
  (`Confirmed`). Which attempt that is, and whether the copy was sent before, stands before the
  fields of its header.
- Payloads are msgpack. PUBLISH and DELIVER hold two parts: `header length (4 bytes) | header |
  body`; the body is the encoded `Publication`, never decoded again just to be forwarded. Of a
  publication's header the last fields are left out if they say nothing (see `Header.packed`).
- On broker links, and from a client to its broker, the *numbered* frames (CONTROL, PUBLISH) are
  counted from 1 by their order; ACK(n) says that all up to n have been taken over. After a
  reconnect each hello says what its sender has `received` from the other's `session`, and the
  other side sends again what came after. A session is new whenever a program starts.
- A link between brokers is *resumed* if each hello names the other's session; otherwise both ends
  start at 1 again with empty tables.
- A *soft link* between brokers is one connection, with a hello of its own role: its numbers begin
  with it, and nothing is resumed. PUBLISH, ACK and PING cross it, CONTROL with what only brokers of
  the routing say to each other, and DONE(0): its sender, all of whose frames have been
  acknowledged, sends nothing more but answers. When both have said so it is closed.
- A soft link may become one of the overlay, and the other way round. Both ends know when from what
  the routing says; its numbers go on.
- From a broker to a client CONTROL, DELIVER, DELIVER_AGAIN and DROPPED are numbered, too, if both
  offer the feature "resume". The client acknowledges them now and then. If it comes back with the
  `ticket` of a session that the broker still has, that goes on: the broker's hello says `resumed`,
  each sends again what the other has not `received`, and behind that the broker acknowledges.
- A client that cannot go on subscribes anew. It drops the publications that the broker's hello says
  are `received`, gives up its control frames that were not, goes on counting at `received`, and
  sends first its advertisements and subscriptions (with fresh ids), then the publications that are
  left (PUBLISH_AGAIN, if another program may have had them). A broker that was restarted says 0 and
  names no `peer_session`; so does one that has forgotten the client (`session_s`).
- A broker that drops deliveries of a client that does not keep up tells it so: DROPPED (`Dropped`)
  stands where they would have stood. One that ends the connection for that reason says so in the
  CLOSE (`too_slow`), and again if the same program comes back: it must not go on as if nothing
  had been lost.
- A drained broker closes connections with `Close.elsewhere`. If both offer the feature "move", it
  keeps the session of a subscriber until that has come back for it (`Hello.collecting`).
- A client may send as many publications as the hello's `credit` and the CREDIT(n) frames since
  allow together. One that sends more than twice that window too many is cut off.
- Each side sends PING(0) when it has sent nothing for a while; nobody answers it. A client does so
  after `PING_INTERVAL_S`, and a broker that has heard nothing of it for `SILENCE_S` closes the
  connection. A broker does so after `BROKER_PING_S`, or more often to its neighbours: those who
  wait for it are told how long they should (`[limits] silence_s`, `connect(silence_s=...)`).
- STATUS comes from an admin connection (`StatusRequest`), and is answered with a map. WISH comes
  from one, too (`OperatorWish`); it is answered with STATUS after it has been met (the last move in
  it is this one, `applied` is what became of this `Apply`), or with CLOSE if it cannot be. LOOK
  (`looks`) is answered with LOOK: a map, which is {"refused": a sentence} without an answer.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import or_
from typing import Annotated, Any, TypeVar

import msgspec

from reefcast.errors import ProtocolError
from reefcast.model import frame_layout
from reefcast.model.looks import AnyLook
from reefcast.model.messages import (
    FIRST_HOP,
    MOST_ATTEMPTS,
    ControlMessage,
    Header,
    PeerMessage,
    Publish,
    ServiceMessage,
    SharedMessage,
)
from reefcast.model.operations import OperatorWish
from reefcast.model.publication import Publication
from reefcast.model.versions import Offer

T = TypeVar("T")

RESUME = "resume"
"""The feature of numbered frames from a broker to its client, and of sessions that stay."""
MOVE = "move"  # the feature of a client that comes back to a drained broker
OFFER = Offer(version=1, oldest=1, features=(RESUME, MOVE))
MAX_FRAME_BYTES = frame_layout.MAX_FRAME_BYTES
AROUND_BYTES = 64 * 1024  # around a publication for a client: numbers of subscriptions
MAX_HELLO_BYTES = 64 * 1024
HEADERS_KEPT, SHORT_HEADER_BYTES = 4096, 64
QUEUE_POLICIES = ("block", "drop_oldest", "disconnect")  # when a subscriber's queue is full
MAX_NAME_CHARS = 200  # of a client's id
ID_BYTES = 1 + 3 + 4 * MAX_NAME_CHARS + 9
"""The most bytes of a publication's id in its encoding: the array's head, the publisher's name, the
number."""
PING_INTERVAL_S = 5.0
SILENCE_S = 15.0
BROKER_PING_S = 1.0
_LENGTH = struct.Struct(">I")
HEAD = frame_layout.HEAD.packing()  # length and kind of a frame
_PARTS = frame_layout.PARTS.packing()
HEAD_BYTES, PARTS_BYTES = frame_layout.HEAD.bytes, frame_layout.PARTS.bytes
LENGTH_BYTES, KIND_AT = frame_layout.LENGTH.size, frame_layout.KIND.at
_HEAD_COUNTED, _PARTS_COUNTED = frame_layout.HEAD.counted, frame_layout.PARTS.counted


class FrameKind(IntEnum):
    HELLO = 1
    CONTROL = 2
    PUBLISH = 3
    DELIVER = 4
    ACK = 5
    CREDIT = 6
    CONGESTION = 7
    STATUS = 8
    CLOSE = 9
    PING = 10
    DONE = 11
    WISH = 12
    LOOK = 16
    PUBLISH_AGAIN = 13
    DELIVER_AGAIN = 14
    PUBLISH_CONFIRM = 15
    DROPPED = 20
    PROOF = 24


class Role(IntEnum):
    """SOFT: a broker that wants a soft link, or takes one."""

    BROKER = 0
    CLIENT = 1
    ADMIN = 2
    SOFT = 3


class Hello(Offer, frozen=True, kw_only=True, omit_defaults=True):
    """`name`: the broker's name or the client's id. `network`: links of different networks are
    refused. `session`: a random string drawn when the sender's program started. `peer_session`,
    `received`: the other's session as last seen, and how many of its numbered frames were taken
    over. `queue_policy`, `queue_limit`: a client's wish for its own queue ("" and 0: the broker's
    defaults). `credit`, `resumed` (broker to client): publications that it may send at once, and
    whether its session stands as it left it. `ticket`: of that session; the client shows it when it
    comes back. Between brokers it is that of the link's last beginning. `attempt`: how many
    connections this client's program had begun before: of two hellos the higher one is newer.
    `secret`: what the client's id follows from, in all lives of the program. `collecting`: the
    client comes only for what its session still has, and is connected to another broker."""

    role: Role
    name: str
    network: str
    session: str
    peer_session: str = ""
    received: int = 0
    queue_policy: str = ""
    queue_limit: int = 0
    credit: int = 0
    resumed: bool = False
    ticket: str = ""
    attempt: int = 0
    secret: str = ""
    collecting: bool = False


def hello(
    role: Role, name: str, network: str, session: str, *, offer: Offer = OFFER, **fields: Any
) -> Hello:
    """Return the first message of one end; `fields`: the other fields of `Hello`."""
    said = {"role": role, "name": name, "network": network, "session": session, **fields}
    return Hello(offer.version, offer.oldest, offer.features, **said)


class Close(msgspec.Struct, frozen=True):
    """The last frame before the sender closes. `retry`: coming back later may help. `too_slow`: the
    client did not keep up with its deliveries. `elsewhere`: where to go instead (host:port)."""

    reason: str
    retry: bool = False
    too_slow: bool = False
    elsewhere: tuple[str, ...] = ()


class Dropped(msgspec.Struct, frozen=True):
    """`count` deliveries were dropped here. `groups`: how many of them were for which subscriptions
    (their numbers); of those that are in none only `count` tells."""

    count: int
    groups: tuple[tuple[tuple[int, ...], int], ...]


class Congestion(msgspec.Struct, frozen=True):
    """Broker `origin` is (or no longer is) short of room; flooded, newest `number` wins."""

    origin: str
    number: int
    congested: bool


class StatusRequest(msgspec.Struct, frozen=True):
    """An admin connection asks. `tables`: those whose rows it wants, beside the ones that are told
    in any case; `rows`: at most so many of each (None: as many as a broker tells), behind the first
    `skip`. `network_file`: whether it wants what a new peer must know (`NetworkFile.for_peers`), as
    the text of a network file."""

    tables: tuple[str, ...] = ()
    rows: Annotated[int, msgspec.Meta(ge=0)] | None = None
    skip: Annotated[int, msgspec.Meta(ge=0)] = 0
    network_file: bool = False


_PUBLISH, _PUBLISH_AGAIN = int(FrameKind.PUBLISH), int(FrameKind.PUBLISH_AGAIN)
_PUBLISH_CONFIRM = int(FrameKind.PUBLISH_CONFIRM)
_AGAIN = bytes([_PUBLISH_AGAIN])
_DELIVER, _DELIVER_AGAIN = int(FrameKind.DELIVER), int(FrameKind.DELIVER_AGAIN)
_encoder = msgspec.msgpack.Encoder()
_offer = msgspec.msgpack.Decoder(Offer)
_hello = msgspec.msgpack.Decoder(Hello)
_close_frame = msgspec.msgpack.Decoder(Close)
_dropped = msgspec.msgpack.Decoder(Dropped)
_congestion = msgspec.msgpack.Decoder(Congestion)
_status_request = msgspec.msgpack.Decoder(StatusRequest)
_look: msgspec.msgpack.Decoder[AnyLook] = msgspec.msgpack.Decoder(AnyLook)
_wish: msgspec.msgpack.Decoder[OperatorWish] = msgspec.msgpack.Decoder(OperatorWish)
_asking_fields = msgspec.msgpack.Decoder(list[Any])
_header_fields = msgspec.msgpack.Decoder(list[object])
_publication = msgspec.msgpack.Decoder(Publication)
_publications = msgspec.msgpack.Decoder(list[Publication])
_ARRAY32 = b"\xdd"  # with which msgpack begins an array whose length has four bytes
_numbers = msgspec.msgpack.Decoder(tuple[int, ...])
FIRST_HEADER = _encoder.encode((FIRST_HOP.hops,))
"""The header of most publications of clients."""
_int = msgspec.msgpack.Decoder(int)
_any = msgspec.msgpack.Decoder()


def frame(kind: FrameKind, payload: bytes) -> bytes:
    return HEAD.pack(_HEAD_COUNTED + len(payload), kind) + payload


def encode(kind: FrameKind, value: object) -> bytes:
    """Encode a frame of any kind but PUBLISH and DELIVER."""
    return frame(kind, _encoder.encode(value))


def encode_message(message: ControlMessage) -> bytes:
    """Encode a message without a frame around it, as `Codec.decode_control` reads it."""
    return _encoder.encode(message)


def encode_publication(publication: Publication) -> bytes:
    """Encode a publication's body; its publisher's client does so once."""
    return _encoder.encode(publication)


def encode_header(header: Header) -> bytes:
    """Encode what stands before the body of a PUBLISH frame."""
    return _encoder.encode(header.packed())


def header_bytes(header: Header) -> int:
    """Return by how many bytes this header is longer than one with nothing but a hop count."""
    return len(encode_header(header)) - len(_encoder.encode((header.hops,)))


def encode_parts(kind: FrameKind, header: tuple[object, ...], body: bytes) -> bytes:
    """Encode a PUBLISH (with `Header.packed`) or DELIVER (with the subscriptions' numbers)
    frame."""
    head = _encoder.encode(header)
    return _PARTS.pack(_PARTS_COUNTED + len(head) + len(body), kind, len(head)) + head + body


def encode_publish(publish: Publish) -> bytes:
    header = publish.header.packed()
    if publish.confirm:
        asked = (publish.confirm, publish.again, *header)
        return encode_parts(FrameKind.PUBLISH_CONFIRM, asked, publish.body)
    kind = FrameKind.PUBLISH_AGAIN if publish.again else FrameKind.PUBLISH
    return encode_parts(kind, header, publish.body)


def encode_published(body: bytes) -> bytes:
    """Make the PUBLISH frame of a new publication: as `encode_publish`, in a tenth of the time."""
    return published_head(len(body)) + body


def published_head(size: int) -> bytes:
    """Encode what stands before a body of `size` bytes in that frame."""
    more = _PARTS_COUNTED + len(FIRST_HEADER)
    return _PARTS.pack(more + size, _PUBLISH, len(FIRST_HEADER)) + FIRST_HEADER


def again(frame: bytes) -> bytes:
    """Return the frame of a publication, marked as sent before. One that asked for confirmation
    no longer asks for it."""
    if frame[KIND_AT] == _PUBLISH_CONFIRM:
        _, body = split_parts(frame[HEAD_BYTES:])
        return encode_parts(FrameKind.PUBLISH_AGAIN, FIRST_HOP.packed(), bytes(body))
    return frame[:KIND_AT] + _AGAIN + frame[HEAD_BYTES:]


def asking(frame: bytes, attempt: int, *, again: bool) -> bytes:
    """Return the frame of a client's publication as one that asks for confirmation."""
    (size,) = _LENGTH.unpack_from(frame, HEAD_BYTES)
    head, body = (attempt, again, FIRST_HOP.hops), frame[HEAD_BYTES + LENGTH_BYTES + size :]
    return encode_parts(FrameKind.PUBLISH_CONFIRM, head, body)


def encode_deliver(numbers: Sequence[int], body: bytes, again: bool = False) -> bytes:
    # As `encode_parts`, which takes a fifth longer: this is called for each delivery where
    # every client has numbers of its own.
    head = _encoder.encode(numbers)
    kind = _DELIVER_AGAIN if again else _DELIVER
    return _PARTS.pack(_PARTS_COUNTED + len(head) + len(body), kind, len(head)) + head + body


def numbers_of(deliver: bytes) -> bytes:
    """Return the subscriptions' numbers of a whole DELIVER frame, still encoded (see
    `decode_numbers`)."""
    _, _, size = _PARTS.unpack_from(deliver)
    return deliver[PARTS_BYTES : PARTS_BYTES + size]


def _decode(decoder: msgspec.msgpack.Decoder[T], payload: bytes | memoryview, what: str) -> T:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"malformed {what}: {error}") from error


def decode_offer(payload: bytes | memoryview) -> Offer:
    """Decode the versions and features that a hello of any version offers."""
    return _decode(_offer, payload, "hello")


def decode_hello(payload: bytes | memoryview) -> Hello:
    return _decode(_hello, payload, "hello")


def decode_close(payload: bytes | memoryview) -> Close:
    return _decode(_close_frame, payload, "close")


def decode_dropped(payload: bytes | memoryview) -> Dropped:
    return _decode(_dropped, payload, "word of dropped deliveries")


def decode_congestion(payload: bytes | memoryview) -> Congestion:
    return _decode(_congestion, payload, "congestion notice")


def decode_number(payload: bytes | memoryview) -> int:
    """Decode the payload of ACK, CREDIT, PING or DONE."""
    return _decode(_int, payload, "number")


def decode_status_request(payload: bytes | memoryview) -> StatusRequest:
    return _decode(_status_request, payload, "request for the status")


def decode_wish(payload: bytes | memoryview) -> OperatorWish:
    return _decode(_wish, payload, "wish of an operator")


def decode_look(payload: bytes | memoryview) -> AnyLook:
    return _decode(_look, payload, "question of an operator's program")


def decode_any(payload: bytes | memoryview) -> object:
    """Decode the answer to STATUS or LOOK, which is plain msgpack."""
    return _decode(_any, payload, "status")


def split_parts(payload: bytes | memoryview) -> tuple[bytes | memoryview, bytes | memoryview]:
    """Split a PUBLISH or DELIVER payload into header and body."""
    if len(payload) < LENGTH_BYTES:
        raise ProtocolError("malformed publication: the frame is shorter than its header's length")
    end = LENGTH_BYTES + _LENGTH.unpack_from(payload)[0]
    if end > len(payload):
        raise ProtocolError("malformed publication: the header is longer than the frame")
    return payload[LENGTH_BYTES:end], payload[end:]


def delivery_keys(deliveries: Iterable[bytes]) -> list[int]:
    """Return for each DELIVER payload a number that tells its publication from all others: the hash
    of the first bytes of the body, which hold the publication's id."""
    unpack = _LENGTH.unpack_from
    try:
        return [
            hash(payload[(at := unpack(payload)[0] + LENGTH_BYTES) : at + ID_BYTES])
            for payload in deliveries
        ]
    except struct.error as error:
        raise ProtocolError("malformed delivery: it is shorter than its header's length") from error


def split_deliveries(deliveries: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the heads (see `decode_numbers`) and the bodies of payloads of DELIVER frames."""
    unpack = _LENGTH.unpack_from
    try:
        ends = [LENGTH_BYTES + unpack(payload)[0] for payload in deliveries]
    except struct.error as error:
        raise ProtocolError("malformed delivery: it is shorter than its header's length") from error
    heads = [payload[LENGTH_BYTES:end] for payload, end in zip(deliveries, ends, strict=True)]
    bodies = [payload[end:] for payload, end in zip(deliveries, ends, strict=True)]
    if b"" in bodies:
        raise ProtocolError("malformed delivery: nothing stands behind its header")
    return heads, bodies


def body_keys(bodies: Iterable[bytes]) -> list[int]:
    """Return the `delivery_keys` of deliveries with these bodies."""
    return [hash(body[:ID_BYTES]) for body in bodies]


def decode_publication(body: bytes | memoryview) -> Publication:
    return _decode(_publication, body, "publication")


def decode_publications(bodies: Sequence[bytes]) -> list[Publication]:
    """Decode many bodies in one call."""
    array = _ARRAY32 + _LENGTH.pack(len(bodies)) + b"".join(bodies)
    return _decode(_publications, array, "publications")


class Codec:
    """Decodes what depends on the routing: control messages and publications.

    `messages`: those that only brokers of the routing say to each other, and those of services;
    `header`: what its copies carry (`Router.messages`, `Router.header`). Without one only
    publications are known that have just been published: what their header said more would be
    believed.
    """

    def __init__(
        self,
        messages: Iterable[type[PeerMessage | ServiceMessage]] = (),
        header: type[Header] | None = None,
    ) -> None:
        self._control = msgspec.msgpack.Decoder(functools.reduce(or_, messages, SharedMessage))
        # A few headers, those of the ways that publications take here, come again and again.
        self._any_header = functools.partial(_header_of, header)
        self._short_header = functools.lru_cache(HEADERS_KEPT)(self._any_header)

    def decode_control(self, payload: bytes | memoryview) -> ControlMessage:
        message: ControlMessage = _decode(self._control, payload, "control message")
        return message

    def decode_publish(self, payload: bytes, kind: int = _PUBLISH) -> Publish:
        """Decode the payload of a PUBLISH, PUBLISH_AGAIN or PUBLISH_CONFIRM frame."""
        if kind == _PUBLISH_CONFIRM:
            return self._decode_asking(payload)
        head, body = split_parts(payload)
        if head == FIRST_HEADER:
            header = FIRST_HOP
        elif len(head) <= SHORT_HEADER_BYTES:
            header = self._short_header(bytes(head))
        else:
            header = self._any_header(bytes(head))
        return Publish(decode_publication(body), header, bytes(body), kind == _PUBLISH_AGAIN)

    def _decode_asking(self, payload: bytes) -> Publish:
        head, body = split_parts(payload)
        asked, *fields = _decode(_asking_fields, head, "publication header") or [None]
        if not fields or type(asked) is not int or not 1 <= asked <= MOST_ATTEMPTS:
            raise ProtocolError("malformed publication header: it says no attempt")
        again, *rest = fields
        if type(again) is not bool:
            raise ProtocolError("malformed publication header: sent before, or not?")
        header = FIRST_HOP if rest == [FIRST_HOP.hops] else self._any_header(_encoder.encode(rest))
        return Publish(decode_publication(body), header, bytes(body), again, asked)


def _header_of(kind: type[Header] | None, head: bytes) -> Header:
    fields = _decode(_header_fields, head, "publication header")
    if kind is None:
        raise ProtocolError(
            "a client's publication has the header of one that is on its way between brokers; "
            "a client writes a hop count of 0 and nothing else"
        )
    try:
        return Header.unpacked(fields) if len(fields) < 2 else kind.unpacked(fields)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"malformed publication header: {error}") from error


CLIENT_CODEC = Codec()
"""Encodes messages that clients may send, and that all of them understand."""


def decode_numbers(head: bytes | memoryview) -> tuple[int, ...]:
    """Decode the subscriptions' numbers in front of a delivery."""
    return _decode(_numbers, head, "delivery header")
