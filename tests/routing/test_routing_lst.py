"""The LST: equation 3 of OctopiA on literal numbers, windows, and random runs against a twin that
sees every publication come and go."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_scenarios import one_link

from draws import RANDOMS
from reefcast.routing.links import Links, LinkStatus, Overload


class Queues:
    """Output queues that the test fills and empties."""

    def __init__(self, **lengths: int) -> None:
        self.lengths = Counter(lengths)

    def queue_len(self, link: str) -> int:
        return self.lengths[link]


class Lst:
    """Return an LST with tau 10 and windows of 50 ms, at time 0."""

    def __init__(self) -> None:
        self.queues = Queues()
        self.links = Links(self.queues, Overload())
        self.links.pass_time(0.0)

    def put(self, link: str, count: int) -> None:
        for _ in range(count):
            self.links.goes(link)
        self.queues.lengths[link] += count

    def leave(self, link: str, count: int) -> None:
        self.queues.lengths[link] -= count

    def at(self, now: float) -> LinkStatus:
        self.links.pass_time(now)
        return self.links.lst.status("b")


def test_the_papers_values_are_the_defaults() -> None:
    assert Overload() == Overload(tau=10.0, window_s=0.05)


@pytest.mark.parametrize(
    ("entered", "left", "load", "overloaded"),
    [
        (0, 0, 0.0, False),  # congestion-free: CE = 1, and nothing waits
        (10, 10, 0.0, False),  # all gone: nothing waits, whatever CE says
        (9, 4, 5 * 10 / 5, False),  # exactly tau is not overloaded
        (10, 5, 5 * 11 / 6, False),
        (10, 4, 6 * 11 / 5, True),
        (3, 0, 3 * 4.0, True),  # few wait, but none left
        (2, 0, 2 * 3.0, False),
        (99, 88, 11 * 100 / 89, True),
    ],
)
def test_equation_3(entered: int, left: int, load: float, overloaded: bool) -> None:
    lst = Lst()
    lst.put("b", entered)
    lst.leave("b", left)
    status = lst.at(0.05)
    assert status[:3] == (entered - left, entered, left)
    assert status.load == pytest.approx(load)
    assert status.overloaded is overloaded
    assert lst.links.lst.overloaded("b") is overloaded


@given(st.floats(0.01, 1e3), st.integers(0, 60), st.integers(0, 60))
def test_the_room_is_what_goes_before_a_link_is_overloaded(tau: float, put: int, left: int) -> None:
    lst = Lst()
    lst.links.lst.tau = tau
    lst.put("b", put)
    lst.leave("b", min(put, left))
    lst.at(0.05)
    room = lst.links.lst.room("b")
    lst.queues.lengths["b"] += room
    assert room == -1 or not lst.links.lst.overloaded("b")
    lst.queues.lengths["b"] += 1
    assert lst.links.lst.overloaded("b")
    assert lst.links.lst.room("b") == -1


def test_the_ratio_is_of_the_last_window_but_the_length_is_of_now() -> None:
    lst = Lst()
    lst.put("b", 4)
    assert lst.at(0.049).load == 4  # no window is over yet: CE is 1
    lst.leave("b", 1)
    assert lst.at(0.05).load == 3 * 5 / 2
    lst.put("b", 2)
    assert lst.at(0.06).load == 5 * 5 / 2
    lst.leave("b", 5)
    assert lst.at(0.07).load == 0
    assert lst.at(0.1) == LinkStatus(0, 2, 5.0, 0.0, False)


def test_what_drains_counts_as_less_congested() -> None:
    lst = Lst()
    lst.put("b", 30)
    lst.at(0.05)
    lst.leave("b", 10)
    assert lst.at(0.1)[:3] == (20, 0, 10.0)
    assert lst.at(0.1).load == pytest.approx(20 / 11)


def test_windows_without_input_share_what_left() -> None:
    """The LST is read after three and a half windows: 6 left in three windows, and nothing entered
    lately."""
    lst = Lst()
    lst.put("b", 10)
    lst.leave("b", 6)
    assert lst.at(0.175) == LinkStatus(4, 0, 2.0, 4 / 3, False)
    assert lst.at(0.199).load == 4 / 3
    assert lst.at(0.2) == LinkStatus(4, 0, 0.0, 4.0, False)


def test_a_link_that_began_anew_has_lost_its_queue_but_nothing_is_negative() -> None:
    lst = Lst()
    lst.put("b", 5)
    lst.at(0.05)
    lst.queues.lengths["b"] = 9  # more than was put there
    assert lst.at(0.1).queue_out == 0
    lst.queues.lengths["b"] = 0
    assert lst.at(0.16) == LinkStatus(0, 0, 9.0, 0.0, False)


def test_links_do_not_mix() -> None:
    lst = Lst()
    lst.put("b", 11)
    lst.put("c", 1)
    lst.at(0.05)
    assert lst.links.lst.overloaded("b")
    assert not lst.links.lst.overloaded("c")
    assert lst.links.lst.status("c").queue_in == 1
    assert lst.links.lst.status("d") == LinkStatus(0, 0, 0.0, 0.0, False)


def test_the_window_and_tau_are_those_that_were_given() -> None:
    queues = Queues(b=3)
    links = Links(queues, Overload(tau=2.0, window_s=1.0))
    links.pass_time(0.0)
    assert links.lst.overloaded("b")
    assert not Links(queues, Overload(tau=3.0)).lst.overloaded("b")
    links.goes("b")
    links.pass_time(0.9)
    assert links.lst.status("b").queue_in == 0
    links.pass_time(1.0)
    assert links.lst.status("b").queue_in == 1


@given(rng=RANDOMS)
def test_against_a_twin_that_sees_all(rng: random.Random) -> None:
    lst = Lst()
    now, window, entered, left = 0.0, 0, 0, 0
    expected = (0, 0.0)
    for _ in range(rng.randrange(60)):
        now += rng.choice([0.0, 0.01, 0.03, 0.05, 0.2])
        passed = int(now / 0.05) - window
        if passed:
            window += passed
            expected = (entered if passed == 1 else 0, left / passed)
            entered = left = 0
        status = lst.at(now)
        waiting = lst.queues.queue_len("b")
        assert (status.queue_len, status.queue_in, status.queue_out) == (waiting, *expected)
        assert status.queue_out >= 0
        assert status.load == pytest.approx(waiting * (1 + expected[0]) / (1 + expected[1]))
        assert status.overloaded is lst.links.lst.overloaded("b") is (status.load > 10)
        count = rng.choice([0, 1, 5])
        lst.put("b", count)
        entered += count
        count = rng.randint(0, lst.queues.queue_len("b"))
        lst.leave("b", count)
        left += count


def test_the_broker_shows_its_lst() -> None:
    network = one_link()
    network.lengths["a", "b"] = 3
    for _ in range(5):
        network.publish("p", x=1)
    network.run()
    load = 3 * (1 + 5) / (1 + 2)
    status = LinkStatus(3, queue_in=5, queue_out=2.0, load=load, overloaded=False)
    told = network.brokers["a"].status(0.05)
    rates = {"in_per_s": 0.0, "out_per_s": 0.0}  # no second is over
    place = {"kind": "", "cluster": None}
    assert told["lst"] == {"b": {**status._asdict(), "found_overloaded": 0, **rates, **place}}
    assert (told["tau"], told["region"], told["cluster"]) == (10.0, None, None)
