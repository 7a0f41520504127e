"""`Home` beside its slow twin, everything synced at once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from driving_sessions import Driver, publication, publish
from reefcast.model.keeping import SessionOptions
from session_twin import TwinSession

LINK = "$session:1"
FILTERS = ("", "x < 5", "x >= 3", "FALSE")

options_drawn = st.builds(
    SessionOptions,
    expiry_s=st.just(0.0),
    max_events=st.sampled_from((2, 5, 1000)),
    max_bytes=st.sampled_from((150, 1 << 30)),
    policy=st.sampled_from(("drop_oldest", "refuse", "block")),
    max_age_s=st.sampled_from((0.0, 7.0)),
    ack_wait_s=st.sampled_from((2.0, 30.0)),
    max_deliveries=st.sampled_from((0, 1, 2)),
    max_dead_letters=st.sampled_from((1, 1000)),
)
small = st.integers(0, 9)
steps_drawn = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), small, st.sampled_from((0, 0, 0, 100)), st.integers(0, 2)),
        st.tuples(st.just("attach"), st.integers(1, 3), st.sampled_from(FILTERS)),
        st.tuples(st.just("resize"), st.integers(0, 4)),
        st.tuples(st.just("detach")),
        st.tuples(st.just("ack"), small, st.booleans()),
        st.tuples(st.just("reject"), small, st.sampled_from((0.0, 0.0, 1.5))),
        st.tuples(st.just("wait"), st.sampled_from((0.5, 1.75, 5.0))),
        st.tuples(st.sampled_from(("drain", "revive", "again"))),
    ),
    min_size=15,
    max_size=80,
)


class Pair:
    """A session and its twin; every step is taken by both, and what they do is compared."""

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
        status = self.home.status("", "s")
        assert status.events == len(self.twin.items)
        assert status.bytes == sum(each.size for each in self.twin.items)
        assert status.out == sum(1 for each in self.twin.items if each.holder)
        assert status.dead_letters == len(self.twin.dead)
        assert (status.waiting, status.dropped) == (len(self.twin.waiting), self.twin.dropped)
        stored = self.driver.store.load()
        owed = stored.sessions[1].owed
        assert [at for at in sorted(owed) if not owed[at].dead] == [
            each.position for each in self.twin.items
        ]
        assert {each.event for each in owed.values()} == set(stored.events)

    # --- steps -----------------------------------------------------------------------------------

    def do_publish(self, x: int, size: int, kind: int) -> None:
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

    def do_attach(self, window: int, filter: str) -> None:
        name = f"c{len(self.names)}"
        self.names.append(name)
        self.home.attach("", "s", name, window, self.driver.now, filter=filter)
        self.twin.attach(name, window, filter)

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
        """Acknowledge one of the last that were handed out, in time or not, by whoever had it."""
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

    def do_drain(self) -> None:
        assert self.home.drain("", "s", self.driver.now) == self.twin.drain()

    def do_revive(self) -> None:
        assert self.home.move_dead_letters("", "s", self.driver.now) == self.twin.revive()


@settings(max_examples=100, deadline=None)
@given(options_drawn, st.sampled_from((0, 200, 1 << 20)), steps_drawn)
def test_a_session_does_what_its_twin_does(options, memory_bytes, steps):
    pair = Pair(options, memory_bytes)
    for step in steps:
        pair.step(step)
