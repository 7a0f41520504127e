"""A client, a broker's core and its disk, without sockets. Whatever breaks, the application gets
each event, and none again that it has acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.client.consuming import MOST_TRIES, Attachment, Consuming
from reefcast.model.keeping import SessionOptions
from reefcast.model.messages import (
    Away,
    ControlMessage,
    Effect,
    Fetch,
    Fetched,
    Input,
    Keep,
    Kept,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Send,
    ServiceMessage,
    SetTimer,
    Timer,
)
from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication, encode_publication
from reefcast.routing.broker import Broker
from reefcast.sessions.home import Home
from reefcast.sessions.messages import (
    MOST_POSITIONS,
    Acknowledge,
    AddFilter,
    Attach,
    ConsumerEnded,
    Detach,
    Done,
    Failed,
    Handed,
    OpenSession,
    Owed,
)
from reefcast_lab.torture.stores import SimulatedStore

ACK_WAIT_S = 10.0
WINDOW = 3


class World:
    """One client with one consumer, at a broker that may lose power."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._store = SimulatedStore()
        self.now = 0.0
        self._lives = 0
        self._to_broker: deque[ServiceMessage] = deque()
        self._to_client: deque[ServiceMessage] = deque()
        self.published = self._kept_up_to = 0
        self.given: list[int] = []
        self.in_hand: dict[int, int] = {}  # seq -> position
        self.acknowledged: set[int] = set()
        self._paused: deque[Callable[[], None]] = deque()
        self.consuming = Consuming(self._say, self._paused.append)
        self._start()
        self.consuming.established(resumed=False)
        options = {"ack_wait_s": ACK_WAIT_S}
        asked = [
            OpenSession(token=self.consuming.next_token(), session="s", options=options),
            AddFilter(token=self.consuming.next_token(), session="s", filter="TRUE"),
        ]
        calls = [self.consuming.ask(each) for each in asked]
        self.settle()
        assert all(call.over and call.error is None for call in calls)
        self.attachment = Attachment(self.consuming, "s", "", WINDOW, "")

    # --- the broker -------------------------------------------------------------------------------

    def _start(self) -> None:
        self._lives += 1
        contents = self._store.load()
        home = Home(contents, now=self.now)
        self._core = Broker(
            "a",
            "flooding",
            home=home,
            rows=contents.rows,
            rng=Random(self._lives),
        )
        self._home = home
        self._tokens: deque[int] = deque()
        self._timers: dict[str, float] = {}
        for link in ("c", "p"):
            self._handle(LinkUp(LinkKind.CLIENT), link)

    def _say(self, message: ControlMessage) -> None:
        assert isinstance(message, ServiceMessage)
        self._to_broker.append(message)

    def _handle(self, item: Input, link: str) -> None:
        self._carry_out(self._core.handle(item, link, self.now))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Keep):
                self._store.write(effect.changes)
                self._tokens.append(effect.token)
            elif isinstance(effect, Fetch):
                bodies = self._store.bodies(effect.events)
                self._handle(Fetched(bodies.found, bodies.missing), "")
            elif isinstance(effect, Send) and isinstance(effect.message, ServiceMessage):
                self._to_client.append(effect.message)
            elif isinstance(effect, SetTimer):
                self._timers[effect.key] = effect.at_s

    def sync(self) -> None:
        self._store.sync()
        if self._tokens:
            token = self._tokens[-1]
            self._tokens.clear()
            self._kept_up_to = self.published
            self._handle(Kept(token), "")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for key in [key for key, at_s in self._timers.items() if at_s <= self.now]:
            del self._timers[key]
            self._handle(Timer(key), "")

    def lose_power(self) -> None:
        """Let the broker lose power and start again; what was not confirmed is published again."""
        self._store.kill(self._rng)
        self._to_broker.clear()
        self._to_client.clear()
        self._lost()
        self._start()
        unconfirmed = self.published - self._kept_up_to
        self.published = self._kept_up_to
        self.publish(unconfirmed)
        self.consuming.established(resumed=False)

    # --- links ------------------------------------------------------------------------------------

    def publish(self, count: int = 1) -> None:
        batch = []
        for _ in range(count):
            self.published += 1
            publication = Publication("p", self.published, 0, {"n": self.published})
            batch.append(Publish(publication, body=encode_publication(publication)))
        self._carry_out(self._core.handle_publications(batch, "p", self.now))

    def to_broker(self) -> None:
        if self._to_broker:
            self._handle(self._to_broker.popleft(), "c")

    def to_client(self) -> None:
        if self._to_client:
            self.consuming.handle(self._to_client.popleft())

    def _lost(self) -> None:
        self.consuming.lost()

    def cut(self, *, resumed: bool) -> None:
        """Break the connection, and make another one; `resumed`: no message is lost."""
        self._lost()
        if resumed:
            self._handle(Away(), "c")
        else:
            self._to_broker.clear()
            self._to_client.clear()
            self._handle(LinkDown(), "c")
            self._handle(LinkUp(LinkKind.CLIENT), "c")
        self.consuming.established(resumed=resumed)

    # --- the application --------------------------------------------------------------------------

    def pop(self) -> None:
        if self.attachment.waiting:
            owed = self.attachment.pop()
            seq = decode_publication(owed.body).seq
            assert seq not in self.acknowledged, "given again although it was acknowledged"
            assert owed.tries > 1 or seq not in self.given, "given again, and not marked as such"
            self.given.append(seq)
            self.in_hand[seq] = owed.position

    def acknowledge(self) -> None:
        if self.in_hand:
            seq = self._rng.choice(list(self.in_hand))
            position = self.in_hand.pop(seq)
            self.acknowledged.add(seq)
            self.attachment.acknowledge([position])

    def reject(self) -> None:
        if self.in_hand:
            seq = self._rng.choice(list(self.in_hand))
            self.attachment.reject(self.in_hand.pop(seq), self._rng.choice([0.0, 1.0]))

    def settle(self) -> None:
        """Deliver and sync everything."""
        while self._to_broker or self._to_client or self._tokens:
            self.to_broker()
            self.to_client()
            self.sync()

    def finish(self) -> None:
        """Let nothing fail any more, and let the application acknowledge everything."""
        for _ in range(20 * (self.published + 5)):
            self.settle()
            if len(self.acknowledged) == self.published and self.attachment.is_acknowledged():
                break
            self.pop()
            self.acknowledge()
            self.pass_time(ACK_WAIT_S / 10)

    @property
    def consumers(self) -> int:
        """How many consumers the home knows."""
        return len(self._home.status("", "s").consumers)


STEPS = {
    "publish": 6,
    "to_broker": 10,
    "to_client": 10,
    "sync": 6,
    "pop": 8,
    "acknowledge": 6,
    "reject": 1,
    "wait": 1,
    "cut": 1,
    "cut for good": 1,
    "power": 1,
}


def run(seed: int, steps: int) -> World:
    rng = Random(seed)
    world = World(rng)
    for name in rng.choices(list(STEPS), list(STEPS.values()), k=steps):
        if name == "wait":
            world.pass_time(rng.choice([0.5, ACK_WAIT_S]))
        elif name == "cut":
            world.cut(resumed=True)
        elif name == "cut for good":
            world.cut(resumed=False)
        elif name == "power":
            world.lose_power()
        else:
            getattr(world, name)()
    world.finish()
    return world


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_each_event_is_given_until_it_is_acknowledged_and_not_after_that(seed: int) -> None:
    world = run(seed, 120)
    assert world.acknowledged == set(range(1, world.published + 1))
    assert not world.attachment.in_hand and not world.attachment.ended
    assert world.consumers == 1, "a consumer that no client has is still attached"


def test_the_runs_break_what_they_should() -> None:
    """In at least a third of these runs, an event is given more than once: the faults reach the
    consumers."""
    again = sum(
        len(world.given) > len(set(world.given)) for world in (run(s, 120) for s in range(30))
    )
    assert again >= 10
    assert SessionOptions().ack_wait_s != ACK_WAIT_S


@pytest.mark.parametrize("resumed", [True, False])
def test_what_was_not_answered_is_asked_again_of_a_broker_that_knows_nothing(
    resumed: bool,
) -> None:
    said: list[ControlMessage] = []
    consuming = Consuming(said.append, lambda then: None)
    consuming.established(resumed=False)
    asked = OpenSession(token=consuming.next_token(), session="s")
    call = consuming.ask(asked)
    consuming.lost()
    consuming.established(resumed=resumed)
    assert said == ([asked] if resumed else [asked, asked])
    consuming.handle(Done(token=asked.token, value=1))
    assert call.over and call.answer == Done(token=asked.token, value=1)
    consuming.lost()
    consuming.established(resumed=False)
    assert said.count(asked) == (1 if resumed else 2)


def test_what_was_not_read_when_the_connection_broke_is_left_to_others() -> None:
    said: list[ControlMessage] = []
    consuming = Consuming(said.append, lambda then: None)
    consuming.established(resumed=False)
    attachment = Attachment(consuming, "s", "", WINDOW, "")
    [attach] = said
    assert isinstance(attach, Attach)
    events = tuple(Owed(position, 1, False, (1,), b"") for position in (1, 2))
    consuming.handle(Handed(consumer=attach.consumer, events=events))
    assert attachment.pop().position == 1
    consuming.lost()
    assert not attachment.waiting
    consuming.established(resumed=True)
    again = said[-1]
    assert isinstance(again, Attach) and again.consumer > attach.consumer
    # What is still under way to the consumer that was.
    consuming.handle(Handed(consumer=attach.consumer, events=events))
    assert not attachment.waiting


def attached() -> tuple[list[ControlMessage], list[Callable[[], None]], Consuming, Attachment]:
    """Return what the client says, what it has put off, its calls, and an attached consumer."""
    said: list[ControlMessage] = []
    paused: list[Callable[[], None]] = []
    consuming = Consuming(said.append, paused.append)
    consuming.established(resumed=False)
    attachment = Attachment(consuming, "s", "", WINDOW, "")
    consuming.handle(Done(token=1))
    return said, paused, consuming, attachment


def test_a_consumer_attaches_again_when_the_way_to_its_home_broke() -> None:
    said, paused, consuming, attachment = attached()
    owed = Owed(7, 1, False, (1,), b"")
    consuming.handle(Handed(consumer=1, events=(owed,)))
    attachment.acknowledge([attachment.pop().position])
    consuming.handle(ConsumerEnded(consumer=1, reason="it broke", again=True))
    attach, again = said[-2:]
    assert isinstance(attach, Attach) and attach.consumer == 2
    assert isinstance(again, Acknowledge) and (again.consumer, again.positions) == (2, (7,))
    consuming.handle(Failed(token=again.token, reason="nobody knows", again="later"))
    consuming.handle(Failed(token=attach.token, reason="nobody knows", again="later"))
    assert said[-1] == again and len(paused) == 1
    paused.pop()()
    attach = said[-2]
    assert isinstance(attach, Attach) and attach.consumer > 2
    consuming.handle(Done(token=attach.token))
    assert not attachment.ended and attachment.take_failure() is None
    attachment.detach()
    consuming.handle(ConsumerEnded(consumer=attach.consumer, reason="it broke", again=True))
    assert isinstance(said[-1], Detach) and not paused


def test_a_consumer_that_left_does_not_attach_again() -> None:
    said, paused, consuming, attachment = attached()
    consuming.handle(ConsumerEnded(consumer=1, reason="it broke", again=True))
    attach = said[-1]
    attachment.detach()
    assert isinstance(attach, Attach)
    consuming.handle(Failed(token=attach.token, reason="nobody knows", again="later"))
    assert not paused and not consuming.consumers


def test_what_was_asked_when_the_way_broke_is_asked_again() -> None:
    said: list[ControlMessage] = []
    consuming = Consuming(said.append, lambda then: then())
    consuming.established(resumed=False)
    asked = OpenSession(token=consuming.next_token(), session="s")
    call = consuming.ask(asked)
    for again in (*["now", "later"] * MOST_TRIES, "now"):
        consuming.handle(Failed(token=asked.token, reason="it broke", again=cast("Any", again)))
    assert call.error is None and said == [asked] * (2 * MOST_TRIES + 2)
    consuming.handle(Failed(token=asked.token, reason="it may be at c", again="later"))
    assert str(call.error) == "it may be at c"


def test_what_waits_to_be_asked_again_outlives_its_connection() -> None:
    said: list[ControlMessage] = []
    paused: list[Callable[[], None]] = []
    consuming = Consuming(said.append, paused.append)
    consuming.established(resumed=False)
    asked = OpenSession(token=consuming.next_token(), session="s")
    call = consuming.ask(asked)
    consuming.handle(Failed(token=asked.token, reason="it may be at c", again="later"))
    consuming.lost()
    consuming.established(resumed=True)
    paused.pop()()
    assert said == [asked, asked]  # for a broker that remembers this client
    consuming.handle(Done(token=asked.token))
    assert call.answer is not None


def test_a_consumer_that_was_never_attached_hears_why() -> None:
    said: list[ControlMessage] = []
    consuming = Consuming(said.append, lambda then: then())
    consuming.established(resumed=False)
    attachment = Attachment(consuming, "s", "", WINDOW, "")
    for _ in range(MOST_TRIES + 1):
        assert not attachment.ended
        consuming.handle(Failed(token=said[-1].token, reason="it may be at c", again="later"))
    assert attachment.ended and str(attachment.error) == "it may be at c"


def test_more_positions_than_one_message_holds_are_acknowledged_in_several() -> None:
    said: list[ControlMessage] = []
    consuming = Consuming(said.append, lambda then: None)
    consuming.established(resumed=False)
    attachment = Attachment(consuming, "s", "", WINDOW, "")
    positions = range(1, MOST_POSITIONS + 2)
    attachment.acknowledge(positions)
    sent = [message for message in said if isinstance(message, Acknowledge)]
    assert [p for message in sent for p in message.positions] == list(positions)
    assert max(len(message.positions) for message in sent) == MOST_POSITIONS
    consuming.handle(Done(token=sent[0].token))
    assert attachment.is_acknowledged([1])
    assert not attachment.is_acknowledged()
    consuming.handle(Done(token=sent[1].token))
    assert attachment.is_acknowledged()
