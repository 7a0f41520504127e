"""Last values, then new events: the merge alone, and clients against a broker that a test plays."""

from __future__ import annotations

import asyncio
import random
from collections import deque

import pytest
from fake_broker import FakeBroker

import reefcast
from reefcast.client.event import Event
from reefcast.client.last_values import Merging
from reefcast.history.messages import CLIENT_CODEC
from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind
from reefcast.retaining.keys import key_of
from reefcast.retaining.messages import (
    Clear,
    Entry,
    Forget,
    NotRetained,
    Recall,
    Recalled,
    RecallOn,
    Retain,
    Retained,
)
from reefcast.timing import now_us

QUICK = {"backoff_first_s": 0.001, "backoff_max_s": 0.01}


def entry(n: int, key: str) -> Entry:
    publication = Publication("p", n, n, {"n": n, "key": key})
    body = wire.encode_publication(publication)
    return Entry(key_of(publication, ("key",)), (n, "p", n), ("key",), body)


# --- the merge -----------------------------------------------------------------------------------


def stream(made: list[Entry], since: int, rng: random.Random) -> list[tuple[str, list[Entry]]]:
    """Return what a broker sends a subscriber: the publications from `since` on, and the
    recalled values in parts. A publication is retained before it is delivered, and links keep
    their order."""
    said: list[tuple[str, list[Entry]]] = []
    values: dict[bytes, Entry] = {}
    asked_at = rng.randint(since, len(made))
    keys: deque[bytes] | None = None

    def recall() -> None:
        nonlocal keys
        if keys is None:
            keys = deque(values)
        count = rng.randint(0, len(keys))
        part = [values[keys.popleft()] for _ in range(count)]
        said.append(("recalled", part))

    for n, each in enumerate(made):
        if n >= asked_at:
            recall()
        values[each.key] = each
        if n >= asked_at and rng.random() < 0.5:
            said.append(("recalled", [each]))  # it is watched
        if n >= since:
            said.append(("live", [each]))
    while keys is None or keys:
        recall()
    last = max(at for at, (kind, _) in enumerate(said) if kind == "recalled")
    said.insert(last + 1, ("complete", []))
    return said


def shuffled(said: list, rng: random.Random) -> list:
    """Return the messages in an order in which publications took other paths than values."""
    live = deque(each for each in said if each[0] == "live")
    rest = deque(each for each in said if each[0] != "live")
    mixed = []
    while live or rest:
        mixed.append(rng.choice([each for each in (live, rest) if each]).popleft())
    return mixed


SEEDS = [*range(40), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(40, 200))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ordered", [True, False])
def test_each_event_once_and_the_last_one_last(seed: int, ordered: bool) -> None:
    rng = random.Random(seed)
    made = [entry(n, rng.choice("abc")) for n in range(1, rng.randint(3, 25))]
    since = rng.randrange(len(made))
    said = stream(made, since, rng)
    merging, given, complete = Merging(), list[Event](), False
    left = deque(said if ordered else shuffled(said, rng))
    while left:  # the client takes what has come: publications first
        some = [left.popleft() for _ in range(rng.randint(1, min(4, len(left))))]
        for kind, entries in some:
            if kind == "live":
                merging.entered(Event(entries[0].body))
        complete = complete or ("complete", []) in some
        given += merging.recalled([e for k, its in some if k == "recalled" for e in its], Event)
        given += merging.take() if complete else []

    ids = [event.seq for event in given]
    assert len(ids) == len(set(ids)), "given twice"
    assert {each.version[0] for each in made[since:]} <= set(ids), "an event is missing"
    latest: dict[object, int] = {}
    for event in given:
        assert not event.retained or event.seq > latest.get(event["key"], 0), (
            "a retained value came behind a later event"
        )
        latest[event["key"]] = max(event.seq, latest.get(event["key"], 0))
    assert latest == {e["key"]: e["n"] for e in (Event(each.body) for each in made)}
    if ordered:
        ends = {event["key"]: event.seq for event in given}
        assert ends == latest, "the last event of a key is not the latest"


def test_retained_values_come_before_events_of_other_keys() -> None:
    merging = Merging()
    merging.entered(Event(entry(3, "a").body))
    given = merging.recalled([entry(1, "b"), entry(2, "a"), entry(4, "a")], Event)
    given += merging.take()
    assert [(e.seq, e.retained) for e in given] == [(1, True), (3, False), (4, True)]
    merging.entered(Event(entry(4, "a").body))
    assert merging.take() == []  # it was given


# --- a broker that a test plays ------------------------------------------------------------------


class Broker(FakeBroker):
    """A broker that notes what comes in its order, and answers what it is told to."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # of the fake broker
        self.said: list[object] = []
        self.retains = True

    def _on_frame(self, kind: int, payload: bytes) -> None:
        if kind != FrameKind.CONTROL:
            if kind in (FrameKind.PUBLISH, FrameKind.PUBLISH_AGAIN):
                self.said.append(wire.CLIENT_CODEC.decode_publish(payload).publication)
            super()._on_frame(kind, payload)
            return
        message = CLIENT_CODEC.decode_control(payload)
        if not isinstance(message, Retain | Clear | Recall | RecallOn | Forget):
            super()._on_frame(kind, payload)
            return
        self.received += 1
        self.said.append(message)
        if self.retains and isinstance(message, Retain | Clear):
            self.send_control(Retained(token=message.token))

    def of(self, kind: type) -> list:
        return [each for each in self.said if type(each) is kind]


async def test_the_broker_hears_of_a_value_before_it_is_published() -> None:
    async with Broker() as broker, reefcast.connect(broker.url) as client:
        await client.publish(n=1)
        await client.publish(symbol="IBM", n=2, retain="symbol")
        await client.clear_retained(attributes={"symbol": "IBM"})
        first, retain, second, clear = broker.said
        assert (first.seq, second.seq) == (1, 2)
        assert retain.by == ("symbol",)
        assert wire.decode_publication(retain.body) == second
        assert clear.attributes == {"symbol": "IBM"}
        assert clear.time_us > second.time_us


async def test_what_is_not_answered_is_said_again_to_a_broker_that_restarted() -> None:
    async with Broker() as broker, reefcast.connect(broker.url, **QUICK) as client:
        broker.retains = False
        call = asyncio.create_task(client.publish(n=1, topics=["t"], retain=True))
        await broker.until(lambda: broker.of(Publication))
        broker.retains = True
        broker.restart()
        await call
        first, second = broker.of(Retain)
        assert first == second


async def test_a_refused_value_raises_where_it_was_published() -> None:
    async with Broker() as broker, reefcast.connect(broker.url) as client:
        broker.retains = False
        call = asyncio.create_task(client.publish(n=1, topics=["t"], retain=True))
        await broker.until(lambda: broker.of(Retain))
        broker.send_control(NotRetained(token=broker.of(Retain)[0].token, reason="it is full"))
        with pytest.raises(reefcast.RefusedError, match="it is full"):
            await call
        await client.publish(n=2)


async def test_events_wait_until_the_answer_is_complete() -> None:
    async with Broker() as broker, reefcast.connect(broker.url) as client:
        last = client.subscribe("n > 0", retained=True)
        first = asyncio.ensure_future(anext(last))
        await broker.until(lambda: broker.of(Recall))
        token = broker.of(Recall)[0].token
        broker.deliver((1,), n=7)
        broker.send_control(Recalled(token=token, entries=(entry(1, "a"),), more=True))
        assert (await first).retained
        await broker.until(lambda: broker.of(RecallOn))
        broker.send_control(Recalled(token=token, entries=(entry(2, "b"),)))
        assert [(e["n"], e.retained) for e in [await anext(last), await anext(last)]] == [
            (2, True),
            (7, False),
        ]


async def test_an_event_that_the_watch_brings_first_is_an_event() -> None:
    async with Broker() as broker, reefcast.connect(broker.url) as client:
        last = client.subscribe("n > 0", retained=True)
        first = asyncio.ensure_future(anext(last))
        await broker.until(lambda: broker.of(Recall))
        token = broker.of(Recall)[0].token
        later = Publication("p", 5, now_us() + 1_000_000, {"n": 5, "key": "a"})
        made = Entry(
            key_of(later, ("key",)),
            (later.time_us, "p", 5),
            ("key",),
            wire.encode_publication(later),
        )
        broker.send_control(Recalled(token=token, entries=()))
        broker.send_control(Recalled(token=token, entries=(entry(1, "b"), made), late=True))
        events = [await first, await anext(last)]
        assert [(e.seq, e.retained) for e in events] == [(1, True), (5, False)]


async def test_a_question_is_asked_again_of_a_broker_that_restarted() -> None:
    async with Broker() as broker, reefcast.connect(broker.url, **QUICK) as client:
        last = client.subscribe("n > 0", retained=True)
        first = asyncio.ensure_future(anext(last))
        await broker.until(lambda: broker.of(Recall))
        token = broker.of(Recall)[0].token
        broker.send_control(Recalled(token=token, entries=(entry(1, "a"),), more=True))
        event = await first
        assert (event.seq, event.retained) == (1, True)
        await broker.until(lambda: broker.of(RecallOn))
        broker.restart()
        second = asyncio.ensure_future(anext(last))
        await broker.until(lambda: len(broker.of(Recall)) == 2)
        token = broker.of(Recall)[1].token
        answer = Recalled(token=token, entries=(entry(1, "a"), entry(2, "a")))
        broker.send_control(answer)
        assert (await second).seq == 2  # and the first one not again
        await last.cancel()
        await broker.until(lambda: broker.of(Forget))


async def test_a_question_of_a_subscription_that_nobody_reads_any_more_is_cancelled() -> None:
    async with Broker() as broker, reefcast.connect(broker.url) as client:
        last = client.subscribe("n > 0", retained=True)
        task = asyncio.ensure_future(anext(last))
        await broker.until(lambda: broker.of(Recall))
        broker.send_control(Recalled(token=broker.of(Recall)[0].token, entries=(entry(1, "a"),)))
        await task
        del last, task
        await broker.until(lambda: broker.of(Forget))


async def test_calls_that_name_no_key_say_so() -> None:
    async with Broker() as broker, reefcast.connect(broker.url) as client:
        for match, retain, topics in (
            ("has no topic: give it exactly one", True, []),
            ("has 2 topics: give it exactly one", True, ["a", "b"]),
            ("under its attributes m, n, and this one has no m", ("n", "m"), ["a"]),
            ("names no key", (), ["a"]),
            ("names no key", "", ["a"]),
        ):
            with pytest.raises(reefcast.ConfigurationError, match=match):
                await client.publish(n=1, topics=topics, retain=retain)
        with pytest.raises(reefcast.ConfigurationError, match="'x' is nan, which makes no key"):
            await client.publish(x=float("nan"), retain="x")
        for named in ({}, {"topic": "a", "attributes": {"n": 1}}):
            with pytest.raises(reefcast.ConfigurationError, match="clears one key"):
                await client.clear_retained(**named)
        with pytest.raises(reefcast.ConfigurationError, match="a batch is not retained"):
            await client.publish_many([{"n": 1}], retain=True)
        with pytest.raises(reefcast.ConfigurationError, match="give replay or retained"):
            client.subscribe("topic = 'a'", retained=True, replay=True)
        assert broker.said == []  # and nothing was published


def test_numbers_that_filters_find_equal_make_one_key() -> None:
    def key(value: object) -> bytes:
        return key_of(Publication("p", 1, 0, {"x": value}), ("x",))

    assert key(1) == key(1.0)
    assert key(0.0) == key(-0.0) == key(0)
    assert len({key(1), key(True), key("1"), key(1.5)}) == 4
    assert key(2.0**70) != key(2**62)


async def test_the_synchronous_twin() -> None:
    async with Broker() as broker:

        def program() -> None:
            with reefcast.sync.connect(broker.url) as client:
                client.publish(n=1)
                client.publish(n=2, topics=["t"], retain=True)
                client.clear_retained(topic="t")
                with pytest.raises(reefcast.ConfigurationError, match="has no topic"):
                    client.publish(n=3, retain=True)
                with pytest.raises(reefcast.ConfigurationError, match="a batch is not retained"):
                    client.publish_many([{"n": 1}], retain=True)
                assert client.publish(n=4)[1] == 3  # what was refused took no number
                client.flush()

        await asyncio.to_thread(program)
        said = broker.said
        second = next(each for each in said if isinstance(each, Publication) and each.seq == 2)
        assert (
            said.index(broker.of(Retain)[0]) < said.index(second) < said.index(broker.of(Clear)[0])
        )
        assert wire.decode_publication(broker.of(Retain)[0].body) == second
        assert [each.seq for each in broker.of(Publication)] == [1, 2, 3]
