"""What the load generator sends and counts, against the client's own codec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.client.encoding import encode_event
from reefcast.errors import PeerError
from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast.model.wire import Close, Dropped, FrameKind
from reefcast.protocol.frames import FrameReader
from reefcast_lab.bench import quotes
from reefcast_lab.bench.live import heads, mqtt, native, nats
from reefcast_lab.bench.live.points import Point
from reefcast_lab.bench.live.publisher import Frames
from reefcast_lab.bench.live.wires import WIRES, Mqtt, Nats, Reefcast

NOW_US = 1_800_000_000_000_000
FRAMES = {
    "reefcast": lambda body: wire.frame(FrameKind.PUBLISH, b"\0\0\0\2\x91\0" + body),
    "mosquitto": mqtt.publish,
    "nats": nats.publish,
}


class Said(NamedTuple):
    """A frame of a broker. `sent_us`: when its event was sent, if it is one. `taken`: whether it is
    numbered; `asks`: whether the client must answer."""

    frame: bytes
    sent_us: int | None = None
    taken: bool = False
    asks: bool = False


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    """Draw the time of an event, and its encoding."""
    sent_us = NOW_US - draw(st.integers(0, 10**9))
    seq = draw(st.integers(heads.FIRST_SEQ, 2**32 - 1))
    attributes = draw(
        st.dictionaries(st.text(min_size=1), st.integers(-9, 9) | st.text(), max_size=3)
    )
    payload = draw(st.binary(max_size=9) | st.just(bytes(300)))
    event = Publication(heads.PUBLISHER, seq, sent_us, dict(attributes), (), payload)
    return sent_us, wire.encode_publication(event)


@st.composite
def said_by_reefcast(draw: st.DrawFn) -> Said:
    kind = draw(st.sampled_from(["delivery", "again", "control", "dropped", "number"]))
    if kind in ("delivery", "again"):
        sent_us, body = draw(bodies())
        numbers = draw(st.lists(st.integers(1, 100_000), min_size=1, max_size=40))
        return Said(wire.encode_deliver(numbers, body, kind == "again"), sent_us, True)
    if kind == "control":
        return Said(wire.frame(FrameKind.CONTROL, draw(st.binary(max_size=20))), taken=True)
    if kind == "dropped":
        return Said(wire.encode(FrameKind.DROPPED, Dropped(3, ())), taken=True)
    number = draw(st.sampled_from([FrameKind.PING, FrameKind.ACK, FrameKind.CREDIT]))
    return Said(wire.encode(number, draw(st.integers(0, 2**40))))


@st.composite
def said_by_mosquitto(draw: st.DrawFn) -> Said:
    if draw(st.booleans()):
        sent_us, body = draw(bodies())
        return Said(mqtt.publish(body), sent_us, True)
    return Said(b"\xd0\x00")  # PINGRESP


@st.composite
def said_by_nats(draw: st.DrawFn) -> Said:
    if draw(st.booleans()):
        sent_us, body = draw(bodies())
        return Said(b"MSG e 1 %d\r\n%s\r\n" % (len(body), body), sent_us, True)
    text = draw(st.sampled_from([nats.PING, nats.PONG, b"+OK\r\n", b'INFO {"a":1}\r\n']))
    return Said(text, asks=text == nats.PING)


def _walked(protocol: int, pieces: Sequence[bytes]) -> tuple[list[int], int, list[int]]:
    """Return counts, questions and delays after a stream that came in pieces, as `receive` handles
    it."""
    state = np.zeros(native._COLUMNS, np.int64)
    counts, delays = np.zeros(native.COUNTS, np.int64), np.zeros(100, np.int64)
    rest, run, asked = np.zeros(native.HEAD_BYTES, np.uint8), np.array([0, 0, 1, 0]), 0
    for piece in pieces:
        data = np.frombuffer(bytearray(rest[: state[native._REST]]) + piece, np.uint8)
        asked += native.walk(
            protocol, data, data.size, state, rest, counts, delays, run, True, NOW_US
        )
    taken = int(state[native._TAKEN])
    return (
        [int(counts[native.DELIVERIES]), int(counts[native.WIDE]), taken],
        asked,
        list(map(int, delays[: run[native._NOTED]])),
    )


@pytest.mark.parametrize(
    ("protocol", "frames"),
    [
        (Reefcast.number, said_by_reefcast()),
        (Mqtt.number, said_by_mosquitto()),
        (Nats.number, said_by_nats()),
    ],
    ids=["reefcast", "mosquitto", "nats"],
)
@given(data=st.data())
def test_every_delivery_is_counted_however_the_stream_is_cut(
    protocol: int, frames: st.SearchStrategy[Said], data: st.DataObject
) -> None:
    said = data.draw(st.lists(frames, max_size=12))
    stream = b"".join(each.frame for each in said)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    pieces = [
        stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]
    counts, asked, delays = _walked(protocol, [piece for piece in pieces if piece])
    sent_us = [each.sent_us for each in said if each.sent_us is not None]
    assert counts == [len(sent_us), len(sent_us), sum(each.taken for each in said)]
    assert delays == [NOW_US - each for each in sent_us]
    assert asked == sum(each.asks for each in said)


BODY = wire.encode_publication(Publication(heads.PUBLISHER, heads.FIRST_SEQ, NOW_US - 7, {"a": 1}))
STREAMS = {
    Reefcast.number: wire.encode(FrameKind.PING, 0) + wire.encode_deliver([1, 300], BODY),
    Mqtt.number: b"\xd0\x00" + mqtt.publish(BODY + bytes(200)),
    Nats.number: nats.PONG + b"MSG e 1 %d\r\n%s\r\n" % (len(BODY), BODY),
}


@pytest.mark.parametrize("protocol", list(STREAMS))
def test_a_stream_may_be_cut_anywhere(protocol: int) -> None:
    stream = STREAMS[protocol] * 2
    for cut in range(1, len(stream)):
        counts, _, delays = _walked(protocol, [stream[:cut], stream[cut:]])
        assert (counts[0], delays) == (2, [7, 7]), cut


def test_a_head_longer_than_there_is_room_for_is_refused() -> None:
    state = np.zeros(native._COLUMNS, np.int64)
    counts, delays, run = np.zeros(3, np.int64), np.zeros(1, np.int64), np.array([0, 0, 1, 0])
    cut = np.frombuffer(bytearray(b"MSG" + bytes(40)), np.uint8)
    rest = np.zeros(16, np.uint8)
    asked = native.walk(heads.NATS, cut, cut.size, state, rest, counts, delays, run, True, 0)
    assert asked == -1


@pytest.mark.parametrize("point", [Point(), Point(payload=70_000), Point(attributes=50)], ids=str)
def test_what_is_sent_is_what_a_client_would_send(point: Point) -> None:
    frames = Frames(Reefcast(), point)
    events = quotes.events(len(frames.places), point.attributes)
    end = frames.upto(3, 5)
    data = bytes(frames.stamped(3, end, 70_000))
    cut = list(FrameReader().feed(data))
    assert len(cut) == end - 3
    sent = []
    for seq, (_, payload) in enumerate(cut, 70_000):
        event = wire.decode_publication(wire.split_parts(payload)[1])
        assert event.attributes == events[3 + seq - 70_000]
        identity = (heads.PUBLISHER, seq)
        sent.append(encode_event(identity, event.time_us, event.attributes, (), event.payload))
        assert len(event.payload) == point.payload
    assert b"".join(sent) == data


@pytest.mark.parametrize("broker", list(WIRES))
def test_events_are_the_same_for_all_brokers_and_cut_at_whole_ones(broker: str) -> None:
    frames, ours = Frames(WIRES[broker](), Point()), Frames(Reefcast(), Point())
    for frame in (frames, ours):
        heads.stamp(frame.data, frame.places, heads.FIRST_SEQ, NOW_US)
    end = frames.upto(0, 1_000_000)
    assert frames.upto(0, 1) == 1
    assert 64_000 < frames.starts[end] <= 64 * 1024
    last = len(frames.places) - 1
    assert frames.upto(last, 10) == last + 1
    body = bytes(ours.data[ours.places[7] : ours.starts[8]])
    wanted: Callable[[bytes], bytes] = FRAMES[broker]
    assert bytes(frames.data[frames.starts[7] : frames.starts[8]]) == wanted(body)


def test_the_publisher_counts_credit_and_hears_why_it_was_closed() -> None:
    publisher = Reefcast()
    said = wire.encode(FrameKind.CREDIT, 512) + wire.encode(FrameKind.ACK, 9)
    assert publisher.take(said + said[:3]) == b""
    assert publisher.credit == 512
    publisher.take(said[3:])
    assert publisher.credit == 1024
    with pytest.raises(PeerError, match="no more"):
        publisher.take(wire.encode(FrameKind.CLOSE, Close("no more")))


def test_nats_is_answered_and_its_errors_are_heard() -> None:
    publisher = Nats()
    assert publisher.take(nats.PING * 2 + b"+OK\r\n" + nats.PING[:3]) == nats.PONG * 2
    assert publisher.take(nats.PING[3:-1]) == b""
    assert publisher.take(nats.PING[-1:]) == nats.PONG
    with pytest.raises(PeerError, match="Slow Consumer"):
        publisher.take(b"-ERR 'Slow Consumer'\r\n")
