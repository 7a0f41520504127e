"""What the broker demands of any router."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from reefcast.errors import ConfigurationError, InternalError
from reefcast.model.messages import LinkKind, LinkName, LinkUp, Publish
from reefcast.model.publication import Publication
from reefcast.overlay.topology import graph, path
from reefcast.routing.broker import Broker
from reefcast.routing.registry import ROUTINGS, check_overlay, routing_named
from reefcast.routing.router import Decision, Router
from reefcast.routing.tables import NextHops


class Shy(Router):
    """A router that decides about one publication too few."""

    name = "shy"

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        for _ in publications[1:]:
            yield Decision({}, [], 0)


class Talkative(Router):
    """A router that decides about one publication too many."""

    name = "talkative"

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        for _ in (*publications, None):
            yield Decision({}, [], 0)


@pytest.mark.parametrize("routing", ["Shy", "Talkative"])
def test_there_is_one_decision_for_each_publication(routing: str) -> None:
    broker = Broker("a", f"{__name__}:{routing}")
    broker.handle(LinkUp(LinkKind.BROKER), "b", 0.0)
    batch = [Publish(Publication("p", seq, 0, {})) for seq in (1, 2)]
    with pytest.raises(InternalError, match="must yield one decision for each publication"):
        broker.handle_publications(batch, "b", 0.0)


def test_a_routing_is_found_by_its_name_or_its_place() -> None:
    for name in ROUTINGS:
        assert routing_named(name).name == name
    assert routing_named(f"{__name__}:Shy") is Shy
    for wrong, why in (
        ("shy", "choose one of acyclic, flooding"),
        (f"{__name__}:Bold", "cannot be imported"),
        ("no_such_module:Shy", "cannot be imported"),
        (":", "cannot be imported"),
        (f"{__name__}:test_a_routing_is_found_by_its_name_or_its_place", "is not a subclass"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            routing_named(wrong)


def test_a_routing_says_which_overlays_it_is_for() -> None:
    ring = graph("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    check_overlay("acyclic", path("abc"), None)
    check_overlay("flooding", ring, None)
    with pytest.raises(ConfigurationError, match="needs a tree, but 3 links between 3 brokers"):
        check_overlay("acyclic", ring, None)
    with pytest.raises(ConfigurationError, match="needs a SCOT"):
        check_overlay("spr", ring, None)
