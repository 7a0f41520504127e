"""What an advisory event does to the queue of a session is counted, and causes no other advisory
event."""

from __future__ import annotations

import pytest

from driving_sessions import Driver, publication, publish
from reefcast.model.keeping import SessionOptions
from reefcast.model.messages import ADVISOR_MARK
from reefcast.sessions.outcome import Told

LINK = "$s"
ADVISOR = f"{ADVISOR_MARK}a:1"
Seen = list[tuple[Told, bool]]


def begun(options: SessionOptions) -> Driver:
    driver = Driver()
    driver.home.create("", "s", LINK, options, 0.0)
    driver.home.attach("", "s", "c", 1, 0.0)
    driver.home.detach("c", 0.0)
    driver.settle()
    return driver


def owe(driver: Driver, publisher: str, *numbers: int, expires_s: float = 0.0) -> None:
    for number in numbers:
        more = {"expires_s": expires_s} if expires_s else {}
        made = publication(publisher, number, driver.now, **more)
        driver.home.owe(publish(made), {LINK: [1]}, driver.now)


def told(driver: Driver) -> Seen:
    """Return what is told now, and whether it is quiet."""
    return [
        (each.kind, each.quiet)
        for outcome in driver.settle()
        for each in outcome.advisories
        if each.kind not in (Told.ATTACHED, Told.DETACHED)
    ]


@pytest.mark.parametrize("policy", ["drop_oldest", "refuse", "block"])
@pytest.mark.parametrize(("publisher", "quiet"), [("p", False), (ADVISOR, True)])
def test_a_queue_that_is_full_of_it(policy: str, publisher: str, quiet: bool) -> None:
    """This also holds where an ordinary event makes room for an advisory one."""
    driver = begun(SessionOptions(max_events=2, policy=policy))  # type: ignore[arg-type]  # one of them
    owe(driver, "other", 1, 2)
    assert told(driver) == []
    owe(driver, publisher, 1, 2)
    dropped = [(Told.DROPPED, quiet)] if policy == "drop_oldest" else []
    assert told(driver) == [(Told.FULL, quiet), *dropped]


@pytest.mark.parametrize(("publisher", "quiet"), [("p", False), (ADVISOR, True)])
def test_what_is_too_old_and_what_is_handed_out_too_often(publisher: str, quiet: bool) -> None:
    driver = begun(SessionOptions(max_deliveries=1, max_dead_letters=1))
    owe(driver, publisher, 1, expires_s=1.0)
    owe(driver, publisher, 2, 3)
    assert told(driver) == []
    driver.now = 2.0
    driver.home.due(driver.now)
    assert told(driver) == [(Told.EXPIRED, quiet)]
    driver.home.attach("", "s", "d", 2, driver.now)
    driver.settle()
    driver.home.detach("d", driver.now)
    assert told(driver) == [(Told.DEAD_LETTER, quiet), (Told.DROPPED, quiet)]
    late = publication(publisher, 4, 0.0, expires_s=1.0)
    driver.home.owe(publish(late), {LINK: [1]}, driver.now)
    assert told(driver) == [(Told.EXPIRED, quiet)]


def test_an_event_that_an_advisory_event_drops_is_told_apart_from_others() -> None:
    driver = begun(SessionOptions(max_events=1))
    owe(driver, "p", 1, 2)
    owe(driver, ADVISOR, 1)
    owe(driver, "p", 3)
    assert told(driver) == [
        (Told.FULL, False),
        (Told.DROPPED, False),
        (Told.DROPPED, True),
    ]


def test_a_dead_letter_that_makes_room_for_an_advisory_event() -> None:
    driver = begun(SessionOptions(max_deliveries=1, max_dead_letters=1))
    seen: list[Seen] = []
    for publisher in ("p", ADVISOR, "p"):
        owe(driver, publisher, 1 + len(seen))
        driver.home.attach("", "s", publisher, 1, 0.0)
        driver.settle()
        driver.home.detach(publisher, 0.0)
        seen.append(told(driver))
    assert seen == [
        [(Told.DEAD_LETTER, False)],
        [(Told.DEAD_LETTER, True), (Told.DROPPED, True)],
        [(Told.DEAD_LETTER, False), (Told.DROPPED, False)],
    ]
