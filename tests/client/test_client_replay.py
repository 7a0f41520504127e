"""From the past into the present: each event once, in whatever order and however often it comes."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.client import replay as replay_module
from reefcast.client.event import Event
from reefcast.client.history import History
from reefcast.client.inbox import Inbox
from reefcast.client.replay import Given, Replay
from reefcast.client.signal import Signal
from reefcast.errors import ConnectionLostError
from reefcast.history.asking import ATTEMPTS, Asking, Numbers, Question
from reefcast.history.messages import End, Find, Found, Items, Part, Request
from reefcast.model.messages import ServiceMessage
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication
from reefcast.routing.recent import RecentIds

NUMBERS = st.integers(0, 2**32)
WAYS = ("past", "past and live", "late", "late and live", "live")
"""How an event comes: it was stored before the storage was asked, during the handover, or later;
and it was routed before the subscription had settled, or after."""


class Reading:
    """A reader that is never held back: no test has enough events for that."""

    event_type, replier = Event, None

    def inbox_is_full(self, inbox: Inbox) -> None:
        raise AssertionError

    def inbox_has_room(self, inbox: Inbox) -> None:
        raise AssertionError


class FakeSubscription:
    def __init__(self) -> None:
        self._holding = Inbox(10_000, Reading())
        self.is_settled = asyncio.Event()

    async def settled(self) -> None:
        await self.is_settled.wait()

    async def next_batch(self) -> list[Event]:
        while not self._holding.bodies:
            await self._holding.changed.wait()
        return self._holding.pop_all()


class FakeHistory:
    """A history played by the test. `come`: what has come and was not taken."""

    def __init__(self, subscription: FakeSubscription) -> None:
        self._subscription = subscription
        self.come: deque[Event] = deque()
        self.changed = Signal()
        self.over = self.hands_over = self.started = False

    def start(self) -> None:
        assert self._subscription.is_settled.is_set(), "asked before the subscription had settled"
        self.started = True

    def poll(self) -> list[Event]:
        events = list(self.come)
        self.come.clear()
        return events

    async def wait(self) -> None:
        await self.changed.wait()


def event(n: int, after_s: float = 0.0) -> Event:
    """Return an event that was published about now."""
    time_us = replay_module.now_us() + round(after_s * 1e6)
    return Event(encode_publication(Publication("p", n, time_us, {}, ("t",))))


async def replayed(rng: random.Random) -> tuple[list[int], list[int], int]:
    """Return what was read; what was in the past, in its order; and how many events there are."""
    subscription = FakeSubscription()
    history = FakeHistory(subscription)
    replay = Replay(cast(Any, subscription), cast(Any, history))
    replay._given._old = RecentIds(0)
    ways = [rng.choice(WAYS) for _ in range(rng.randint(0, 30))]
    past = [n for n, way in enumerate(ways) if "past" in way]
    late = [n for n, way in enumerate(ways) if "late" in way]
    live = [n for n, way in enumerate(ways) if "live" in way]
    rng.shuffle(late)
    rng.shuffle(live)

    async def world() -> None:
        await asyncio.sleep(0)
        subscription.is_settled.set()
        waiting = deque(past)
        coming = deque(live)
        while waiting or coming or late or not history.over:
            for _ in range(rng.choice((0, 0, 1, 3))):
                await asyncio.sleep(0)
            if coming and rng.random() < 0.5:
                subscription._holding.put([event(coming.popleft()).body])
            elif not history.started or history.over:
                continue
            elif waiting:
                history.come.append(event(waiting.popleft()))
            elif not history.hands_over:
                history.hands_over = True
            elif late:
                history.come.append(event(late.pop()))
            else:
                history.over = True
            history.changed.fire()

    task = asyncio.ensure_future(world())
    found: list[int] = []
    async with asyncio.timeout(10):
        while len(found) < len(ways) or not history.started:
            found += await read(replay, rng.choice((0.0, 0.001, 1.0)))
        await task
    found += await read(replay, 0.002)
    return found, past, len(ways)


async def read(replay: Replay, patience_s: float) -> list[int]:
    """Return the next batch, or nothing in time; a wait that is cancelled must lose nothing."""
    try:
        async with asyncio.timeout(patience_s):
            return [each.seq for each in await replay.next_batch()]
    except TimeoutError:
        return []


@settings(max_examples=200, deadline=None)
@given(NUMBERS)
def test_each_event_comes_once_and_the_past_first(number: int) -> None:
    found, past, count = asyncio.run(replayed(random.Random(number)))
    assert sorted(found) == list(range(count))
    assert found[: len(past)] == past


def test_ids_are_forgotten_when_they_cannot_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = Given()
    first, ahead = event(1), event(2, after_s=1000.0)
    assert ids.is_new(first) and not ids.is_new(first)
    ids.past_is_over()
    assert ids.is_new(ahead) and not ids.is_new(first), (
        "a clock that is ahead made the replay forget ids"
    )
    later_us = replay_module.now_us() + 100_000_000
    monkeypatch.setattr(replay_module, "now_us", lambda: later_us)
    assert not ids.is_new(first), "time alone made the replay forget ids"
    assert ids.is_new(event(3)) and ids._ids is None


def test_of_older_events_the_latest_are_known() -> None:
    ids = Given()
    old = event(1, after_s=-1000.0)
    assert ids.is_new(old) and not ids.is_new(old)
    assert ids._ids == set()


class Asked:
    """A session that brings what a storage answers; each answer after the first breaks off."""

    numbers = Numbers("c")

    def ask(self, asking: Asking[Event], changed: Signal) -> None:
        said: list[ServiceMessage] = asking.start()
        for attempt in range(ATTEMPTS + 1):
            (find,) = said
            assert isinstance(find, Find)
            (request,) = asking.handle(Found(number=find.number, parts=(Part("s", 1, ("t",)),)))
            assert isinstance(request, Request)
            on_path: dict[str, Any] = {"id": request.id, "path": ("c", "b", "s"), "at": 0}
            bodies = () if attempt else (event(1).body, event(2).body)
            if bodies:
                asking.handle(Items(**on_path, before=0, bodies=bodies))
            said = asking.handle(End(**on_path, before=len(bodies), reason="it is gone"))

    def say(self, messages: list[ServiceMessage]) -> None:
        """Send nothing: nobody is there."""

    def forget(self, asking: Asking[Event]) -> None:
        """Do nothing: there is no more to bring."""


async def test_a_past_that_breaks_off_for_good_does_not_pass_for_a_whole_one() -> None:
    """This holds although events are given before the error is raised."""
    subscription = FakeSubscription()
    subscription.is_settled.set()
    subscription._holding.put([event(3).body])
    history = History(cast(Any, Asked()), Question("TRUE", ("t",), handover_s=1.0), 10.0)
    replay = Replay(cast(Any, subscription), history)
    assert [each.seq for each in await replay.next_batch()] == [1, 2]
    with pytest.raises(ConnectionLostError, match="broke off: it is gone"):
        await replay.next_batch()
