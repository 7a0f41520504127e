"""Routes to storages, and requests along them."""

from __future__ import annotations

import random

import pytest
from history_network import Network
from hypothesis import given, settings
from msgspec.structs import replace

from draws import RANDOMS
from reefcast.errors import ProtocolError
from reefcast.history.messages import (
    Cancel,
    End,
    Find,
    Found,
    Items,
    More,
    Part,
    Request,
    Stored,
    Stores,
)
from reefcast.history.service import HistoryService
from reefcast.model.filters import parse_filter
from reefcast.model.grants import NOTHING, Grant
from reefcast.model.messages import Send
from reefcast.model.patterns import topic_pattern_covers, topic_patterns_meet
from reefcast.overlay.topology import Graph, graph, names, path, random_tree

TOPICS = ("t", "u", "a/b", "a/#", "a/+/c", "#")


def some_graph(rng: random.Random) -> Graph:
    """Return a random tree, or one with some more links."""
    brokers = names(rng.randint(1, 8))
    tree = random_tree(brokers, rng)
    edges = {(a, b) for a, others in tree.items() for b in others if a < b}
    if len(brokers) > 2:
        for _ in range(rng.choice((0, 0, 1, 4))):
            a, b = sorted(rng.sample(brokers, 2))
            edges.add((a, b))
    return graph(brokers, sorted(edges))


def change(network: Network, rng: random.Random) -> None:
    """Let something come, go, break or restart."""
    brokers = list(network.services)
    kinds = ("join", "leave", "store", "cut", "repair", "restart", "step", "demote", "promote")
    kind = rng.choice(kinds)
    storages = sorted(network.homes)
    if kind == "join" or not storages:
        name = f"s{rng.randint(0, 5)}"
        if name not in network.homes:
            network.join(name, rng.choice(brokers))
            network.store(name, rng.sample(TOPICS, rng.randint(0, 3)))
    elif kind == "leave":
        network.leave(rng.choice(storages))
    elif kind == "store":
        network.store(rng.choice(storages), rng.sample(TOPICS, rng.randint(0, 3)))
    elif kind == "cut" and network.up:
        network.disconnect(*sorted(rng.choice(sorted(network.up, key=sorted))))
    elif kind == "repair" and len(brokers) > 1:
        a, b = rng.sample(brokers, 2)
        if frozenset((a, b)) not in network.up | network.beside:
            network.connect(a, b)
    elif kind == "restart":
        network.restart(rng.choice(brokers), noticed=rng.random() < 0.5)
    elif kind == "demote" and network.up:
        network.change(*sorted(rng.choice(sorted(network.up, key=sorted))), overlay=False)
    elif kind == "promote" and network.beside:
        network.change(*sorted(rng.choice(sorted(network.beside, key=sorted))), overlay=True)
    for _ in range(rng.choice((0, 1, 5, 50))):
        network.step()


def changed_network(rng: random.Random) -> Network:
    network = Network(some_graph(rng), rng)
    for _ in range(rng.randint(1, 30)):
        change(network, rng)
    network.run()
    return network


@settings(max_examples=120, deadline=None)
@given(RANDOMS)
def test_once_quiet_every_broker_knows_what_it_can_reach_and_how_far_it_is(
    rng: random.Random,
) -> None:
    network = changed_network(rng)
    for broker in network.services:
        assert network.known(broker) == network.expected(broker)


@settings(max_examples=150, deadline=None)
@given(RANDOMS)
def test_who_catches_up_hears_of_all_that_have_some_of_it_but_not_of_itself(
    rng: random.Random,
) -> None:
    network = changed_network(rng)
    home = rng.choice(list(network.services))
    asking = rng.choice([*(name for name, broker in network.homes.items() if broker == home), "me"])
    if asking == "me":
        network.join("me", home)
    topic = rng.choice(TOPICS)
    network.got[asking].clear()
    network.say(asking, Find(number=7, topics=(topic,), every=True))
    network.run()
    (found,) = network.got[asking]
    assert isinstance(found, Found)
    expected = {
        (storage, topic if topic_pattern_covers(stored, topic) else stored)
        for stored, storage in network.expected(home)
        if storage != asking and topic_patterns_meet(stored, topic)
    }
    assert {(part.storage, about) for part in found.parts for about in part.topics} == expected
    assert found.missing == (() if expected else (topic,))


@settings(max_examples=150, deadline=None)
@given(RANDOMS)
def test_requests_reach_their_storage_by_a_shortest_way_and_answers_come_back(
    rng: random.Random,
) -> None:
    network = changed_network(rng)
    home = rng.choice(list(network.services))
    network.join("client", home)
    network.say("client", Find(number=7, topics=("t", "a/#")))
    network.run()
    (found,) = network.got["client"]
    assert isinstance(found, Found)
    assert found.number == 7
    reachable = network.expected(home)
    for place, part in enumerate(found.parts):
        assert part.distance == min(d for (_, s), d in reachable.items() if s == part.storage)
        asked = Request(id=("client", place), storage=part.storage, topics=part.topics, filter="x")
        network.say("client", asked)
        network.run()
        request = network.got[part.storage][-1]
        assert isinstance(request, Request)
        assert (request.id, request.topics) == (asked.id, part.topics)
        assert len(request.path) == part.distance + 2
        full = (*request.path, part.storage)
        network.say(
            part.storage, Items(id=asked.id, path=full, at=len(full) - 2, before=0, bodies=(b"x",))
        )
        network.say(part.storage, End(id=asked.id, path=full, at=len(full) - 2))
        network.run()
        items, end = network.got["client"][-2:]
        assert isinstance(items, Items)
        assert isinstance(end, End)
        assert (items.at, items.bodies, end.at, end.reason) == (0, (b"x",), 0, "")
        network.say("client", More(id=asked.id, path=full, at=1, count=5))
        network.run()
        more = network.got[part.storage][-1]
        assert isinstance(more, More)
        assert (more.at, more.count) == (len(full) - 1, 5)


@settings(max_examples=80, deadline=None)
@given(RANDOMS)
def test_whom_to_ask(rng: random.Random) -> None:
    """For a name: one of the nearest storages that have it. For a pattern: a storage that has all
    of it, or the nearest one of each topic that matches."""
    network = changed_network(rng)
    table = network.services[rng.choice(list(network.services))].table
    near = {key: route.distance for key, route in table.routes.items() if route.open}
    (parts, missing) = table.parts(["t"])
    having = {key: d for key, d in near.items() if key[0] in ("t", "#")}
    assert missing == ([] if having else ["t"])
    for part in parts:
        assert part.topics == ("t",)
        least = min(having.values())
        assert any(s == part.storage and d == least for (_, s), d in having.items())
    assert len(parts) == bool(having)
    (parts, missing) = table.parts(["a/+"])
    whole = [key for key in near if key[0] in ("a/#", "#")]
    asked = {topic for part in parts for topic in part.topics}
    if whole:
        assert asked == {"a/+"}
        assert len(parts) == 1
    else:
        assert asked == {key[0] for key in near if key[0] == "a/b"}
    assert missing == ([] if asked else ["a/+"])


def test_equally_near_ones_take_turns() -> None:
    network = Network(path(names(3)), random.Random(1))
    first, middle, last = network.services
    for name, home in (("s", first), ("r", last)):
        network.join(name, home)
        network.store(name, ["t"])
    network.run()
    asked = [network.services[middle].table.parts(["t"])[0][0].storage for _ in range(6)]
    assert sorted(asked) == ["r"] * 3 + ["s"] * 3


def served() -> tuple[Network, tuple[str, ...]]:
    """Return a network with a request of `c` at one end that is open at storage `s` at the other;
    and the full path."""
    network = Network(path(names(3)), random.Random(1))
    first, _, last = network.services
    network.join("s", last)
    network.store("s", ["t"])
    network.join("c", first)
    network.run()
    network.say("c", Request(id=("c", 1), storage="s", topics=("t",), filter="TRUE"))
    network.run()
    (request,) = network.got["s"]
    assert isinstance(request, Request)
    return network, (*request.path, "s")


def test_a_storage_that_goes_ends_its_answers() -> None:
    network, _ = served()
    network.leave("s")
    network.run()
    (end,) = network.got["c"]
    assert isinstance(end, End)
    assert end.reason == "storage 's' is gone"


@pytest.mark.parametrize("kind", [End, Cancel])
def test_what_is_over_is_not_ended_again(kind: type[End] | type[Cancel]) -> None:
    network, full = served()
    if kind is End:
        network.say("s", End(id=("c", 1), path=full, at=len(full) - 2))
    else:
        network.say("c", Cancel(id=("c", 1), path=full, at=1))
    network.run()
    before = list(network.got["c"])
    network.leave("s")
    network.run()
    assert network.got["c"] == before


def test_who_asks_for_more_over_a_broken_path_hears_that() -> None:
    network, full = served()
    network.disconnect(full[2], full[3])
    network.run()
    network.say("c", More(id=("c", 1), path=full, at=1, count=1))
    network.run()
    (end,) = network.got["c"]
    assert isinstance(end, End)
    assert "no path to" in end.reason


def test_a_request_to_nobody_is_ended() -> None:
    network = Network(path(names(2)), random.Random(1))
    network.join("c", next(iter(network.services)))
    network.say("c", Request(id=("c", 1), storage="s", topics=("t",), filter="TRUE"))
    network.run()
    (end,) = network.got["c"]
    assert isinstance(end, End)
    assert end.reason == "there is no path to storage 's' any more"
    assert end.at == 0


def test_an_old_number_does_not_open_a_way_again() -> None:
    """The news took a longer path, and comes after the withdrawal."""
    service = HistoryService("b")
    service.link_up("n", client=False)
    service.link_up("m", client=False)
    new = Stored(topic="t", storage="s", seq=2, distance=0)
    service.handle(new, "n", client=False)
    service.handle(Stored(topic="t", storage="s", seq=3, distance=64), "n", client=False)
    assert service.handle(new, "m", client=False) == []
    assert len(service.table) == 0


@pytest.mark.parametrize("lost", [False, True])
def test_what_a_neighbour_says_early_waits_for_its_link(lost: bool) -> None:
    """If the connection is lost before, the news is dropped: whoever comes then may not know it any
    more."""
    service = HistoryService("b")
    assert (
        service.handle(Stored(topic="t", storage="s", seq=2, distance=0), "n", client=False) == []
    )
    assert len(service.table) == 0
    if lost:
        service.link_down("n", client=False)
    service.link_up("n", client=False)
    assert len(service.table) == (not lost)


def test_its_own_broker_contradicts_that_a_storage_is_gone() -> None:
    service = HistoryService("b")
    service.link_up("n", client=False)
    service.link_up("s", client=True)
    service.handle(Stores(topics=("t",)), "s", client=True)
    (answer,) = service.handle(
        Stored(topic="t", storage="s", seq=3, distance=64), "n", client=False
    )
    assert answer == Send("n", Stored(topic="t", storage="s", seq=4, distance=0))


BAD = [
    (Stored(topic="t", storage="s", seq=2, distance=0), True),
    (Stores(topics=("t",)), False),
    (Find(number=1, topics=("t",)), False),
    (Found(number=1, parts=(Part("s", 1, ("t",)),)), False),
    (Request(id=("other", 1), storage="s", topics=("t",), filter="TRUE"), True),
    (Request(id=("c", 1), storage="s", topics=("t",), filter="TRUE", path=("c", "z")), False),
    (Items(id=("c", 1), path=("c", "b", "s"), at=0, before=0, bodies=()), False),
    (Items(id=("c", 1), path=("c", "z", "s"), at=1, before=0, bodies=()), False),
    (Items(id=("c", 1), path=("c", "b", "s"), at=1, before=0, bodies=()), True),
    (More(id=("c", 1), path=("c", "b", "s"), at=2, count=1), True),
]


@pytest.mark.parametrize(("message", "client"), BAD)
def test_what_must_not_come_changes_nothing(message: object, client: bool) -> None:
    service = HistoryService("b")
    service.link_up("x", client=client)
    with pytest.raises(ProtocolError):
        service.handle(message, "x", client=client)  # type: ignore[arg-type]  # some of each kind
    assert not service.table.routes


@pytest.mark.parametrize(
    "spoils", [Cancel(id=("c", 1), path=(), at=1), More(id=("c", 1), path=(), at=1, count=9)]
)
def test_nobody_else_ends_or_speeds_up_an_answer(spoils: Cancel | More) -> None:
    network, full = served()
    network.join("d", full[1])
    for at, start in ((1, ("d",)), (2, ("c", "d"))):
        with pytest.raises(ProtocolError, match="along a path that it is not on"):
            network.say("d", replace(spoils, path=(*start, *full[1:]), at=at))
    network.run()
    assert len(network.got["s"]) == 1


def restricted(subscribe: str) -> HistoryService:
    """Return the service of a broker with a storage, and a client that may see this."""
    service = HistoryService("b")
    service.link_up("s", client=True)
    service.handle(Stores(topics=("#",)), "s", client=True)
    service.link_up("c", client=True)
    service.granted("c", Grant("u", NOTHING, parse_filter(subscribe), frozenset()))
    return service


def test_a_number_serves_one_request_of_who_is_restricted() -> None:
    """Else what still comes for a request from before a grant was narrowed would pass as the answer
    to another one."""
    service = restricted("TRUE")
    asked = Request(id=("c", 7), storage="s", topics=("t",), filter="TRUE")
    [first] = service.handle(asked, "c", client=True)
    assert first.link == "s"
    service.granted("c", Grant("u", NOTHING, parse_filter("a = 1"), frozenset()))
    [again] = service.handle(asked, "c", client=True)
    assert isinstance(again.message, End) and "never used again" in again.message.reason
    [items] = service.handle(
        Items(id=("c", 7), path=("c", "b", "s"), at=1, before=0, bodies=(b"x",)), "s", client=True
    )
    assert isinstance(items.message, Cancel)
