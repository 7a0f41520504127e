"""MQTT publications that pass a broker by compiled calls, against the readable path of another
broker: two live brokers of one kind, and their clients say the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from passage_twins import Clock, Line, Talk, clock, control, in_pieces, turn

from live_networks import make_network
from reefcast.matching.packets import Packets
from reefcast.model import messages, wire
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Connack,
    Connect,
    Packet,
    Pingreq,
    Publish,
    Subscribe,
    TopicRequest,
    Unsubscribe,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.publishing import NOTHING, Publishing
from reefcast.mqtt.surroundings import Settings
from reefcast.network.file import NetworkFile
from reefcast.server.mqtt import line as lines
from reefcast.server.mqtt.front import MqttFront
from reefcast.server.mqtt.line import MqttLine
from reefcast.server.node import Node

SUBSCRIBERS = {"s": MQTT_3_1_1, "t": MQTT_5, "u": MQTT_5}
"""The clients that subscribe, and the versions that they speak; "p" and "q" publish, too."""
PUBLISHERS = {"p": MQTT_3_1_1, "q": MQTT_5}
CLIENTS = {**SUBSCRIBERS, **PUBLISHERS}
FILTERS = ("#", "a/+", "a/b", "+/b", "b/#", "é", "$filter/price%20%3E%203/#")
TOPICS = ("a/b", "a/c", "b", "b/c/d", "é", "$x", "$SYS/x", "t" * 130)
LARGEST = 2_000


class Device:
    """A client of one broker: what it says, and what it hears."""

    def __init__(self, front: MqttFront, version: int, most_bytes: int) -> None:
        self.version = version
        self.transport = Line()
        self.line = MqttLine(front, Settings(maximum_packet_size=LARGEST, receive_maximum=100))
        self.transport.protocol = self.line
        self.line.connection_made(self.transport)
        said = Properties(maximum_packet_size=most_bytes) if version == MQTT_5 else Properties()
        self.line.data_received(encode(Connect(properties=said), version))

    def say(self, data: bytes) -> None:
        if not self.transport.closed:
            self.line.data_received(data)

    def heard(self) -> tuple[list[Packet], bool]:
        """Return the packets that came, and whether the connection is closed. The name that a
        broker gives a client is a random one."""
        packets, error = Decoder(self.version).receive(self.transport.written)
        assert error is None
        return [each for each in packets if not isinstance(each, Connack)], self.transport.closed


class Place:
    """One broker with its clients, all of which are connected."""

    def __init__(self, network: NetworkFile, most_bytes: int, *, readable: bool) -> None:
        self.node = Node(network, "a", readable=readable)
        self.front = MqttFront(self.node)
        self.devices = {
            name: Device(self.front, version, most_bytes) for name, version in CLIENTS.items()
        }

    def say(self, who: str, data: bytes) -> None:
        self.devices[who].say(data)

    def pause(self, who: str) -> None:
        if not self.devices[who].transport.closed:
            self.devices[who].line.pause_writing()

    def resume(self, who: str) -> None:
        if not self.devices[who].transport.closed:
            self.devices[who].line.resume_writing()

    def watch(self) -> None:
        """Let a native client subscribe to everything."""
        self.watcher = Talk(self.node)
        self.watcher.say(wire.encode(FrameKind.HELLO, wire.hello(Role.CLIENT, "w", "", "w")))
        self.watcher.say(control(messages.Subscribe(("w", 1), "TRUE", 1)))
        self.last = self._heard = 0

    def watched(self) -> list[Publication]:
        """Return what the native client has got since the last time."""
        delivered = [data for kind, data in self.watcher.heard if kind == FrameKind.DELIVER]
        fresh, self._heard = delivered[self._heard :], len(delivered)
        self.watcher.say(wire.encode(FrameKind.ACK, self.watcher.connection.end.port._sent.last))
        return [wire.decode_publication(wire.split_parts(data)[1]) for data in fresh]

    def withdraw(self, who: str, topic: str) -> None:
        """Take back what waits for a client and has this topic."""
        port = self.devices[who].line._port
        if port is not None and not self.devices[who].transport.closed:
            port.withdraw(lambda body: wire.decode_publication(body).topics != (topic,))

    def end(self) -> None:
        for device in self.devices.values():
            device.transport.close()
        self.node.host.driver.close()

    def seen(self) -> dict[str, Any]:
        ports = {name: device.line._port for name, device in self.devices.items()}
        return {
            "heard": {name: device.heard() for name, device in self.devices.items()},
            "counters": dict(+(self.node.host.core.counters + self.node.host.journal.counters)),
            "queues": {
                name: (port.queue_len, port.dropped) for name, port in ports.items() if port
            },
            "credit": {name: device.line._inflow.credit for name, device in self.devices.items()},
        }


class Twins:
    def __init__(self, loop: Clock, most_bytes: int = 1 << 20, **limits: Any) -> None:
        self.loop = loop
        self.both: list[Place] = []
        network = make_network("a", session_s=1000.0, **limits)
        self._run(lambda: self.both.append(Place(network, most_bytes, readable=True)))
        self._run(lambda: self.both.append(Place(network, most_bytes, readable=False)))
        for _ in range(4):
            turn(loop)
        assert all(d.line._inflow.is_ready for place in self.both for d in place.devices.values())

    def _run(self, function: Any) -> None:
        async def call() -> None:
            function()

        self.loop.run_until_complete(call())

    def do(self, what: str, *how: Any) -> None:
        for place in self.both:
            self._run(lambda place=place: getattr(place, what)(*how))

    def compare(self) -> None:
        turn(self.loop, 6)
        readable, compiled = (place.seen() for place in self.both)
        for key, expected in readable.items():
            assert compiled[key] == expected, key


@contextmanager
def quiet() -> Iterator[Clock]:
    """Yield a loop whose reads are handled at once, however long they take."""
    with clock() as loop, mock.patch.object(lines, "SLICE_S", math.inf):
        yield loop


def subscription(number: int, version: int, filter: str, how: int) -> bytes:
    """Return a SUBSCRIBE whose options are the bits of `how`."""
    asked = TopicRequest(filter, how & 1)
    properties = Properties()
    if version == MQTT_5:
        asked = TopicRequest(
            filter, how & 1, no_local=bool(how & 2), retain_as_published=bool(how & 4)
        )
        properties = Properties(subscription_identifiers=(number,) if how & 8 else ())
    return encode(Subscribe(number, (asked,), properties), version)


def said(version: int, packets: list[dict[str, Any]]) -> bytes:
    """Return the packets of a read."""
    return b"".join(_said(version, each) for each in packets)


def _said(version: int, how: dict[str, Any]) -> bytes:
    if how["kind"] == "ping":
        return encode(Pingreq(), version)
    content = bytes(how["size"])
    if how["kind"] == "json":
        properties = Properties(content_type="application/json") if version == MQTT_5 else None
        packet = Publish(how["topic"], b'{"price": 9}', 0)
        if properties is not None:
            packet = Publish(how["topic"], b'{"price": 9}', 0, properties=properties)
        return encode(packet, version)
    retain = how["kind"] == "retained"
    return encode(Publish(how["topic"], content, 0, retain), version)


packets = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(("plain",) * 12 + ("json", "ping", "retained")),
            "topic": st.sampled_from(TOPICS[:3] * 3 + TOPICS),
            "size": st.sampled_from((0, 0, 1, 60, 125, 126, 127, 128, 1_000, 1_950, LARGEST)),
        }
    ),
    min_size=1,
    max_size=12,
)
cuts = st.lists(st.integers(0, 99), max_size=4)
steps = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from([*PUBLISHERS]), packets, cuts),
    st.tuples(st.just("publish"), st.sampled_from([*PUBLISHERS]), packets, cuts),
    st.tuples(
        st.just("subscribe"),
        st.sampled_from([*CLIENTS]),
        st.sampled_from(FILTERS),
        st.integers(0, 15),
    ),
    st.tuples(st.just("unsubscribe"), st.sampled_from([*CLIENTS]), st.sampled_from(FILTERS)),
    st.tuples(st.sampled_from(("pause", "resume")), st.sampled_from([*CLIENTS])),
    st.tuples(st.just("withdraw"), st.sampled_from([*SUBSCRIBERS]), st.sampled_from(TOPICS[:3])),
)
PLAIN = {"kind": "plain", "topic": "a/b", "size": 3}
BEGINNING: list[Any] = [
    ("subscribe", "s", "#", 0),
    ("subscribe", "t", "a/+", 0),
    ("subscribe", "u", "#", 0),
    ("publish", "p", [PLAIN], []),
    ("publish", "q", [PLAIN], []),
]
"""A start after which everything is plain: the first publication of a client never is."""
IDENTIFIED: list[Any] = [*BEGINNING, ("subscribe", "t", "+/b", 8)]
OVERLAPPING: list[Any] = [*BEGINNING, ("subscribe", "t", "+/b", 0), ("subscribe", "s", "a/b", 1)]
MIXED: list[Any] = [*IDENTIFIED, ("subscribe", "q", "#", 2)]
BEGINNINGS: tuple[list[Any], ...] = (BEGINNING, IDENTIFIED, OVERLAPPING, MIXED)


def tell(twins: Twins, script: list[Any]) -> None:
    """Let the clients do the same at both brokers, and compare these after each step."""
    for number, (what, who, *how) in enumerate(script, 1):
        version = CLIENTS[who]
        if what == "publish":
            for piece in in_pieces(said(version, how[0]), how[1]):
                twins.do("say", who, piece)
        elif what == "subscribe":
            twins.do("say", who, subscription(number, version, *how))
        elif what == "unsubscribe":
            twins.do("say", who, encode(Unsubscribe(number, tuple(how)), version))
        else:
            twins.do(what, who, *how)
        twins.compare()


WAITS: list[Any] = [
    ("pause", "s"),
    ("pause", "t"),
    ("publish", "p", [PLAIN, {**PLAIN, "topic": "a/c"}, PLAIN], []),
    ("publish", "q", [PLAIN, {**PLAIN, "topic": "b"}, PLAIN, {**PLAIN, "kind": "ping"}], [50]),
    ("withdraw", "s", "a/b"),
    ("resume", "s"),
    ("resume", "t"),
]


@settings(max_examples=60, deadline=None)
@example(BEGINNING, WAITS, "drop_oldest", 5, 64, 1 << 20)
@example(MIXED, WAITS, "disconnect", 5, 64, 1 << 20)
@example(IDENTIFIED, WAITS, "drop_oldest", 1000, 64, 1 << 20)
@example(OVERLAPPING, WAITS, "drop_oldest", 1000, 64, 1 << 20)
@given(
    st.sampled_from(BEGINNINGS),
    st.lists(steps, min_size=1, max_size=10),
    st.sampled_from(("drop_oldest", "disconnect")),
    st.sampled_from((5, 1000)),
    st.sampled_from((3, 64)),
    st.sampled_from((1 << 20, 100)),
)
def test_both_ways_write_the_same(
    beginning: list[Any], script: list[Any], policy: str, limit: int, credit: int, most_bytes: int
) -> None:
    with quiet() as loop:
        twins = Twins(loop, most_bytes, queue_policy=policy, queue_limit=limit, credit=credit)
        tell(twins, [*beginning, *script, *(("resume", name) for name in CLIENTS)])
        twins.do("end")
        turn(loop)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("who", PUBLISHERS)
def test_any_cut_gives_the_same_publications(
    who: str, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reads, what is published is the same, in the same order, and numbers go up: also
    without the ways for several packets."""
    if not together:
        monkeypatch.setattr(Publishing, "take_plain", lambda *how: 0)
        monkeypatch.setattr(Publishing, "take_frames", lambda *how: NOTHING)
    sent = [("a", 0), ("a/b", 125), ("b", 200), ("é", 3), ("c", 0), ("$SYS/x", 1), ("d", 130)]
    version = CLIENTS[who]
    data = b"".join(encode(Publish(topic, bytes(size)), version) for topic, size in sent)
    ends = (*range(1, 12), *range(12, len(data), 29), *range(len(data) - 3, len(data)))
    cuts = [[data[:at], data[at:]] for at in ends]
    with quiet() as loop:
        twins = Twins(loop, credit=3)
        twins.do("watch")
        for pieces in ([data], *cuts, [data[at : at + 1] for at in range(len(data))]):
            for piece in pieces:
                twins.do("say", who, piece)
                turn(loop)
            turn(loop, 6)
            for place in twins.both:
                found = place.watched()
                kept = [(topic, size) for topic, size in sent if topic[0] != "$"]
                assert [(each.topics[0], len(each.payload)) for each in found] == kept
                assert all(each.attributes == {"mqtt.qos": 0} for each in found)
                numbers = [place.last, *(each.seq for each in found)]
                assert all(first < second for first, second in pairwise(numbers))
                place.last = numbers[-1]
        twins.do("end")
        turn(loop)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("again", [False, True])
def test_what_is_not_passed_on_takes_no_credit(qos: int, again: bool) -> None:
    """A client may publish on after publications that are refused, or come twice before their
    answer."""
    topic, dup = ("b", qos > 0) if again else ("$SYS/x", False)
    ids = [7] * 8 if again else range(1, 9)
    packets = [Publish(topic, b"", qos, dup=dup, packet_id=id if qos else 0) for id in ids]
    with quiet() as loop:
        twins = Twins(loop, credit=3)
        twins.do("watch")
        for packet in packets if qos < 2 and again else [packets]:
            some = packet if isinstance(packet, list) else [packet]
            twins.do("say", "q", b"".join(encode(each, MQTT_5) for each in some))
            turn(loop, 6)
        twins.do("say", "q", encode(Publish("last"), MQTT_5))
        turn(loop, 6)
        for place in twins.both:
            found = [each.topics[0] for each in place.watched()]
            assert found[-1:] == ["last"]
            assert ("$SYS/x" in found) is False
        twins.do("end")
        turn(loop)


def test_the_compiled_calls_are_used() -> None:
    """The twins would be alike, too, if both took the readable path."""
    calls: Counter[str] = Counter()

    def spy(name: str) -> Any:
        real = getattr(Packets, name)

        def call(self: Packets, *how: Any) -> Any:
            made = real(self, *how)
            calls[name] += made[1]
            return made

        return mock.patch.object(Packets, name, call)

    with quiet() as loop, spy("frames"), spy("packets"):
        twins = Twins(loop)
        tell(twins, [*BEGINNING, ("publish", "p", [PLAIN] * 7, [])])
        twins.do("end")
        turn(loop)
    assert calls["frames"] == 2 + 7
    assert calls["packets"] == 2 * 7, "once for each version"
