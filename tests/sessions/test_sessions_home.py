"""`Home` beside its slow twin; every write is synced at once."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driving_sessions import Driver, publication, publish
from reefcast.errors import LimitError, LocalError
from reefcast.model.keeping import SessionOptions
from reefcast.sessions import lines
from reefcast.sessions.home import Home
from session_twin import TwinSession

LINK = "$session:1"
FILTERS = ("", "x < 5", "x >= 3", "FALSE")

options_drawn = st.builds(
    SessionOptions,
    expiry_s=st.just(0.0),
    max_events=st.sampled_from((3, 1000, 1000)),
    max_bytes=st.sampled_from((150, 1 << 30, 1 << 30)),
    policy=st.sampled_from(("drop_oldest", "refuse", "block")),
    max_age_s=st.sampled_from((0.0, 7.0)),
    expires=st.sampled_from(("all", "fresh")),
    ack_wait_s=st.sampled_from((2.0, 30.0)),
    max_deliveries=st.sampled_from((0, 0, 1, 2)),
    max_dead_letters=st.sampled_from((1, 1000)),
)
small = st.integers(0, 9)
steps_drawn = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"),
            st.integers(1, 4),
            small,
            st.sampled_from((0, 0, 0, 100)),
            st.integers(0, 2),
        ),
        st.tuples(st.just("attach"), st.integers(1, 3), st.sampled_from(FILTERS), st.booleans()),
        st.tuples(st.just("resize"), st.integers(0, 4)),
        st.tuples(st.just("detach")),
        st.tuples(st.just("ack"), small, st.booleans()),
        st.tuples(st.just("reject"), small, st.sampled_from((0.0, 0.0, 1.5))),
        st.tuples(st.just("wait"), st.sampled_from((0.5, 1.75, 5.0))),
        st.tuples(st.sampled_from(("drain", "revive", "again"))),
        st.tuples(
            st.just("note"),
            st.dictionaries(
                st.sampled_from(("", "a", "ab", "b")), st.sampled_from((None, "", "x"))
            ),
        ),
    ),
    min_size=15,
    max_size=80,
)


class Pair:
    """A session and its twin: both take every step, and what they do is compared."""

    def __init__(self, options: SessionOptions, memory_bytes: int) -> None:
        self.driver = Driver(memory_bytes, dedup_s=10.0)
        self.twin = TwinSession(options, 10.0)
        self.home = self.driver.home
        self.home.create("", "s", LINK, options, 0.0)
        self.driver.settle()
        self.seq = 0
        self.published: list[object] = []
        self.names: list[str] = []
        self.handed: dict[int, str] = {}
        self.gone: list[str] = []

    def step(self, step: tuple[object, ...]) -> None:
        getattr(self, f"do_{step[0]}")(*step[1:])
        self.compare()

    def compare(self) -> None:
        outcomes = self.driver.settle()
        self.twin.admit()
        handed = [
            (each.consumer, each.position, each.id, each.tries, each.late)
            for outcome in outcomes
            for each in outcome.deliveries
        ]
        assert handed == self.twin.hand_out()
        assert [id for outcome in outcomes for id in outcome.taken] == self.twin.taken
        self.twin.taken.clear()
        self.handed |= {position: name for name, position, *_ in handed}
        assert [each.consumer for outcome in outcomes for each in outcome.ended] == self.gone
        self.gone.clear()
        status = self.home.status("", "s")
        assert status.events == len(self.twin.items)
        assert status.bytes == sum(each.size for each in self.twin.items)
        assert status.out == sum(1 for each in self.twin.items if each.holder)
        assert status.dead_letters == len(self.twin.dead)
        assert status.consumers.keys() == self.twin.takers.keys()
        assert (status.waiting, status.dropped) == (len(self.twin.waiting), self.twin.dropped)
        stored = self.driver.store.load()
        owed = stored.sessions[1].owed
        assert [at for at in sorted(owed) if not owed[at].dead] == [
            each.position for each in self.twin.items
        ]
        assert {each.event for each in owed.values()} == set(stored.events)
        assert self.home.notes("", "s") == stored.sessions[1].notes == self.twin.notes
        its = {key: text for key, text in self.twin.notes.items() if key[:1] == "a"}
        assert self.home.notes("", "s", "a") == its

    # --- steps -----------------------------------------------------------------------------------

    def do_publish(self, count: int, x: int, size: int, kind: int) -> None:
        for _ in range(count):
            self.publish_one(x, size, kind)

    def publish_one(self, x: int, size: int, kind: int) -> None:
        self.seq += 1
        more = {"expires_s": 3} if kind == 1 else {}
        made_s = self.twin.now - 20.0 if kind == 2 else self.twin.now
        made = publication("p", self.seq, made_s, payload=bytes(size), x=x, **more)
        self.publish(made)
        self.published.append(made)

    def do_again(self) -> None:
        if self.published:
            self.publish(self.published[-1])

    def publish(self, made: object) -> None:
        sent = publish(made)
        verdict = self.home.owe(sent, {LINK: [1], "$other": [1]}, self.driver.now)
        said = "refused" if verdict.refused else "blocked" if verdict.blocked else ""
        assert said == self.twin.owe(made, len(sent.body))

    def do_attach(self, window: int, filter: str, alone: bool) -> None:
        if len(self.twin.takers) == 2 and not alone:
            return
        name = f"c{len(self.names)}"
        self.names.append(name)
        self.gone += self.twin.takers if alone else ()
        self.home.attach("", "s", name, window, self.driver.now, filter=filter, alone=alone)
        self.twin.attach(name, window, filter, alone=alone)

    def consumer(self) -> str:
        return next(iter(self.twin.takers), "")

    def do_resize(self, window: int) -> None:
        if name := self.consumer():
            self.home.resize(name, window, self.driver.now)
            self.twin.takers[name].window = window

    def do_detach(self) -> None:
        if name := self.consumer():
            self.home.detach(name, self.driver.now)
            self.twin.detach(name)

    def do_ack(self, which: int, up_to: bool) -> None:
        """Acknowledge one of the last events handed out, in time or not, as any consumer that had
        it."""
        position = self.one_of(which)
        name = self.handed.get(position, "") if position else ""
        if name in self.twin.takers:
            self.home.acknowledge(name, position, self.driver.now, up_to=up_to)
            self.twin.acknowledge(name, position, up_to=up_to)

    def do_reject(self, which: int, delay_s: float) -> None:
        position = self.one_of(which)
        name = self.handed.get(position, "") if position else ""
        if name in self.twin.takers:
            self.home.reject(name, position, self.driver.now, delay_s=delay_s)
            self.twin.reject(name, position, delay_s)

    def one_of(self, which: int) -> int:
        last = sorted(self.handed)[-10:]
        return last[which % len(last)] if last else 0

    def do_wait(self, seconds: float) -> None:
        """Let time pass, and stop wherever something is due."""
        end_s = self.driver.now + seconds
        while (at_s := self.driver.take().timer_s) is not None and at_s <= end_s:
            earliest = min((t for t in self.twin.times() if t > self.twin.now), default=None)
            self.driver.now = self.twin.now = at_s
            self.home.due(at_s)
            self.twin.due()
            if earliest is not None and earliest <= at_s:
                self.compare()
        self.driver.now = self.twin.now = end_s
        self.home.due(end_s)
        self.twin.due()

    def do_note(self, notes: dict[str, str | None]) -> None:
        self.home.note("", "s", notes, self.driver.now)
        self.twin.note(notes)

    def do_drain(self) -> None:
        assert self.home.drain("", "s", self.driver.now) == self.twin.drain()

    def do_revive(self) -> None:
        assert self.home.move_dead_letters("", "s", self.driver.now) == self.twin.revive()


@pytest.fixture(autouse=True, scope="module")
def short_lines():
    """Let lines drop what is over when they have few entries, too."""
    before, lines._SLACK = lines._SLACK, 2
    yield
    lines._SLACK = before


@settings(max_examples=100, deadline=None)
@given(options_drawn, st.sampled_from((0, 200, 1 << 20)), steps_drawn)
def test_a_session_does_what_its_twin_does(options, memory_bytes, steps):
    pair = Pair(options, memory_bytes)
    for step in steps:
        pair.step(step)


def test_who_waits_for_room_is_not_overtaken():
    """A small event that would fit waits behind a large one."""
    options = SessionOptions(max_bytes=150, policy="block")
    pair = Pair(options, 0)
    for count, size in ((1, 100), (1, 100), (1, 0)):
        pair.step(("publish", count, 0, size, 0))
    assert len(pair.twin.waiting) == 2
    pair.step(("attach", 3, "", False))
    pair.step(("ack", 0, False))
    assert not pair.twin.waiting


def test_a_refusal_names_the_session_and_a_retry_is_taken():
    driver = Driver()
    options = SessionOptions(max_events=1, policy="refuse")
    driver.home.create("", "billing", LINK, options, 0.0)
    one, two = publish(publication("p", 1)), publish(publication("p", 2))
    assert not driver.home.owe(one, {LINK: [1]}, 0.0).refused
    assert "session 'billing' is full (1 event," in driver.home.owe(two, {LINK: [1]}, 0.0).refused
    driver.settle()
    driver.home.drain("", "billing", 0.0)
    assert not driver.home.owe(two, {LINK: [1]}, 0.0).refused


def test_a_session_without_consumers_expires():
    driver = Driver()
    driver.home.create("", "s", LINK, SessionOptions(expiry_s=10.0), 0.0)
    driver.home.attach("", "s", "c", 1, 0.0)
    driver.home.owe(publish(publication("p", 1)), {LINK: [1]}, 0.0)
    driver.home.note("", "s", {"key": "text"}, 0.0)
    driver.settle()
    driver.home.due(100.0)
    assert driver.home.sessions()
    driver.now = 100.0
    driver.home.detach("c", 100.0)
    driver.settle()
    assert driver.take().timer_s == pytest.approx(110.0, abs=0.01)
    driver.home.due(110.01)
    driver.settle()
    assert driver.home.expired() == [LINK]
    assert not driver.home.sessions()
    assert driver.store.load().sessions == {} == driver.store.load().events


def test_who_looks_gets_bodies_that_are_on_disk_only():
    driver = Driver(memory_bytes=0)
    driver.home.create("", "s", LINK, SessionOptions(), 0.0)
    sent = [publish(publication("p", seq)) for seq in range(1, 6)]
    for each in sent:
        driver.home.owe(each, {LINK: [1]}, 0.0)
    driver.settle()
    driver.home.read("", "s", 1, 3, "question", dead=False)
    (read,) = [read for outcome in driver.settle() for read in outcome.read]
    assert read.question == "question"
    assert [letter.body for letter in read.letters] == [each.body for each in sent[1:4]]


def test_what_was_never_handed_out_cannot_be_acknowledged():
    driver = Driver()
    driver.home.create("", "s", LINK, SessionOptions(), 0.0)
    driver.home.attach("", "s", "c", 1, 0.0)
    for seq in (1, 2):
        driver.home.owe(publish(publication("p", seq)), {LINK: [1]}, 0.0)
    driver.settle()
    for position in (0, 2, 99):
        with pytest.raises(LocalError, match="has"):
            driver.home.acknowledge("c", position, 0.0)
    with pytest.raises(LocalError, match="attached to no session"):
        driver.home.acknowledge("d", 1, 0.0)


def test_a_body_that_is_damaged_is_told_and_stops_nobody():
    driver = Driver(memory_bytes=0)
    driver.home.create("", "s", LINK, SessionOptions(), 0.0)
    for seq in (1, 2):
        driver.home.owe(publish(publication("p", seq)), {LINK: [1]}, 0.0)
    driver.settle()
    del driver.store._state.bodies[1]
    driver.home.attach("", "s", "c", 5, 0.0)
    outcomes = driver.settle()
    assert [each.id for outcome in outcomes for each in outcome.deliveries] == [("p", 2)]
    told = [each for outcome in outcomes for each in outcome.advisories]
    assert ("damaged", 1, (("p", 1),)) in [(each.kind, each.count, each.ids) for each in told]


def test_in_a_group_each_event_goes_to_the_consumer_with_the_most_room():
    driver = Driver()
    driver.home.create("", "s", LINK, SessionOptions(), 0.0)
    driver.home.attach("", "s", "small", 1, 0.0)
    driver.home.attach("", "s", "large", 3, 0.0)
    for seq in range(1, 6):
        driver.home.owe(publish(publication("p", seq)), {LINK: [1]}, 0.0)
    handed = [each.consumer for outcome in driver.settle() for each in outcome.deliveries]
    assert handed == ["large", "large", "small", "large"]


def test_sessions_that_do_nothing_take_little_memory():
    count = 500
    home = Home()
    tracemalloc.start()
    try:
        for number in range(count):
            home.create("", f"s{number}", f"$s{number}", SessionOptions(), 0.0)
        home.take(1)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / count < 4000


def test_timers_are_of_the_clock_that_calls_and_times_on_disk_are_utc():
    """The difference of two clocks is rounded: what is due must be due when its time comes."""
    epoch_s = 1_795_478_400.123_456_7
    home = Home(epoch_s=epoch_s)
    home.create("", "s", LINK, SessionOptions(expiry_s=0.1), 5.1)
    outcome = home.take(1)
    assert outcome.changes[0].record.created_s == pytest.approx(epoch_s + 5.1)
    assert outcome.timer_s == pytest.approx(5.2, abs=0.01)
    home.due(outcome.timer_s)
    assert home.expired() == [LINK]


def test_subscriptions_and_bytes_of_filters_of_a_session_are_limited():
    home = Home(most_subscriptions=2, most_filter_bytes=20)
    home.create("", "s", LINK, SessionOptions(), 0.0)
    first = home.subscribe("", "s", "x = 1", 0.0)
    with pytest.raises(LimitError, match=r"21 bytes.*max_filter_bytes"):
        home.subscribe("", "s", "y = 'äääää'", 0.0)
    home.subscribe("", "s", "x = 2", 0.0)
    with pytest.raises(LimitError, match="max_subscriptions"):
        home.subscribe("", "s", "x = 3", 0.0)
    home.unsubscribe("", "s", first, 0.0)
    home.subscribe("", "s", "x = 3", 0.0)
