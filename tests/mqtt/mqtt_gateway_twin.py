"""The surroundings of an MQTT gateway for tests: a broker that is slow, forgetful and unordered
where it may be, and a client that does exactly what the standard says, and no more."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from reefcast.model import messages
from reefcast.model.effort import FilterLimits
from reefcast.model.keeping import SessionOptions
from reefcast.model.messages import ControlMessage
from reefcast.model.wire import encode_publication
from reefcast.mqtt.content import ContentOptions, publication_of
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.delivering import Renderer
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.gateway import Gateway
from reefcast.mqtt.packets import (
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsuback,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason
from reefcast.mqtt.surroundings import Settings
from reefcast.retaining.messages import Entry, Recall, Recalled, Retain, Retained
from reefcast.sessions import messages as asked
from reefcast.sessions.messages import Done, Failed, Handed, Notes, Owed, SessionRow, Sessions

EVERY = "#"


class Home:
    """The one durable session, on disk at its home."""

    def __init__(self) -> None:
        self.there = False
        self.filters: dict[str, int] = {}
        self.notes: dict[str, str] = {}
        self.owed: dict[int, tuple[bytes, tuple[int, ...]]] = {}
        self.tries: dict[int, int] = {}
        self.out: set[int] = set()
        self.last = self.last_filter = 0
        self.consumer: tuple[Connection, int] | None = None
        self.window = 0

    def handle(self, connection: Connection, message: Any) -> list[ControlMessage]:
        """Do what is asked; return the answers."""
        token = message.token
        if isinstance(message, asked.OpenSession):
            new, self.there = not self.there, True
            return [Done(token=token, value=new)]
        if isinstance(message, asked.ListSessions):
            return [Sessions(token=token, rows=(self.row(),) if self.there else ())]
        if isinstance(message, asked.CloseSession):
            self.__init__()  # type: ignore[misc]  # all of it is gone
            return [Done(token=token)]
        if not self.there:
            return [Failed(token=token, reason="there is none", gone=True)]
        if isinstance(message, asked.AddFilter):
            if message.filter not in self.filters:
                self.last_filter += 1
                self.filters[message.filter] = self.last_filter
            return [Done(token=token, value=self.filters[message.filter])]
        if isinstance(message, asked.RemoveFilter):
            self.filters.pop(message.filter, None)
            return [Done(token=token)]
        if isinstance(message, asked.ReadNotes):
            return [Notes(token=token, notes=dict(self.notes))]
        return self._of_consumers(connection, message)

    def _of_consumers(self, connection: Connection, message: Any) -> list[ControlMessage]:
        token = message.token
        if isinstance(message, asked.Attach):
            self.consumer, self.window = (connection, message.consumer), message.window
            self.out.clear()
            return [Done(token=token)]
        if isinstance(message, asked.Note):
            if message.consumer and self.consumer != (connection, message.consumer):
                return [Failed(token=token, reason="another took over", gone=True)]
            for key, text in message.notes.items():
                if text is None:
                    self.notes.pop(key, None)
                else:
                    self.notes[key] = text
            return [Done(token=token)]
        if isinstance(message, asked.Acknowledge):
            if self.consumer == (connection, message.consumer):
                for position in message.positions:
                    self.owed.pop(position, None)
                    self.out.discard(position)
            return []
        if isinstance(message, asked.Detach):
            return []
        raise AssertionError(message)

    def row(self) -> SessionRow:
        subscriptions = {number: filter for filter, number in self.filters.items()}
        return SessionRow(
            owner="u",
            name="s",
            options=SessionOptions(),
            subscriptions=subscriptions,
            consumers={},
            events=len(self.owed),
            bytes=0,
            out=len(self.out),
            dead_letters=0,
            waiting=0,
            dropped=0,
            oldest_s=0.0,
            created_s=0.0,
        )

    def owe(self, body: bytes) -> None:
        if self.filters:
            self.last += 1
            self.owed[self.last] = (body, tuple(self.filters.values()))

    def handed(self) -> Handed | None:
        """Return what the consumer may have now."""
        ready = [each for each in self.owed if each not in self.out]
        room = ready[: max(0, self.window - len(self.out))]
        if self.consumer is None or not room:
            return None
        for each in room:
            self.out.add(each)
            self.tries[each] = self.tries.get(each, 0) + 1
        events = tuple(
            Owed(each, self.tries[each], False, self.owed[each][1], self.owed[each][0])
            for each in room
        )
        return Handed(consumer=self.consumer[1], events=events)


class Connection:
    """One connection: the broker around a gateway. What is asked waits until the test lets one of
    the lanes go on. `wire`: the packets on their way to the client."""

    def __init__(self, world: World, clean: bool, receive_maximum: int) -> None:
        self.world = world
        self.wire: deque[Packet] = deque()
        self.lanes: dict[str, deque[Callable[[], None]]] = {}
        self.over = self.is_ready = False
        self._decoder = Decoder(5)
        said = Properties(session_expiry_interval=1000, receive_maximum=receive_maximum)
        self.gateway = Gateway(
            *(self, Connect("c", clean, properties=said), 5, "c", "mqtt:c"),
            *(world.settings, Renderer(), lambda packet: encode(packet, 5)),
        )
        self.gateway.begin()

    # --- what the gateway uses --------------------------------------------------------------------

    def control(self, message: ControlMessage) -> None:
        if isinstance(message, asked.Asked) and not isinstance(message, Recall | Retain):
            self._later("home", lambda: self._at_home(message))
        elif isinstance(message, Recall):
            self._later("recall", lambda: self._answer(self.world.recalled(message)))
        elif isinstance(message, Retain):
            self._later("retain", lambda: self._answer(Retained(token=message.token)))
        elif isinstance(message, messages.Subscribe | messages.Unsubscribe):
            self._later("core", lambda: self._answer(messages.Settled(message.token)))
        else:
            raise AssertionError(message)

    def unspent(self) -> None:
        pass

    def publish(self, publications: list[messages.Publish]) -> None:
        for each in publications:
            event = each.publication
            self.world.publish(event.seq, event.payload)
            answer = messages.Confirmed(event.publisher, event.seq, each.confirm or 1)
            if each.confirm:
                self._later(f"confirm {event.seq}", lambda answer=answer: self._answer(answer))

    def write(self, packet: bytes) -> None:
        packets, error = self._decoder.receive(packet)
        assert error is None
        self.wire += packets
        for each in packets:
            if isinstance(each, Publish):
                self.world.begun.setdefault(each.payload, each.qos)

    send = write

    def end(self, reason: Reason, words: str) -> None:
        raise AssertionError((reason, words))

    def now_us(self) -> int:
        return self.world.tick()

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        raise AssertionError

    def count(self, name: str) -> None:
        raise AssertionError(name)

    def ready(self) -> None:
        self.is_ready = True

    def system(self, topic_filter: str) -> Mapping[str, bytes]:
        return {}

    def may_see_system(self) -> bool:
        return False

    def limits(self) -> FilterLimits:
        return FilterLimits(10_000, 100, 100)

    # --- what the test does -----------------------------------------------------------------------

    def _later(self, lane: str, do: Callable[[], None]) -> None:
        self.lanes.setdefault(lane, deque()).append(do)

    def _at_home(self, message: ControlMessage) -> None:
        for answer in self.world.home.handle(self, message):
            self._answer(answer)

    def _answer(self, answer: ControlMessage) -> None:
        if not self.over:
            self.gateway.answer(answer)

    def step(self, rng: random.Random) -> bool:
        """Let one lane go on; return whether there was one."""
        names = [name for name, waiting in self.lanes.items() if waiting]
        if not names:
            return False
        self.lanes[rng.choice(names)].popleft()()
        return True

    def hand(self) -> bool:
        """Hand out what the session owes to its consumer."""
        home = self.world.home
        if home.consumer is None or home.consumer[0] is not self or self.over:
            return False
        handed = home.handed()
        if handed is not None:
            self.gateway.answer(handed)
        return handed is not None

    def take(self, packet: Packet) -> None:
        """Take a packet of the client."""
        self.gateway.handle(packet)
        self.gateway.flush()

    def cut(self, rng: random.Random) -> None:
        """Break the connection. Of what was asked the first part still arrives; the death of a
        broker, if there are any, may take the rest."""
        self.over = True
        self.gateway.will = None
        self.gateway.retire()
        self.gateway.end()
        waiting = self.lanes.get("home", deque())
        most = len(waiting)
        for _ in range(rng.choice([most, rng.randint(0, most)]) if self.world.deaths else most):
            waiting.popleft()()
        if self.world.home.consumer and self.world.home.consumer[0] is self:
            self.world.home.consumer = None


class Client:
    """What a client remembers in all its connections (MQTT 5.0, section 4.1 and 4.3)."""

    def __init__(self, receive_maximum: int) -> None:
        self.receive_maximum = receive_maximum
        self.got: list[bytes] = []
        self.open: set[int] = set()
        self.unreleased: set[int] = set()
        self.received: list[int] = []
        self.mine: dict[int, tuple[str, int, bytes]] = {}
        self.order: list[int] = []
        self.acknowledged: set[bytes] = set()
        self._last = 0

    def packet(self, qos: int, payload: bytes) -> Publish:
        """Return a new publication."""
        self._last = self._last % 60 + 1
        while self._last in self.mine:
            self._last = self._last % 60 + 1
        self.mine[self._last] = ("sent", qos, payload)
        self.order.append(self._last)
        return Publish("own", payload, qos, packet_id=self._last)

    def again(self) -> list[Packet]:
        """Return what is to be sent again over a new connection, in order."""
        self.open.clear()
        self.received.clear()
        self.order = [id for id in self.order if id in self.mine and self.mine[id][0] == "sent"]
        sent = [
            Publish("own", self.mine[id][2], self.mine[id][1], dup=True, packet_id=id)
            for id in self.order
        ]
        released = [Pubrel(id) for id, (state, _, _) in self.mine.items() if state == "released"]
        return [*released, *sent]

    def take(self, packet: Packet) -> list[Packet]:
        """Handle a packet of the broker; return the answers."""
        if isinstance(packet, Publish):
            return self._event(packet)
        if isinstance(packet, Pubrel):
            assert packet.reason is Reason.SUCCESS
            if packet.packet_id in self.received:
                assert self.received[0] == packet.packet_id, "releases keep the order"
                self.received.remove(packet.packet_id)
            self.unreleased.discard(packet.packet_id)
            self.open.discard(packet.packet_id)
            return [Pubcomp(packet.packet_id)]
        if isinstance(packet, Puback | Pubrec):
            state, qos, payload = self.mine[packet.packet_id]
            assert packet.reason is Reason.SUCCESS
            assert (type(packet), state) == (Puback if qos == 1 else Pubrec, "sent")
            kind = [id for id in self.order if self.mine[id][1] == qos]
            assert kind[0] == packet.packet_id, "acknowledgements keep the order"
            self.order.remove(packet.packet_id)
            self.acknowledged.add(payload)
            if qos == 1:
                del self.mine[packet.packet_id]
                return []
            self.mine[packet.packet_id] = ("released", qos, payload)
            return [Pubrel(packet.packet_id)]
        if isinstance(packet, Pubcomp):
            state, _, _ = self.mine.pop(packet.packet_id)
            assert state == "released"
            return []
        assert isinstance(packet, Connack | Suback | Unsuback)
        return []

    def _event(self, packet: Publish) -> list[Packet]:
        id = packet.packet_id
        assert id not in self.open, "an identifier in use"
        self.open.add(id)
        assert len(self.open) <= self.receive_maximum
        if packet.qos == 1:
            assert id not in self.unreleased, "a packet has another QoS than before"
            self.got.append(packet.payload)
            self.open.discard(id)
            return [Puback(id)]
        if id in self.unreleased:
            assert packet.dup
            self.received.append(id)
            return [Pubrec(id)]
        self.received.append(id)
        self.unreleased.add(id)
        self.got.append(packet.payload)
        return [Pubrec(id)]


class World:
    """All of it. `published`: the payloads by their numbers in the network, each of which counts
    once there. `begun`: the payloads that were sent to the client, with their QoS; `kept`: what is
    retained, by topic; `deaths`: brokers die."""

    def __init__(self, rng: random.Random, receive_maximum: int, *, deaths: bool = True) -> None:
        self.rng = rng
        self.deaths = deaths
        self.begun: dict[bytes, int] = {}
        self.kept: dict[str, bytes] = {}
        self.home = Home()
        self.settings = Settings(receive_maximum=100)
        self.client = Client(receive_maximum)
        self.published: dict[int, bytes] = {}
        self.events: list[bytes] = []
        self.up: deque[Packet] = deque()
        self._us = 1_000_000
        self.connection = self.connect(clean=True)
        self.run_until_ready()
        self.connection.take(Subscribe(1, (TopicRequest(EVERY, 2),)))
        self.settle()

    def tick(self) -> int:
        self._us += 1
        return self._us

    def connect(self, *, clean: bool = False) -> Connection:
        return Connection(self, clean, self.client.receive_maximum)

    def publish(self, seq: int, payload: bytes) -> None:
        assert self.published.setdefault(seq, payload) == payload, "a number for two publications"

    def run_until_ready(self) -> None:
        while not self.connection.is_ready:
            assert self.connection.step(self.rng)

    # --- what may happen --------------------------------------------------------------------------

    def event(self, qos: int, payload: bytes, topic: str = "t") -> None:
        """Somebody publishes what the session owes."""
        self.events.append(payload)
        packet = Publish(topic, payload, qos)
        made, _ = publication_of(
            "p", len(self.events), self.tick(), topic, packet, ContentOptions()
        )
        self.home.owe(encode_publication(made))

    def retain(self, topic: str, qos: int, payload: bytes) -> None:
        """Have a value retained that was published before all else."""
        packet = Publish(topic, payload, qos, retain=True)
        made, _ = publication_of("r", 1, self.tick(), topic, packet, ContentOptions())
        self.kept[topic] = encode_publication(made)

    def recalled(self, message: Recall) -> Recalled:
        entries = tuple(
            Entry(topic.encode(), (1, "r", 1), (), body) for topic, body in self.kept.items()
        )
        return Recalled(token=message.token, entries=entries)

    def client_publishes(self, qos: int, payload: bytes) -> None:
        self.up.append(self.client.packet(qos, payload))

    def up_step(self) -> bool:
        """Have a packet of the client arrive."""
        if not self.up:
            return False
        self.connection.take(self.up.popleft())
        return True

    def down_step(self) -> bool:
        """Have a packet of the broker arrive."""
        if not self.connection.wire:
            return False
        self.up += self.client.take(self.connection.wire.popleft())
        return True

    def reconnect(self) -> None:
        """Break the connection, with all that is on its way, and come back."""
        self.connection.cut(self.rng)
        self.up.clear()
        self.connection = self.connect()
        self.run_until_ready()
        first = self.connection.wire.popleft()
        assert isinstance(first, Connack)
        assert first.session_present
        self.up += self.client.again()

    def reconnect_after(self, what: Callable[[], None]) -> None:
        """Break the connection, have something happen, and come back. What the session owes is
        handed out as soon as it may be."""
        self.connection.cut(self.rng)
        self.up.clear()
        what()
        self.connection = self.connect()
        while self.connection.step(self.rng):
            self.connection.hand()

    def any_step(self) -> bool:
        steps = [self.up_step, self.down_step, self.connection.hand]
        self.rng.shuffle(steps)
        steps.insert(self.rng.randrange(4), lambda: self.connection.step(self.rng))
        return any(step() for step in steps)

    def settle(self) -> None:
        """Let everything arrive."""
        while self.any_step():
            pass
