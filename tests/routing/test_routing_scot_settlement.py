"""What a client may rely on once it was told Settled; publications that wait; links that are down."""

from __future__ import annotations

import pytest
from routing_harness import Harness

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import path

BOTH = pytest.mark.parametrize("routing", ["spr", "idr"])


@BOTH
def test_a_subscription_settles_when_the_hosts_of_advertisements_have_set_its_bit(
    routing: str,
) -> None:
    network = Harness(scot(path("xyv"), 2), routing)
    network.connect("s", "x-0")
    network.connect("p", "v-1")
    network.advertise("p", "TRUE")
    network.run()
    network.slow = {("v-0", "v-1")}
    number = network.subscribe("s", "TRUE")
    network.run()
    assert ("s", number) not in network.settled
    assert network.brokers["v-0"].tables()["PRT"] == 1
    network.slow = set()
    network.run()
    assert ("s", number) in network.settled


@pytest.mark.parametrize("routing", ["acyclic", "spr", "idr"])
def test_what_comes_again_after_a_restart_is_settled_when_the_first_time_is(routing: str) -> None:
    """y restarts while v has told the publisher's broker h, which has not heard it yet; x and then y
    say the same again."""
    network = Harness(path("xyvh") if routing == "acyclic" else scot(path("xyv"), 2), routing)
    s, y, v, h = ("x", "y", "v", "h") if routing == "acyclic" else ("x-0", "y-0", "v-0", "v-1")
    network.connect("s", s)
    network.connect("p", h)
    network.advertise("p", "TRUE")
    network.run()
    network.slow = {(v, h)}
    number = network.subscribe("s", "TRUE")
    network.run()
    network.kill(y)
    network.start(y)
    network.run()
    assert ("s", number) not in network.settled
    network.slow = set()
    network.run()
    assert ("s", number) in network.settled
