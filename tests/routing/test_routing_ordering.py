"""Order for clients that ask for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.messages import Deliver, Effect, Publish, SetTimer, Subscribe, Unsubscribe
from reefcast.model.publication import Publication
from reefcast.routing.ordering import TIMER, Ordering

WINDOW = 1.0


def publish(seq: int, publisher: str = "p") -> Publish:
    return Publish(Publication(publisher, seq, 0, {}))


def asked(*numbers: int, window: float = WINDOW) -> Ordering:
    ordering = Ordering()
    for number in numbers:
        ordering.changed(Subscribe(("c", number), "TRUE", order_s=window), "c")
    return ordering


class Run:
    """Arrivals and timers in their order, as a driver has them."""

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
    """Publication n leaves at second n / 10, and takes up to the window (or more: `late`)."""
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
    """Other clients, and subscriptions of the same client that did not ask."""
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
