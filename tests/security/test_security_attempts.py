"""Who guesses is slowed down, and nobody else is locked out."""

from __future__ import annotations

import pytest

from reefcast.security import attempts
from reefcast.security.attempts import (
    ADDRESS_PAUSE_S,
    FORGET_S,
    FREE,
    LONGEST_WAIT_S,
    USER_PAUSE_S,
    Attempts,
)


def guess(made: Attempts, seconds: float, address: str, user: str, *, at_once: int = 1) -> int:
    """How many passwords somebody can try in this time who tries again as soon as he may."""
    now, tried = 0.0, 0
    while now < seconds:
        waits = [made.begin(address, user, now) for _ in range(at_once)]
        for wait_s, may in waits:
            if may:
                tried += 1
                made.failed(address, user, now + wait_s)
        now += max(0.01, min(wait_s for wait_s, _ in waits))
    return tried


def test_the_first_failures_cost_nothing_and_others_ever_more() -> None:
    made, waits = Attempts(), []
    for n in range(9):
        wait_s, may = made.begin("10.0.0.1", "anna", 100.0 * n)
        assert may
        waits.append(wait_s)
        made.failed("10.0.0.1", "anna", 100.0 * n)
    assert waits[: FREE + 1] == [0, 0, 0, 0.1]
    assert waits[FREE + 1 :] == [0.2, 0.4, 0.8, 1.0, 1.0]  # for the user alone, as time has passed
    assert made.begin("10.0.0.1", "otto", 800.0) == (pytest.approx(6.4), False)


@pytest.mark.parametrize("at_once", [1, 50])
def test_an_address_guesses_slowly_however_many_it_tries_at_once(at_once: int) -> None:
    made = Attempts()
    tried = guess(made, 600.0, "10.0.0.1", "anna", at_once=at_once)
    assert tried < at_once + 600 / ADDRESS_PAUSE_S + 20


def test_who_guesses_anothers_password_does_not_lock_that_user_out() -> None:
    made = Attempts()
    for n in range(1000):
        made.begin(f"10.0.{n // 250}.{n % 250}", "anna", 1.0)
        made.failed(f"10.0.{n // 250}.{n % 250}", "anna", 1.0)
    assert made.begin("192.168.0.1", "anna", 1.0) == (USER_PAUSE_S, True)
    made.succeeded("anna")
    assert made.begin("192.168.0.1", "anna", 1.0) == (0.0, True)


def test_a_password_of_ones_own_does_not_help_to_guess_those_of_others() -> None:
    made = Attempts()
    for _ in range(20):
        made.failed("10.0.0.1", "anna", 1.0)
        made.succeeded("mallory")
    assert made.begin("10.0.0.1", "anna", 1.0)[1] is False


def test_failures_are_forgotten() -> None:
    made = Attempts()
    for _ in range(20):
        made.failed("10.0.0.1", "anna", 1.0)
    assert made.begin("10.0.0.1", "anna", 2.0 + FORGET_S) == (0.0, True)
    assert made.remembered == 0


def test_ipv6_counts_by_network_and_what_is_no_address_by_itself() -> None:
    made = Attempts()
    for n in range(20):
        made.failed(f"2001:db8::{n:x}", "", 1.0)
    assert made.begin("2001:db8::ffff", "", 1.0)[0] > LONGEST_WAIT_S
    assert made.begin("2001:db8:0:1::1", "", 1.0) == (0.0, True)
    for _ in range(20):
        made.failed("10.0.0.1", "", 1.0)
    assert made.begin("::ffff:10.0.0.1", "", 1.0)[1] is False
    assert made.begin("", "", 1.0) == (0.0, True)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MOST", 100)
    made = Attempts()
    for n in range(1000):
        made.failed(f"10.0.{n // 250}.{n % 250}", f"user {n}", float(n))
    assert made.remembered == 200
