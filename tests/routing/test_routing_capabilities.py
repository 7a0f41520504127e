"""Features that only some routings have: which have them, and what the others answer."""

from __future__ import annotations

import inspect

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.filters import TRUE
from reefcast.model.messages import CloseLink, LinkKind, LinkUp, MoveLink, Publish
from reefcast.model.publication import Publication
from reefcast.routing import capabilities
from reefcast.routing.broker import Broker
from reefcast.routing.capabilities import (
    ActsLater,
    HandsOver,
    KeepsRows,
    MovesLinks,
    OpensLinks,
    Refuses,
    Relearns,
    SetsCourses,
    SettlesTogether,
    capability,
    moves_links,
)
from reefcast.routing.registry import ROUTINGS, routing_named
from reefcast.routing.router import Router

TREES = {Relearns, SettlesTogether, HandsOver, KeepsRows}
TIDS = {Relearns, SettlesTogether, HandsOver, ActsLater}
SCOTS = {Relearns, SettlesTogether, KeepsRows, SetsCourses}
CAN: dict[str, set[type]] = {
    "acyclic": TREES | {ActsLater, SetsCourses},
    "flooding": set(),
    "gossip": {Refuses, ActsLater, OpensLinks},
    "idr": SCOTS,
    "idr-mesh": SCOTS | {OpensLinks},
    "mesh": TREES | {OpensLinks, MovesLinks, SetsCourses},
    "spr": SCOTS,
    "spr-mesh": SCOTS | {OpensLinks},
    "tid-d": TIDS,
    "tid-s": TIDS | {SetsCourses},
}


@pytest.mark.parametrize("routing", ROUTINGS)
def test_a_routing_has_the_capabilities_that_it_derives_from(routing: str) -> None:
    kind = routing_named(routing)
    known = {
        cls
        for _, cls in inspect.getmembers(capabilities, inspect.isclass)
        if cls.__module__ == capabilities.__name__ and cls is not capabilities.SoftLink
    }
    assert {cls for cls in known if issubclass(kind, cls)} == CAN[routing]


def test_a_router_that_can_is_asked_itself() -> None:
    router = Broker("a", "acyclic").router
    assert capability(router, Relearns) is router
    assert capability(router, OpensLinks) is not router


def test_for_a_router_that_cannot_something_answers() -> None:
    router = Broker("a", "flooding").router
    publish = Publish(Publication("p", 1, 0, {}))
    assert capability(router, Refuses).objection(TRUE) is None
    later = capability(router, ActsLater)
    assert not later.unfinished and not later.afterwards()
    relearns = capability(router, Relearns)
    assert not relearns.repairing and not relearns.passes_on("b", "c")
    assert not (relearns.synced("b") or relearns.relearned() or relearns.all_synced())
    settling = capability(router, SettlesTogether)
    assert not settling.needs(TRUE, [("p", 1)]) and not settling.stand_ins(("s", 1))
    assert settling.known_as(("s", 1), "s") == ("s", 1) and settling.came_by(("p", 1)) is None
    hands_over = capability(router, HandsOver)
    assert hands_over.advertised(publish.publication, "b")
    assert not hands_over.is_astray(publish, "b") and not hands_over.reroute([publish])
    courses = capability(router, SetsCourses)
    assert not courses.sets_courses and courses.course(publish.header, "b") is None
    assert courses.chosen(["b", "c"], "d") == ["b", "c"] and courses.limits() == {}
    opens_links = capability(router, OpensLinks)
    assert not opens_links.soft_links and not opens_links.round_s and not opens_links.round()
    assert opens_links.soft_up("b") == [CloseLink("b")] and not opens_links.soft_down("b", [])
    assert not opens_links.awaits_link("b") and not opens_links.alongside("b")
    with pytest.raises(ConfigurationError, match="routing 'flooding' does not move links"):
        moves_links(router)


def test_a_broker_whose_routing_opens_no_links_closes_one_that_comes_up() -> None:
    broker = Broker("a", "flooding")
    assert broker.handle(LinkUp(LinkKind.SOFT), "b", 0.0) == [CloseLink("b")]
    with pytest.raises(ConfigurationError, match="does not move links while it runs"):
        broker.handle(MoveLink("b", "c"), "", 0.0)


def test_what_every_router_has_is_little() -> None:
    methods = inspect.getmembers(Router, inspect.isfunction)
    assert len([name for name, _ in methods if not name.startswith("_")]) <= 12
