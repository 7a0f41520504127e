"""Network files of routing `gossip`: brokers without links, which meet through contacts."""

from __future__ import annotations

import pytest

from reefcast.errors import ConfigurationError
from reefcast.network.file import dump_network, read_network
from reefcast.routing.gossip.options import GossipOptions

GOOD = """
[network]
routing = "gossip"
[routing]
contacts = ["b1", "b2"]
fanout = 3
topics = {"news/sport" = ["b3"]}
[[broker]]
name = "b1"
listen = "127.0.0.1:7301"
[[broker]]
name = "b2"
listen = "127.0.0.1:7302"
[[broker]]
name = "b3"
listen = "127.0.0.1:7303"
routing = {round_s = 5}
"""


def test_brokers_without_links_are_a_network() -> None:
    network = read_network(GOOD)
    assert network.neighbours("b1") == []
    expected = GossipOptions(contacts=("b1", "b2"), fanout=3, topics={"news/sport": ("b3",)})
    assert network.routing_options("b1") == expected
    own = network.routing_options("b3")
    assert isinstance(own, GossipOptions)
    assert (own.round_s, own.fanout) == (5.0, 3)
    assert read_network(dump_network(network)) == network


LINK = '[[link]]\nbetween = ["b1", "b3"]\n'


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[[broker]]", f"{LINK}[[broker]]", "remove the links, as the one between b1 and b3, and"),
        ('contacts = ["b1", "b2"]', 'contacts = ["b1", "b9"]', "contact 'b9' is none of the brok"),
        ('["b3"]', '["b3", "b8"]', "contact 'b8' is none of the brokers, which are b1, b2, b3"),
        ("{round_s = 5}", '{contacts = ["b7"]}', "contact 'b7' is none of the brokers"),
        ("fanout = 3", "fanout = -1", r"\$.fanout"),
        ("fanout = 3", "ttl = 33", r"\$.ttl"),
        ("fanout = 3", 'rule = "kind"', 'rule = \'kind\' is none of "greedy", "witness"'),
        ("fanout = 3", "fan = 3", "has no key 'fan'; it has contacts, topics, fanout"),
    ],
)
def test_what_gossip_cannot_do_is_refused(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigurationError, match=says):
        read_network(GOOD.replace(old, new, 1))


def test_somebody_must_be_a_contact() -> None:
    nobody = GOOD.replace('contacts = ["b1", "b2"]', "").replace("topics", "# topics")
    with pytest.raises(ConfigurationError, match=r'as in contacts = \["b1"\] in \[routing\]'):
        read_network(nobody)
    some = GOOD.replace('contacts = ["b1", "b2"]', "")
    options = read_network(some).routing_options()
    assert isinstance(options, GossipOptions)
    assert options.contacts == ()
