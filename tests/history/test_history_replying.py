"""A storage's answer, under every order of credit, of what is found, and of what is stored
meanwhile."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

from draws import RANDOMS
from reefcast.errors import FilterSyntaxError
from reefcast.history.messages import End, Items, Request
from reefcast.history.replying import ITEMS, ITEMS_BYTES, Reply
from reefcast.model.messages import ServiceMessage
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication

PATH = ("c", "b1", "b2")


def request(**given: object) -> Request:
    asked: dict[str, object] = {"topics": ("t",), "filter": "topic = 't'", "window": 10, **given}
    return Request(id=("c", 1), storage="s", path=PATH, **asked)  # type: ignore[arg-type]  # by name


def publication(seq: int, topic: str = "t") -> Publication:
    return Publication("p", seq, seq, {"a": seq}, (topic,))


def body(seq: int) -> bytes:
    return encode_publication(publication(seq))


def came(reply: Reply, seq: int, topic: str = "t") -> list[ServiceMessage]:
    one = publication(seq, topic)
    return reply.came(one, encode_publication(one))


@settings(max_examples=300, deadline=None)
@given(RANDOMS)
def test_all_is_said_once_in_order_within_the_credit(rng: random.Random) -> None:
    window, handover_s = rng.choice((1, 3, 1000)), rng.choice((0.0, 2.0))
    reply = Reply(request(window=window, handover_s=handover_s), "s")
    stored = [body(seq) for seq in range(rng.choice((0, 1, 7, 600)))]
    later = list(range(1000, 1000 + rng.choice((0, 1, 7, 600))))
    said: list[ServiceMessage] = []
    credit, left, all_found, closed = window, list(stored), False, False
    late: list[bytes] = []
    while not reply.over:
        what = rng.choice(("found", "came", "grant", "close"))
        if what == "found" and not all_found and not reply.waits:
            some = rng.randint(1, 300)
            new = reply.found(left[:some]) if left else reply.all_found()
            all_found = not left
            del left[:some]
        elif what == "came" and later:
            seq = later.pop(0)
            late += [body(seq)] if handover_s and not closed else []
            new = came(reply, seq)
        elif what == "grant":
            more = rng.choice((1, 5, 500))
            credit += more
            new = reply.grant(more)
        elif what == "close" and handover_s:
            closed = True
            new = reply.close()
        else:
            continue
        said += new
        assert sum(len(m.bodies) for m in said if isinstance(m, Items)) <= credit
    *items, end = said
    assert isinstance(end, End)
    assert (end.before, end.reason, end.at) == (len(stored) + len(late), "", 2)
    in_order, as_it_came, before = [], [], 0
    for one in items:
        assert isinstance(one, Items)
        assert (one.path, one.at, one.before) == ((*PATH, "s"), 2, before)
        assert len(one.bodies) <= ITEMS
        before += len(one.bodies)
        (as_it_came if one.late else in_order).extend(one.bodies)
    assert in_order == stored
    assert as_it_came == late
    assert [one.late for one in items if isinstance(one, Items)].count(True) > 0 or not handover_s
    assert not reply.fail("it is over")
    assert came(reply, 5000) == []


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, [1, 2, 3, 4]),
        ({"since_us": 2}, [2, 3, 4]),
        ({"until_us": 3}, [1, 2]),
        ({"filter": "topic = 't' AND a <> 3"}, [1, 2, 4]),
        ({"topics": ("u",), "filter": "topic = 'u'"}, []),
    ],
)
def test_what_comes_in_must_be_wanted(asked: dict[str, object], wanted: list[int]) -> None:
    reply = Reply(request(handover_s=1.0, **asked), "s")
    (head,) = reply.all_found()
    assert isinstance(head, Items)
    assert (head.bodies, head.late) == ((), True)
    said = [message for seq in (1, 2, 3, 4) for message in came(reply, seq)]
    assert [one.bodies for one in said if isinstance(one, Items)] == [(body(s),) for s in wanted]


def test_a_topic_may_be_an_attribute() -> None:
    reply = Reply(request(handover_s=1.0), "s")
    reply.all_found()
    one = Publication("p", 1, 1, {"topic": "t"})
    (said,) = reply.came(one, encode_publication(one))
    assert isinstance(said, Items)


def test_large_ones_go_alone() -> None:
    reply = Reply(request(), "s")
    large = bytes(ITEMS_BYTES)
    said = reply.found([b"a", large, large, b"b"])
    assert [one.bodies for one in said if isinstance(one, Items)] == [
        (b"a",),
        (large,),
        (large,),
        (b"b",),
    ]


def test_a_failure_ends_it() -> None:
    reply = Reply(request(window=1), "s")
    reply.found([b"a", b"b"])
    (end,) = reply.fail("damaged")
    assert isinstance(end, End)
    assert (end.before, end.reason, reply.over) == (1, "damaged", True)
    assert reply.grant(5) == []


def test_a_filter_that_is_none() -> None:
    with pytest.raises(FilterSyntaxError):
        Reply(request(filter="topic ="), "s")
