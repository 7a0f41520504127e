"""The account must be able to fail: each kind of fault is put into a run and found."""

from __future__ import annotations

import asyncio

from torture.judge import Wanted
from torture.ledger import Account, Excuse, Ledger, Outcome, Published

ALL = Wanted("TRUE", lambda event: True)
EVEN = Wanted("n is even", lambda event: int(event["n"]) % 2 == 0)


class Run:
    """A run in which publisher p makes event n at n seconds, and it comes half a second later."""

    def __init__(self, *, keeps_order: bool = True) -> None:
        self.ledger = Ledger(keeps_order=keeps_order)

    def account(self, wanted: Wanted = ALL, settled_s: float = 0.5) -> Account:
        account = self.ledger.account("s", "b")
        account.ask(wanted, 0.0).settled_s = settled_s
        return account

    def publish(self, last: int, first: int = 1) -> None:
        for n in range(first, last + 1):
            self.ledger.published(Published(("p", n), {"n": n}, n, n + 0.001))

    def outcome(self, *excuses: Excuse) -> Outcome:
        return asyncio.run(self.ledger.outcome(excuses))


def came(*numbers: int) -> list[tuple[tuple[str, int], float]]:
    return [(("p", n), n + 0.5) for n in numbers]


def counts(outcome: Outcome) -> tuple[int, int, int, int, int]:
    lost = len(outcome.lost)
    return outcome.owed, lost, outcome.doubled, outcome.misdelivered, outcome.disordered


def test_a_run_without_fault() -> None:
    run = Run()
    run.publish(5)
    run.account().came += came(1, 2, 3, 4, 5)
    run.account(EVEN).came += came(2, 4)
    outcome = run.outcome()
    assert counts(outcome) == (7, 0, 0, 0, 0)
    assert outcome.fine and 0.49 < outcome.longest_s < 0.5


def test_a_lost_event_is_found() -> None:
    run = Run()
    run.publish(5)
    run.account().came += came(1, 2, 4, 5)
    outcome = run.outcome()
    assert counts(outcome) == (5, 1, 0, 0, 0)
    assert outcome.lost[0].id == ("p", 3) and not outcome.fine
    assert "lost were made 3.00 to 3.00 s after the begin" in outcome.words(0.001)


def test_a_doubled_event_is_found() -> None:
    run = Run()
    run.publish(3)
    run.account().came += came(1, 2, 2, 3)
    assert counts(run.outcome()) == (3, 0, 1, 0, 0)


def test_an_event_that_nobody_asked_for_is_found() -> None:
    run = Run()
    run.publish(3)
    run.account(EVEN).came += came(1, 2)
    assert counts(run.outcome()) == (1, 0, 0, 1, 0)


def test_an_event_that_nobody_made_is_found() -> None:
    run = Run()
    run.publish(2)
    run.account().came += came(1, 2, 3)
    assert counts(run.outcome()) == (2, 0, 0, 1, 0)


def test_an_event_out_of_order_is_found_where_order_is_kept() -> None:
    for keeps_order in (True, False):
        run = Run(keeps_order=keeps_order)
        run.publish(4)
        run.account().came += came(1, 3, 2, 4)
        assert counts(run.outcome()) == (4, 0, 0, 0, int(keeps_order))


def test_another_publisher_has_an_order_of_its_own() -> None:
    run = Run()
    run.publish(2)
    run.ledger.published(Published(("q", 1), {"n": 1}, 3.0, 3.0))
    run.account().came += [*came(1, 2), (("q", 1), 3.5)]
    assert run.outcome().fine


def test_what_was_made_before_a_filter_had_settled_is_grey() -> None:
    run = Run()
    run.publish(4)
    early, late = run.account(settled_s=2.5), run.account(settled_s=2.5)
    early.came += came(2, 3, 4)
    late.came += came(3, 4)
    assert counts(run.outcome()) == (4, 0, 0, 0, 0)


def test_what_comes_after_a_filter_has_ended_is_found() -> None:
    run = Run()
    run.publish(4)
    account = run.account()
    account.interests[0].end_asked_s, account.interests[0].ended_s = 2.2, 2.8
    account.came += came(1, 2, 4)
    assert counts(run.outcome())[3] == 1


def test_what_was_under_way_when_a_filter_ended_is_grey() -> None:
    run = Run()
    run.publish(4)
    account = run.account()
    account.interests[0].end_asked_s = 3.2
    account.came += came(1, 2)
    assert counts(run.outcome()) == (1, 0, 0, 0, 0)


def test_an_ended_subscription_was_owed_what_a_later_event_overtook() -> None:
    """Where order is kept, 3 came before the end, so that 2 should have come, too."""
    for keeps_order in (True, False):
        run = Run(keeps_order=keeps_order)
        run.publish(4)
        account = run.account()
        account.interests[0].end_asked_s = 3.9
        account.came += came(1, 3)
        assert len(run.outcome().lost) == int(keeps_order)


def test_a_replaced_filter_leaves_no_gap() -> None:
    """What both filters match is owed throughout; what one of them matches, while that filter
    stands."""
    run = Run()
    run.publish(6)
    account = run.account(EVEN)
    both = account.ask(ALL, 2.4)
    both.settled_s = account.interests[0].end_asked_s = 3.5
    account.interests[0].ended_s = 3.6
    account.came += came(2, 4, 5, 6)  # 3 was made before ALL had settled
    assert counts(run.outcome()) == (4, 0, 0, 0, 0)
    account.came.remove((("p", 2), 2.5))
    assert [each.id for each in run.outcome().lost] == [("p", 2)]


def test_a_lost_connection_ends_what_stood() -> None:
    run = Run(keeps_order=False)
    run.publish(6)
    account = run.account()
    assert account.broken(3.2) == [ALL]
    account.ask(ALL, 4.1).settled_s = 4.5
    account.came += came(1, 2, 5, 6)
    assert counts(run.outcome()) == (2, 0, 0, 0, 0)
    account.came.pop()
    assert len(run.outcome().lost) == 1


def test_an_excuse_covers_its_time_and_no_more_events_than_it_says() -> None:
    run = Run()
    run.publish(6)
    run.account().came += came(1, 6)
    run.account().came += came(1, 2, 6)
    outcome = run.outcome(Excuse(2.5, 4.5, most=1))
    assert sorted(each.id[1] for each in outcome.excused) == [3, 3]
    assert sorted(each.id[1] for each in outcome.lost) == [2, 4, 4, 5, 5]


def test_what_was_judged_is_not_judged_again_but_a_late_double_is_found() -> None:
    run = Run()
    run.publish(2)
    account = run.account()
    account.came += came(1)
    assert len(run.outcome().lost) == 1
    run.ledger.close()
    run.publish(4, first=3)
    account.came += came(3, 1, 4)
    assert counts(run.outcome()) == (2, 0, 1, 0, 0)


def test_a_late_event_of_a_part_that_was_judged_is_no_double() -> None:
    run = Run()
    run.publish(2)
    account = run.account()
    account.came += came(1)
    run.ledger.close()
    account.came += came(2)
    assert counts(run.outcome()) == (0, 0, 0, 0, 0)


def test_the_longest_since() -> None:
    run = Run()
    run.publish(3)
    run.account().came += [(("p", 1), 3.0), (("p", 2), 2.5)]
    assert round(run.ledger.longest_since(2.9), 1) == 2.0
    assert run.ledger.longest_since(9.0) == 0.0
