"""One broker's part in requests and answers, and what it tells of storages; the test plays all
others."""

from __future__ import annotations

import pytest

from reefcast.errors import ProtocolError
from reefcast.history.messages import (
    FARTHEST,
    MOST_HOPS,
    End,
    Find,
    Found,
    Items,
    More,
    OnPath,
    Part,
    Request,
    Stored,
    Stores,
)
from reefcast.history.service import HistoryService
from reefcast.model.messages import Send

ID = ("c", 1)


def service(brokers: str = "nm", clients: str = "cs", stores: str = "t") -> HistoryService:
    """Return broker `b`, with its neighbours and clients; `s` is a storage of these topics."""
    made = HistoryService("b")
    for link in brokers:
        made.link_up(link, client=False)
    for link in clients:
        made.link_up(link, client=True)
    if "s" in clients:
        made.handle(Stores(topics=tuple(stores)), "s", client=True)
    return made


def request(*path: str) -> Request:
    return Request(id=ID, storage="s", topics=("t",), filter="TRUE", path=path)


def told(topic: str, seq: int, distance: int = 0) -> Stored:
    return Stored(topic=topic, storage="s", seq=seq, distance=distance)


# --- what is said of storages ---------------------------------------------------------------------


def test_only_what_changes_is_told() -> None:
    here = service(stores="tu")
    assert here.handle(Stores(topics=("t", "u")), "s", client=True) == []
    assert here.handle(Stores(topics=("u", "v")), "s", client=True) == [
        *(Send("n", told("v", 2)), Send("m", told("v", 2))),
        *(Send("n", told("t", 3, FARTHEST)), Send("m", told("t", 3, FARTHEST))),
    ]


def test_news_is_told_to_all_others_and_old_news_to_nobody() -> None:
    here = service("nmo", "c")
    assert here.handle(told("t", 2, 4), "n", client=False) == [
        Send("m", told("t", 2, 5)),
        Send("o", told("t", 2, 5)),
    ]
    assert here.handle(told("t", 2, 4), "m", client=False) == []


def test_a_link_that_is_up_already_is_told_all_again_and_stays_one() -> None:
    here = service("n")
    assert here.link_up("n", client=False) == [Send("n", told("t", 2))]
    assert here.handle(Stores(topics=()), "s", client=True) == [Send("n", told("t", 3, FARTHEST))]


def test_a_neighbour_that_comes_up_anew_is_told_once_that_its_ways_are_lost() -> None:
    here = service("nm", "c")
    here.handle(told("t", 2), "n", client=False)
    lost = told("t", 3, FARTHEST)
    assert here.link_up("n", client=False) == [Send("m", lost), Send("n", lost)]


def test_a_storage_that_asks_is_sent_to_others() -> None:
    here = service("n", "s")
    here.handle(Stored(topic="t", storage="r", seq=2, distance=3), "n", client=False)
    for client, parts in (("s", [Part("r", 4, ("t",))]), ("c", [Part("s", 0, ("t",))])):
        here.link_up(client, client=True)
        [answer] = here.handle(Find(number=1, topics=("t",)), client, client=True)
        assert answer == Send(client, Found(number=1, parts=tuple(parts)))
    here.handle(Stores(topics=("t", "u")), "s", client=True)
    [answer] = here.handle(Find(number=2, topics=("u",)), "s", client=True)
    assert answer == Send("s", Found(number=2, parts=(), missing=("u",)))


# --- requests -------------------------------------------------------------------------------------


def test_a_request_that_was_here_before_went_in_a_circle() -> None:
    here = service()
    path = ("c", "n", "b", "m")
    [answer] = here.handle(request(*path), "m", client=False)
    reason = "it went in a circle"
    assert answer == Send("m", End(id=ID, path=(*path, "b"), at=3, reason=reason))
    assert here.link_down("s", client=True) == [
        Send(link, told("t", 3, FARTHEST)) for link in ("n", "m")
    ]


def test_a_path_is_as_long_as_messages_may_have_it_at_most() -> None:
    here = service()
    longest = ("c", *(f"x{number}" for number in range(MOST_HOPS - 4)), "n")
    [onward] = here.handle(request(*longest), "n", client=False)
    assert onward == Send("s", request(*longest, "b"))
    assert len((*longest, "b", "s")) == MOST_HOPS
    path = ("c", "y", *longest[1:])
    [answer] = here.handle(request(*path), "n", client=False)
    assert isinstance(answer.message, End)
    assert (answer.link, answer.message.at) == ("n", len(path) - 1)


def test_what_a_storage_had_open_is_ended_once_where_that_can_be_told() -> None:
    here = service()
    here.handle(request(), "c", client=True)
    [end] = [s for s in here.link_down("s", client=True) if isinstance(s.message, End)]
    assert end == Send("c", End(id=ID, path=("c", "b"), at=0, reason="storage 's' is gone"))
    here.link_up("s", client=True)
    assert not any(isinstance(s.message, End) for s in here.link_down("s", client=True))


def test_a_storage_that_is_away_is_not_asked_until_it_says_again_what_it_stores() -> None:
    here = service()
    here.handle(request(), "c", client=True)
    told_away = list(here.away("s"))
    assert Send("c", End(id=ID, path=("c", "b"), at=0, reason="storage 's' is gone")) in told_away
    assert {s.link for s in told_away if isinstance(s.message, Stored)} == {"n", "m"}
    [found] = here.handle(Find(number=1, topics=("t",)), "c", client=True)
    assert found == Send("c", Found(number=1, parts=(), missing=("t",)))
    here.handle(Stores(topics=("t",)), "s", client=True)
    [found] = here.handle(Find(number=2, topics=("t",)), "c", client=True)
    assert found.message.parts and not found.message.missing


def test_nobody_is_told_of_the_end_over_a_link_that_is_down() -> None:
    here = service()
    here.handle(request("c", "n"), "n", client=False)
    here.link_down("n", client=False)
    assert here.link_down("s", client=True) == [Send("m", told("t", 3, FARTHEST))]


def test_nothing_is_sent_to_a_client_that_is_gone() -> None:
    here = service()
    [onward] = here.handle(request(), "c", client=True)
    assert onward == Send("s", request("c", "b"))
    here.link_down("c", client=True)
    items = Items(id=ID, path=("c", "b", "s"), at=1, before=0, bodies=(b"x",))
    assert here.handle(items, "s", client=True) == []


OFF_PATH = [
    request(),  # from no client
    Items(id=ID, path=("n", "b"), at=1, before=0, bodies=()),  # as if the broker was the storage
    More(id=ID, path=("c", "n", "b"), at=2, count=1),
    Items(id=ID, path=("b", "n", "s"), at=0, before=0, bodies=()),  # or the client
    More(id=ID, path=("b", "n", "s"), at=0, count=1),
    Items(id=ID, path=("c", "z", "n"), at=1, before=0, bodies=()),  # for another broker
    More(id=ID, path=("n", "z", "s"), at=1, count=1),
]


@pytest.mark.parametrize("message", OFF_PATH)
def test_what_comes_from_off_the_path_is_the_neighbours_mistake(message: Request | OnPath) -> None:
    with pytest.raises(ProtocolError):
        service().handle(message, "n", client=False)


def test_the_name_of_a_storage_goes_with_the_news_of_it() -> None:
    """This includes the news that it is gone, and a neighbour that comes later; a program may
    choose another name."""
    here = HistoryService("b")
    for neighbour in "nm":
        here.link_up(neighbour, client=False)
    here.link_up("s", client=True)
    here.handle(Stores(topics=("t",), name="s1"), "s", client=True)
    assert list(map(here.table.describe, here.table)) == [("t", "s", 0, "s", "s1")]
    there = HistoryService("n")
    there.link_up("b", client=False)
    news = [
        *here.link_up("o", client=False),
        *here.handle(Stores(topics=(), name="s1"), "s", client=True),
        *here.handle(Stores(topics=("t",), name="s2"), "s", client=True),
    ]
    for send, name in zip(
        [send for send in news if send.link == "o"], ("s1", "s1", "s2"), strict=True
    ):
        assert isinstance(send.message, Stored)
        assert send.message.name == name
        there.handle(send.message, "b", client=False)
    assert list(map(there.table.describe, there.table)) == [("t", "s", 1, "b", "s2")]
