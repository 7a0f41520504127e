"""Questions about the past, answered by storages that break off, hang and come late."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import RANDOMS
from reefcast.client.event import Event
from reefcast.errors import ConfigurationError, ConnectionLostError, RefusedError
from reefcast.history.asking import (
    ATTEMPTS,
    WINDOW,
    Asking,
    Numbers,
    Question,
    position_of,
)
from reefcast.history.asking_bodies import BodyAsking
from reefcast.history.messages import (
    Cancel,
    End,
    Find,
    Found,
    Items,
    More,
    Part,
    Position,
    Request,
)
from reefcast.model import wire
from reefcast.model.messages import ServiceMessage
from reefcast.model.publication import Publication

Ids = list[tuple[str, int]]


def body(position: Position) -> bytes:
    time_us, publisher, seq = position
    attributes = {"a": 1} if seq % 2 else {}
    return wire.encode_publication(Publication(publisher, seq, time_us, attributes, ("t",)))


@dataclass
class Storing:
    """One request at a storage: what it has still to send, and how much of that it may."""

    request: Request
    waiting: deque[tuple[Position, bool]]
    credit: int
    breaks_after: int | None
    sent: int = 0


@dataclass
class World:
    """A broker with storages behind it. `holds`: the positions of each storage, in order; `late`:
    what each storage stores after the first request."""

    rng: random.Random
    holds: dict[str, list[Position]]
    late: dict[str, list[Position]] = field(default_factory=dict)
    breaks: float = 0.0
    inbox: deque[ServiceMessage] = field(default_factory=deque)
    open: dict[int, Storing] = field(default_factory=dict)
    said: list[ServiceMessage] = field(default_factory=list)

    def tell(self, messages: list[ServiceMessage]) -> None:
        self.said += messages
        for message in messages:
            if isinstance(message, Find):
                self.inbox.append(self._found(message))
            elif isinstance(message, Request):
                self._begin(message)
            elif isinstance(message, More) and message.id[1] in self.open:
                self.open[message.id[1]].credit += message.count
            elif isinstance(message, Cancel):
                self.open.pop(message.id[1], None)

    def _found(self, find: Find) -> Found:
        """Return parts that cover the topics more than once: all storages for all topics."""
        parts = tuple(Part(name, 1, find.topics) for name in self.holds)
        return Found(number=find.number, parts=parts)

    def _begin(self, request: Request) -> None:
        after = request.after
        past = [p for p in self.holds[request.storage] if after is None or p > after]
        late = self.late.pop(request.storage, []) if request.handover_s else []
        self.holds[request.storage] = sorted(self.holds[request.storage] + late)
        waiting = deque([(p, False) for p in past] + [(p, True) for p in late])
        breaks = self.rng.randint(0, len(waiting)) if self.rng.random() < self.breaks else None
        self.open[request.id[1]] = Storing(request, waiting, request.window, breaks)

    def step(self) -> None:
        """Let one of the storages send something."""
        number = self.rng.choice(list(self.open))
        one = self.open[number]
        count = min(self.rng.randint(0, 4), one.credit, len(one.waiting))
        path = ("c", "b", one.request.storage)
        while count:
            late = one.waiting[0][1]
            bodies = []
            while count and one.waiting and one.waiting[0][1] is late:
                bodies.append(body(one.waiting.popleft()[0]))
                count -= 1
            one.credit -= len(bodies)
            before, one.sent = one.sent, one.sent + len(bodies)
            said = {"id": ("c", number), "path": path, "at": 0, "before": before}
            self.inbox.append(Items(**said, bodies=tuple(bodies), late=late))
        broken = one.breaks_after is not None and len(one.waiting) <= one.breaks_after
        if broken or not one.waiting:
            del self.open[number]
            reason = "gone" if broken and one.waiting else ""
            self.inbox.append(
                End(id=("c", number), path=path, at=0, before=one.sent, reason=reason)
            )


def ask(world: World, question: Question, loss: float = 0.0, *, encoded: bool = False) -> Ids:
    """Return everything that the question gives, asked for events or `encoded` ones."""
    numbers = Numbers("c")
    asking = Asking(question, numbers, Event) if not encoded else BodyAsking(question, numbers)
    world.tell(asking.start())
    found: list[Event] = []
    for _ in range(100_000):
        if asking.error is not None:
            raise asking.error
        if world.inbox and world.rng.random() < 0.7:
            message = world.inbox.popleft()
            if world.rng.random() >= loss or not isinstance(message, Items | End):
                world.tell(asking.handle(message))
        elif world.open:
            world.step()
        elif not world.inbox:
            if asking.over:
                break
            world.tell(asking.hangs())
        events, messages = asking.drain()
        found += map(Event, events) if encoded else events
        world.tell(messages)
        if asking.over:
            break
    else:
        raise AssertionError("the question never ended")
    if not question.handover_s:
        assert [position_of(e) for e in found] == sorted(position_of(e) for e in found)
    return [event.id for event in found]


def positions(rng: random.Random, count: int) -> list[Position]:
    return sorted(
        {(rng.randint(0, 50), rng.choice("pq"), rng.randint(1, 99)) for _ in range(count)}
    )


def unlike_ids(found: list[Position]) -> list[Position]:
    """Return the positions without those that repeat an id."""
    return sorted({(publisher, seq): (t, publisher, seq) for t, publisher, seq in found}.values())


@settings(max_examples=200, deadline=None)
@given(RANDOMS, st.sampled_from([0.0, 0.3]), st.integers(0, 20), st.booleans())
def test_all_that_is_stored_comes_once_and_in_order(
    rng: random.Random, breaks: float, limit: int, encoded: bool
) -> None:
    everything = unlike_ids(positions(rng, rng.randint(0, 60)))
    some = [p for p in everything if rng.random() < 0.5]
    rest = [p for p in everything if p not in some or rng.random() < 0.3]
    world = World(rng, {"s": some, "r": rest}, breaks=breaks)
    expected = [(publisher, seq) for _, publisher, seq in everything]
    got = ask(world, Question("x", ("t",), limit=limit), encoded=encoded)
    assert got == (expected[:limit] if limit else expected)


@settings(max_examples=150, deadline=None)
@given(RANDOMS, st.sampled_from([0.0, 0.2]))
def test_with_a_handover_what_comes_in_meanwhile_comes_once_too(
    rng: random.Random, breaks: float
) -> None:
    """This includes what one storage has when it is asked, and the other one stores later."""
    everything = unlike_ids(positions(rng, rng.randint(0, 40)))
    holds: dict[str, list[Position]] = {"s": [], "r": []}
    late: dict[str, list[Position]] = {"s": [], "r": []}
    for position in everything:
        for name in rng.choice((["s"], ["r"], ["s", "r"])):
            rng.choice((holds, holds, late))[name].append(position)
    for came in late.values():
        rng.shuffle(came)
    world = World(rng, holds, late, breaks=breaks)
    got = ask(world, Question("x", ("t",), handover_s=1.0))
    assert sorted(got) == sorted((publisher, seq) for _, publisher, seq in everything)


@pytest.mark.parametrize("encoded", [False, True])
def test_what_is_lost_on_the_way_is_asked_for_again(encoded: bool) -> None:
    rng = random.Random(4)
    everything = [(n, "p", n) for n in range(1, 200)]
    world = World(rng, {"s": everything})
    got = ask(world, Question("x", ("t",)), loss=0.05, encoded=encoded)
    assert got == [("p", n) for n in range(1, 200)]
    assert sum(isinstance(message, Request) for message in world.said) > 1


def test_no_more_may_come_than_is_taken() -> None:
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    asking.start()
    (request,) = asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)),)))
    assert isinstance(request, Request)
    assert request.window == WINDOW
    bodies = tuple(body((n, "p", n)) for n in range(1, WINDOW + 1))
    asking.handle(Items(id=("c", 2), path=("c", "b", "s"), at=0, before=0, bodies=bodies))
    events, (more,) = asking.drain()
    assert len(events) == WINDOW
    assert more == More(id=("c", 2), path=("c", "b", "s"), at=1, count=WINDOW)


def test_bodies_are_read_as_far_as_they_are_complete() -> None:
    asking = BodyAsking(Question("x", ("t",)), Numbers("c"))
    asking.start()
    asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)), Part("r", 1, ("u",)))))
    first, second, third, fourth = (body((n, "p", n)) for n in (1, 2, 3, 4))
    there, here = ("c", "b", "r"), ("c", "b", "s")
    asking.handle(Items(id=("c", 2), path=here, at=0, before=0, bodies=(first, third)))
    assert asking.drain() == ([], [])  # the other one may have earlier ones
    asking.handle(Items(id=("c", 3), path=there, at=0, before=0, bodies=(second, third, fourth)))
    assert asking.drain() == ([first, second, third], [])
    asking.handle(End(id=("c", 2), path=here, at=0, before=2))
    assert asking.drain() == ([fourth], [])
    with pytest.raises(ConfigurationError, match="event by event"):
        BodyAsking(Question("x", ("t",), handover_s=1.0), Numbers("c"))


def test_before_it_has_asked_nothing_is_over() -> None:
    """A client that is not connected asks later."""
    asking = Asking(Question("x", ("t",), handover_s=1.0), Numbers("c"), Event)
    assert asking.drain() == ([], []) and not asking.over and not asking.hands_over


def test_what_nobody_stores_is_an_error_that_says_what_to_do() -> None:
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    asking.start()
    asking.handle(Found(number=1, parts=(), missing=("t",)))
    assert isinstance(asking.error, RefusedError)
    assert "nobody stores 't': start a storage" in str(asking.error)


def test_it_fails_after_some_attempts_without_an_event() -> None:
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    (find,) = asking.start()
    for _ in range(ATTEMPTS + 1):
        assert asking.error is None
        assert isinstance(find, Find)
        (request,) = asking.handle(Found(number=find.number, parts=(Part("s", 1, ("t",)),)))
        assert isinstance(request, Request)
        path = ("c", "b", "s")
        said = asking.handle(End(id=request.id, path=path, at=0, reason="storage 's' is gone"))
        find = said[0] if said else find
    assert isinstance(asking.error, ConnectionLostError)
    assert "storage 's' is gone" in str(asking.error)


@pytest.mark.parametrize(
    ("got", "handover_s", "after"),
    [
        (0, 0.0, None),
        (3, 0.0, (3, "p", 3)),
        (3, 1.0, (3, "p", 3)),
        (90, 1.0, (50, "", 0)),
    ],
)
def test_an_answer_that_breaks_off_is_asked_for_behind_what_came(
    got: int, handover_s: float, after: Position | None
) -> None:
    """This does not depend on how much of it was given already. With a handover, what is younger
    than a minute may come late, and is asked for again."""
    question = Question("x", ("t",), handover_s=handover_s)
    asking = Asking(question, Numbers("c"), Event, asked_us=60_000_050)
    asking.start()
    asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)),)))
    path, bodies = ("c", "b", "s"), tuple(body((n, "p", n)) for n in range(1, got + 1))
    asking.handle(Items(id=("c", 2), path=path, at=0, before=0, bodies=bodies))
    [find] = asking.handle(End(id=("c", 2), path=path, at=0, before=got, reason="gone"))
    assert isinstance(find, Find)
    [request] = asking.handle(Found(number=find.number, parts=(Part("r", 1, ("t",)),)))
    assert isinstance(request, Request)
    assert request.after == after


def test_it_tells_who_answered_and_over_which_path() -> None:
    """A storage that only said that it cannot answer is left out."""
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    asking.start()
    parts = tuple(Part(name, 1, ("t",)) for name in "rsv")
    asking.handle(Found(number=1, parts=parts))
    there, over, gone = (("c", "b", *rest) for rest in (("d", "r"), ("s",), ("v",)))
    first = body((1, "p", 1))
    asking.handle(Items(id=("c", 2), path=there, at=0, before=0, bodies=(first,)))
    asking.handle(End(id=("c", 3), path=over, at=0))
    asking.handle(End(id=("c", 4), path=gone, at=0, reason="gone"))
    assert asking.answered == {"r": there, "s": over}


def test_an_end_that_tells_of_more_than_came_is_none() -> None:
    """The last events were lost on the way, and nothing follows that would show the gap."""
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    asking.start()
    asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)),)))
    path, bodies = ("c", "b", "s"), (body((1, "p", 1)), body((2, "p", 2)))
    asking.handle(Items(id=("c", 2), path=path, at=0, before=0, bodies=bodies))
    cancel, find = asking.handle(End(id=("c", 2), path=path, at=0, before=3))
    assert isinstance(cancel, Cancel) and isinstance(find, Find)
    (request,) = asking.handle(Found(number=find.number, parts=(Part("s", 1, ("t",)),)))
    assert isinstance(request, Request) and request.after == (2, "p", 2)


@pytest.mark.parametrize("got", [0, 3])
def test_an_answer_that_hangs_is_asked_for_behind_what_came(got: int) -> None:
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    asking.start()
    asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)),)))
    bodies = tuple(body((n, "p", n)) for n in range(1, got + 1))
    asking.handle(Items(id=("c", 2), path=("c", "b", "s"), at=0, before=0, bodies=bodies))
    asking.drain()
    cancel, find = asking.hangs()
    assert isinstance(cancel, Cancel) and isinstance(find, Find)
    (request,) = asking.handle(Found(number=find.number, parts=(Part("r", 1, ("t",)),)))
    assert isinstance(request, Request)
    assert request.after == ((got, "p", got) if got else None)


@pytest.mark.parametrize("got", [0, 3])
def test_after_a_reconnect_it_goes_on_behind_what_was_given(got: int) -> None:
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    asking.start()
    asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)),)))
    bodies = tuple(body((n, "p", n)) for n in range(1, got + 1))
    asking.handle(Items(id=("c", 2), path=("c", "b", "s"), at=0, before=0, bodies=bodies))
    asking.drain()
    (find,) = asking.start()
    assert isinstance(find, Find)
    (request,) = asking.handle(Found(number=find.number, parts=(Part("s", 1, ("t",)),)))
    assert isinstance(request, Request)
    assert request.after == ((got, "p", got) if got else None)


def test_cancel_says_so_to_storages_that_are_at_it() -> None:
    asking = Asking(Question("x", ("t",)), Numbers("c"), Event)
    asking.start()
    asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)), Part("r", 1, ("u",)))))
    asking.handle(
        Items(id=("c", 2), path=("c", "b", "s"), at=0, before=0, bodies=(body((1, "p", 1)),))
    )
    assert asking.cancel() == [Cancel(id=("c", 2), path=("c", "b", "s"), at=1)]
    assert asking.over
