"""Ordered delivery for clients that ask for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.messages import Deliver, Effect, Publish, SetTimer, Subscribe, Unsubscribe
from reefcast.model.publication import Publication
from reefcast.routing.ordering import KEPT, TIMER, Ordering

WINDOW = 1.0


def publish(seq: int, publisher: str = "p") -> Publish:
    return Publish(Publication(publisher, seq, 0, {}))


def asked(*numbers: int, window: float = WINDOW, kept: int = KEPT) -> Ordering:
    ordering = Ordering(kept=kept)
    for number in numbers:
        ordering.changed(Subscribe(("c", number), "TRUE", order_s=window), "c")
    return ordering


class Run:
    """Arrivals and timers in order of time, as a driver handles them."""

    def __init__(self, ordering: Ordering) -> None:
        self.ordering = ordering
        self.got: list[tuple[float, str, int]] = []
        self.timers: list[float] = []

    def do(self, effects: list[Effect], now: float) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                assert effect.key == f"{TIMER}c"
                self.timers.append(effect.at_s)
            else:
                assert isinstance(effect, Deliver)
                assert "c" in effect.to
                publication = effect.publish.publication
                self.got.append((now, publication.publisher, publication.seq))

    def until(self, now: float) -> None:
        while self.timers and min(self.timers) <= now:
            at = min(self.timers)
            self.timers.remove(at)
            self.do(self.ordering.due("c", at), at)

    def arrive(self, seq: int, now: float, publisher: str = "p") -> None:
        self.until(now)
        deliver = Deliver(publish(seq, publisher), {"c": [1]})
        self.do(self.ordering.arranged([deliver], now), now)

    def seqs(self, publisher: str = "p") -> list[int]:
        return [seq for _, who, seq in self.got if who == publisher]


ARRIVALS = st.lists(
    st.tuples(st.sampled_from("pq"), st.integers(1, 40), st.floats(0, 5)),
    unique_by=lambda arrival: arrival[:2],
)


@given(ARRIVALS, st.booleans())
def test_nothing_is_lost_or_doubled_and_in_order_if_no_later_than_the_window(
    arrivals: list[tuple[str, int, float]], late: bool
) -> None:
    """Publication n leaves at second n / 10, and takes up to the window (with `late`: more)."""
    most = 5.0 if late else WINDOW
    events = sorted((seq / 10 + delay * most / 5, who, seq) for who, seq, delay in arrivals)
    run = Run(asked(1))
    for now, who, seq in events:
        run.arrive(seq, now, who)
    run.until(100.0)
    assert not run.timers
    for who in "pq":
        expected = sorted(seq for publisher, seq, _ in arrivals if publisher == who)
        assert sorted(run.seqs(who)) == expected
        if not late:
            assert run.seqs(who) == expected
    if not late:
        assert run.ordering.late == 0
    came = {(who, seq): now for now, who, seq in events}
    assert all(0 <= now - came[who, seq] <= WINDOW + 1e-9 for now, who, seq in run.got)


def test_what_follows_right_upon_the_last_one_does_not_wait() -> None:
    run = Run(asked(1))
    for seq in (1, 2, 3):
        run.arrive(seq, seq / 10)
    assert run.got == [(0.1, "p", 1), (0.2, "p", 2), (0.3, "p", 3)]


def test_a_gap_waits_and_is_filled() -> None:
    run = Run(asked(1))
    run.arrive(1, 0.0)
    run.arrive(3, 0.1)
    run.arrive(4, 0.2)
    assert run.seqs() == [1]
    run.arrive(2, 0.3)
    assert run.got[1:] == [(0.3, "p", 2), (0.3, "p", 3), (0.3, "p", 4)]


def test_a_gap_that_stays_holds_for_the_window_only() -> None:
    run = Run(asked(1))
    run.arrive(5, 0.0)
    run.until(0.99)
    assert run.got == []
    run.until(1.0)
    assert run.got == [(1.0, "p", 5)]


def test_what_comes_too_late_is_handed_out_and_counted() -> None:
    run = Run(asked(1))
    run.arrive(5, 0.0)
    run.arrive(2, 1.5)
    assert run.seqs() == [5, 2]
    assert run.ordering.late == 1


def test_others_do_not_wait() -> None:
    """Others are other clients, and subscriptions of the same client that did not ask for order."""
    ordering = asked(1)
    deliver = Deliver(publish(7), {"c": [1], "d": [1]})
    (first, timer) = ordering.arranged([deliver], 0.0)
    assert first == Deliver(publish(7), {"d": [1]})
    assert isinstance(timer, SetTimer)
    other = Deliver(publish(8), {"c": [2]})
    assert ordering.arranged([other], 0.1) == [other]


def test_the_longest_window_of_those_that_match_counts() -> None:
    ordering = asked(1, window=0.5)
    ordering.changed(Subscribe(("c", 2), "TRUE", order_s=2.0), "c")
    (timer,) = ordering.arranged([Deliver(publish(3), {"c": [1, 2]})], 1.0)
    assert timer == SetTimer(f"{TIMER}c", 3.0)


def test_what_is_held_when_the_subscription_goes_is_handed_out_when_due() -> None:
    run = Run(asked(1))
    run.arrive(5, 0.0)
    run.ordering.changed(Unsubscribe(("c", 1)), "c")
    run.until(2.0)
    assert run.seqs() == [5]
    run.arrive(9, 3.0)
    assert run.got[-1] == (3.0, "p", 9)


def test_a_client_that_left_gets_nothing_more() -> None:
    run = Run(asked(1))
    run.arrive(5, 0.0)
    run.ordering.left("c")
    run.until(2.0)
    assert run.got == []


# --- publishers that come and go ------------------------------------------------------------------


class Twin:
    """The slow twin for one client: it forgets no publisher, and looks through everything that it
    holds."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.held: list[tuple[str, int, float]] = []
        self.got: list[tuple[float, str, int]] = []

    def until(self, now: float) -> None:
        while self.held and min(due for *_, due in self.held) <= now:
            at = min(due for *_, due in self.held)
            for publisher in dict.fromkeys(who for who, _, due in self.held if due <= at):
                self._hand_out(publisher, at)

    def arrive(self, seq: int, now: float, publisher: str) -> None:
        self.until(now)
        self.held.append((publisher, seq, now + WINDOW))
        self._hand_out(publisher, now)

    def _hand_out(self, publisher: str, now: float) -> None:
        mine = sorted((seq, due) for who, seq, due in self.held if who == publisher)
        latest = max((seq for seq, due in mine if due <= now), default=0)
        for seq, _ in mine:
            last = self.last.get(publisher, 0)
            if seq > latest and seq > last + 1:
                break
            self.last[publisher] = max(last, seq)
            self.got.append((now, publisher, seq))
            self.held = [h for h in self.held if h[:2] != (publisher, seq)]


OF_MANY = st.lists(
    st.tuples(st.sampled_from("pqrstuvw"), st.integers(1, 12), st.floats(0, 6)),
    unique_by=lambda arrival: arrival[:2],
    max_size=60,
)


@given(OF_MANY)
def test_it_does_as_its_twin(arrivals: list[tuple[str, int, float]]) -> None:
    run, twin = Run(asked(1)), Twin()
    for who, seq, now in sorted(arrivals, key=lambda arrival: arrival[2]):
        run.arrive(seq, now, who)
        twin.arrive(seq, now, who)
    run.until(100.0)
    twin.until(100.0)
    assert sorted(run.got) == sorted(twin.got)
    for who in "pqrstuvw":
        assert run.seqs(who) == [seq for _, publisher, seq in twin.got if publisher == who]


@given(OF_MANY, st.integers(1, 3))
def test_who_is_forgotten_waits_no_longer_and_keeps_its_order(
    arrivals: list[tuple[str, int, float]], kept: int
) -> None:
    """Publication n leaves at second n / 2, and takes up to the window."""
    run = Run(asked(1, kept=kept))
    events = sorted((seq / 2 + delay * WINDOW / 6, who, seq) for who, seq, delay in arrivals)
    (client,) = run.ordering._clients.values()
    most_waiting = 0
    for now, who, seq in events:
        run.arrive(seq, now, who)
        most_waiting = max(most_waiting, len(client.waiting))
        assert len(client.lines) <= kept + most_waiting + 1
    run.until(100.0)
    assert not client.waiting
    came = {(who, seq): now for now, who, seq in events}
    assert len(run.got) == len(came)
    assert all(0 <= now - came[who, seq] <= WINDOW + 1e-9 for now, who, seq in run.got)
    for who in "pqrstuvw":
        assert run.seqs(who) == sorted(run.seqs(who))


@pytest.mark.long
def test_publishers_that_come_and_go_leave_nothing() -> None:
    run = Run(asked(1))
    (client,) = run.ordering._clients.values()
    for number in range(20_000):
        run.arrive(1 + number % 2, number / 100, f"p{number}")
    assert len(client.lines) <= KEPT + len(client.waiting) + 1
    assert len(run.timers) <= 1
    run.until(10_000.0)
    assert not client.waiting and len(run.got) == 20_000
    run.ordering.changed(Unsubscribe(("c", 1)), "c")
    assert not run.ordering._clients


def test_one_that_is_heard_of_regularly_is_not_forgotten() -> None:
    run = Run(asked(1))
    for number in range(3 * KEPT):
        run.arrive(1 + number, number / 10, "p")
        run.arrive(1, number / 10, f"q{number}")
    assert run.seqs() == list(range(1, 3 * KEPT + 1))
    run.arrive(3 * KEPT + 1, 1000.0, "p")  # it follows, and does not wait
    assert run.got[-1] == (1000.0, "p", 3 * KEPT + 1)
