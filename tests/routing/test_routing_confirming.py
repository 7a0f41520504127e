"""Confirmed publications where the routing cannot confirm; where it can, see
`test_simulation_torture`."""

from __future__ import annotations

from random import Random

import pytest

from reefcast.model.messages import LinkKind, LinkUp, Publish, Refused, Send
from reefcast.model.publication import Publication
from reefcast.routing.broker import Broker
from reefcast.routing.confirming import Confirming
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.router import RoutingOptions


@pytest.mark.parametrize(
    ("routing", "options"),
    [("gossip", None), ("mesh", MeshOptions(coordinator="a"))],
)
def test_a_routing_that_cannot_confirm_says_so(
    routing: str, options: RoutingOptions | None
) -> None:
    core = Broker("a", routing, options=options)
    core.handle(LinkUp(LinkKind.CLIENT), "p", 1.0)
    publish = Publish(Publication("p", 1, 0, {"x": 1}, ("t",)), confirm=1)
    effects = core.handle_publications([publish], "p", 1.0)
    (refused,) = [e.message for e in effects if isinstance(e, Send) and e.link == "p"]
    assert isinstance(refused, Refused)
    assert refused.publication == ("p", 1)
    assert "does not confirm publications" in refused.reason


def test_floods_are_sent_again_in_their_order_however_often() -> None:
    """What waited for a link stays behind what is sent over it again."""
    confirming = Confirming(False, Random(1), floods=True)
    for seq in range(1, 5):
        publish = Publish(Publication("p", seq, 0, {"n": 1}), confirm=1)
        _, copies, _ = confirming.came(publish, [("b", publish.header)], "p")
        last = copies
    waits = [copy for _, copy in last]
    for waiting in (waits, []):
        again = confirming.sent_again("b", [], waiting)
    assert [copy.publication.seq for copy in again] == [1, 2, 3, 4]
