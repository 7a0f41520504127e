"""The kernels between packets of MQTT and frames, against the readable way from one to the
other."""

from __future__ import annotations

from functools import cache

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reefcast.matching.packets import FRAME_BYTES, Packets
from reefcast.model import wire
from reefcast.model.publication import Publication, Value
from reefcast.mqtt.content import (
    CONTENT_TYPE,
    PLAIN,
    QOS,
    RETAIN,
    ContentOptions,
    encode_body,
    outbound_of,
    packet_of,
    plain_publication,
    topic_for,
)
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Pingreq, Puback, Publish
from reefcast.mqtt.properties import NO_PROPERTIES, Properties

ID = "mqtt:somebody@here"
NOW_US = 1_790_000_000_000_000
LARGEST = 8 << 20
LITTLE_ROOM = 700
SIZES = (0, 1, 31, 32, 120, 127, 128, 255, 256)
LARGE_SIZES = (65_535, 65_536, 1 << 21)

versions = st.sampled_from((MQTT_3_1_1, MQTT_5))
topics = st.one_of(
    st.sampled_from(("a", "plant/1/oven", "/", " ~", "t" * 31, "t" * 32, "t" * 255, "t" * 256)),
    st.sampled_from(("", "$", "$SYS/x", "a/$b", "a/+", "#", "é", "a/\U0001f600", "\x1f", "\x7f")),
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12),
)
plain_topics = st.text(st.sampled_from("abc/ 0-~$"), min_size=1, max_size=8)
payloads = st.binary(max_size=8) | st.sampled_from(SIZES).map(bytes)
large_payloads = payloads | st.sampled_from(LARGE_SIZES).map(bytes)


class Cramped(Packets):
    """The same kernels, with little room to write to."""

    ROOM = LITTLE_ROOM


@cache
def kernels(cramped: bool = False) -> Packets:
    return (Cramped if cramped else Packets)(PLAIN)


def is_plain_topic(topic: str) -> bool:
    """Return whether a topic is left to nobody else, by the words of the kernels' module."""
    printable = topic.isascii() and topic.isprintable()
    return topic != "" and printable and topic[0] != "$" and not set("+#") & set(topic)


# --- packets to frames ----------------------------------------------------------------------------


def other_packets() -> st.SearchStrategy[bytes]:
    """Return packets that are left, whatever their topic; some are malformed."""
    return st.sampled_from(
        (
            encode(Pingreq(), MQTT_5),
            encode(Puback(7), MQTT_5),
            b"\x30\x00",  # without a topic
            b"\x30\x02\x00\x01",  # without all of its topic
            b"\x30\x03\x00\x05a",
            b"\x30\xff\xff\xff\xff\x01",  # a length of five bytes
            b"\x00",
        )
    )


def longer(packet: bytes) -> bytes:
    """Return a packet whose remaining length takes one byte more than it needs to, which 5.0
    forbids."""
    end = next(at for at in range(1, 5) if packet[at] < 0x80)
    return packet[:end] + bytes((packet[end] | 0x80, 0)) + packet[end + 1 :]


@st.composite
def published(draw: st.DrawFn, version: int, payloads: st.SearchStrategy[bytes]) -> bytes:
    """Return a PUBLISH, or something else; most are plain."""
    how = draw(st.sampled_from(("plain",) * 8 + ("topic",) * 2 + ("any", "longer", "other")))
    if how == "other":
        return draw(other_packets())
    qos, retain, dup, properties = 0, False, False, NO_PROPERTIES
    if how == "any":
        qos, retain = draw(st.integers(0, 2)), draw(st.booleans())
        dup = qos > 0 and draw(st.booleans())
        if version == MQTT_5:
            some = ({}, {"content_type": "x"}, {"topic_alias": 3}, {"message_expiry_interval": 9})
            properties = Properties(**draw(st.sampled_from(some)))
    topic = draw(topics if how == "topic" else plain_topics)
    packet = Publish(topic, draw(payloads), qos, retain, dup, qos and 9, properties)
    made = encode(packet, version)
    return longer(made) if how == "longer" else made


def is_plain(packet: bytes, version: int, most_bytes: int) -> bool:
    """Return whether a whole packet is plain, as the readable decoder sees it, and in its shortest
    form."""
    if len(packet) > most_bytes:
        return False
    found, error = Decoder(version).receive(packet)
    if error is not None or len(found) != 1 or type(found[0]) is not Publish:
        return False
    said = Publish(found[0].topic, found[0].payload)
    return encode(said, version) == packet and is_plain_topic(said.topic)


def readable_frame(packet: bytes, version: int, seq: int, now_us: int) -> bytes:
    """Return the frame that a packet becomes on the readable way."""
    ((said,), _) = Decoder(version).receive(packet)
    assert isinstance(said, Publish)
    body, _ = encode_body(ID, seq, now_us, said.topic, said, ContentOptions())
    assert body == plain_publication(ID, seq, now_us, said.topic, said.payload)[1]
    return wire.encode_published(body)


def needed(packet: bytes, there: int) -> int:
    """Return how many bytes a plain packet needs of which only so many are there."""
    if there == 0:
        return 0
    knows_length = any(byte < 0x80 for byte in packet[1:there][:4])
    return len(packet) if knows_length else there + 1


@st.composite
def reads(draw: st.DrawFn, large: bool = False) -> tuple[int, list[bytes], int]:
    version = draw(versions)
    each = published(version, large_payloads if large else payloads)
    packets = draw(st.lists(each, min_size=1, max_size=3 if large else 8))
    size = sum(map(len, packets))
    return version, packets, draw(st.just(size) | st.integers(0, size))


def check_frames(
    read: tuple[int, list[bytes], int],
    most: int,
    last: int,
    most_bytes: int,
    cramped: bool,
) -> None:
    version, packets, size = read
    data = b"".join(packets)[:size]
    publisher = msgspec.msgpack.encode(ID)
    many = kernels(cramped)
    frames, count, end, need, latest = many.frames(
        data, version, most_bytes, publisher, last, NOW_US, most
    )
    expected, place, seq = [], 0, last
    for packet in packets[:count]:
        assert is_plain(packet, version, most_bytes)
        place += len(packet)
        seq = max(seq + 1, NOW_US)
        expected.append(readable_frame(packet, version, seq, NOW_US))
    assert (frames, end, latest) == (b"".join(expected), place, seq)
    assert place <= size and count <= most and len(frames) <= many.ROOM
    if count == most or count == len(packets):
        assert need == 0
        return
    following = packets[count]
    whole = place + len(following) <= size
    if whole and is_plain(following, version, most_bytes):
        around = FRAME_BYTES + len(publisher) + len(PLAIN)
        assert many.ROOM - len(frames) < around + len(following), "there was room for it"
    if whole:
        assert need == 0
    elif is_plain(following, version, most_bytes):
        assert need == needed(following, size - place)
    else:  # it may look plain so far
        assert need == 0 or size - place < need <= len(following)


lasts = st.sampled_from((0, NOW_US - 1, NOW_US, NOW_US + 5_000))
limits = st.sampled_from((LARGEST, LARGEST, 20, 100))


@settings(max_examples=200, deadline=None)
@given(reads(), st.sampled_from((0, 1, 3, 256)), lasts, limits, st.booleans())
def test_frames_are_those_of_the_readable_way(
    read: tuple[int, list[bytes], int], most: int, last: int, most_bytes: int, cramped: bool
) -> None:
    check_frames(read, most, last, most_bytes, cramped)


@settings(max_examples=25, deadline=None)
@given(reads(large=True), limits)
def test_frames_of_large_packets(read: tuple[int, list[bytes], int], most_bytes: int) -> None:
    check_frames(read, 256, 0, most_bytes, False)


# --- frames to packets ----------------------------------------------------------------------------

attributes = st.one_of(
    st.just({QOS: 0}),
    st.just({QOS: 0}),
    st.just({QOS: 0}),
    st.sampled_from(
        (
            {},
            {QOS: 1},
            {QOS: 0, RETAIN: True},
            {QOS: 0, CONTENT_TYPE: "x"},
            {QOS: 0.0},
            {QOS: True},
            {"price": 3},
            {QOS: 0, "$expires_s": 1e-6},
        )
    ),
)
events = st.builds(
    Publication,
    st.sampled_from((ID, "x", "p" * 31, "p" * 32, "p" * 255, "p" * 256, "é")),
    st.sampled_from((1, 127, 128, 65_536, 1 << 32, NOW_US)),
    st.sampled_from((-1, -33, 0, 255, 1 << 31, NOW_US)),
    attributes,
    st.one_of(
        st.tuples(plain_topics),
        st.tuples(plain_topics),
        st.tuples(topics),
        st.just(()),
        st.tuples(topics, topics),
    ),
    payloads,
)
deliveries = st.tuples(
    st.lists(st.sampled_from((1, 127, 128, 65_536)), min_size=1, max_size=3),
    events,
    st.sampled_from((False,) * 6 + (True,)),
)


def readable_packet(event: Publication, version: int) -> bytes:
    """Return the packet that an event becomes on the readable way, for a plain subscription; empty
    if none is sent."""
    outbound, topic = outbound_of(event, NOW_US), topic_for(event, "#")
    if outbound is None or topic is None:
        return b""
    return encode(packet_of(outbound, topic, 0, version), version)


def is_plain_event(event: Publication) -> bool:
    plain: dict[str, Value] = {QOS: 0}
    same = event.attributes == plain and type(event.attributes.get(QOS)) is int
    return same and len(event.topics) == 1 and is_plain_topic(event.topics[0])


def check_packets(
    delivered: list[tuple[list[int], Publication, bool]],
    version: int,
    most: int,
    most_bytes: int,
    cramped: bool,
) -> None:
    frames = [
        wire.encode_deliver(numbers, wire.encode_publication(event), again)
        for numbers, event, again in delivered
    ]
    data, before, many = b"".join([b"xyz", *frames]), 3, kernels(cramped)
    made, count, end = many.packets(data, before, version, most_bytes, most)
    expected = [readable_packet(event, version) for _, event, _ in delivered[:count]]
    assert made == b"".join(expected)
    assert end == before + sum(map(len, frames[:count]))
    assert count <= most and len(made) <= many.ROOM
    assert all(len(packet) <= most_bytes for packet in expected)
    for _, event, again in delivered[:count]:
        assert is_plain_event(event) and not again
    if count < min(most, len(delivered)):
        _, event, again = delivered[count]
        if is_plain_event(event) and not again:
            size = len(readable_packet(event, version)) + 4
            assert size > most_bytes or size > many.ROOM - len(made), "there was room for it"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(deliveries, min_size=1, max_size=8),
    versions,
    st.sampled_from((0, 1, 3, 256)),
    st.sampled_from((1 << 28, 1 << 28, 12, 40)),
    st.booleans(),
)
def test_packets_are_those_of_the_readable_way(
    delivered: list[tuple[list[int], Publication, bool]],
    version: int,
    most: int,
    most_bytes: int,
    cramped: bool,
) -> None:
    check_packets(delivered, version, most, most_bytes, cramped)


@settings(max_examples=12, deadline=None)
@example((65_535, 1 << 21), MQTT_5)
@example((122, 123, 16_376, 16_377, 65_536), MQTT_3_1_1)
@given(st.lists(st.sampled_from(LARGE_SIZES + SIZES), max_size=4).map(tuple), versions)
def test_packets_with_payloads_of_all_sizes(sizes: tuple[int, ...], version: int) -> None:
    events = [Publication(ID, 1, 1, {QOS: 0}, ("a/b",), bytes(size)) for size in sizes]
    check_packets([([1], event, False) for event in events], version, 256, 1 << 28, False)


def test_a_topic_with_a_longer_head_than_it_needs() -> None:
    """Other programs may encode a text of a few bytes with a length of one or two."""
    event = Publication(ID, 5, NOW_US, {QOS: 0}, ("abc",), b"p")
    body = wire.encode_publication(event)
    for head in (b"\xd9\x03", b"\xda\x00\x03"):
        frame = wire.encode_deliver([1], body.replace(b"\x91\xa3abc", b"\x91" + head + b"abc"))
        made, count, _ = kernels().packets(frame, 0, MQTT_5, 1 << 28, 9)
        assert (made, count) == (readable_packet(event, MQTT_5), 1)
