"""Brokers and clients of different versions: what they agree on, and that conversations of former
versions remain possible."""

from __future__ import annotations

from contextlib import AsyncExitStack

import conversations
import pytest
from live_brokers import Live

import reefcast
from live_networks import linked, path_network, url_of
from reefcast.model import wire
from reefcast.model.versions import Agreed, Offer

LATER = Offer(wire.OFFER.version + 1, wire.OFFER.oldest, ("something-new",))
MUCH_LATER = Offer(wire.OFFER.version + 2, wire.OFFER.version + 1)
RECORDED = range(wire.OFFER.oldest, wire.OFFER.version + 1)


@pytest.mark.parametrize("version", RECORDED)
@pytest.mark.parametrize("who", conversations.SAID)
async def test_a_recorded_conversation_can_still_be_held(
    live: Live, version: int, who: str
) -> None:
    async with AsyncExitStack() as stack:
        dial = await conversations.dial_for(who, live, stack)
        await conversations.hold(conversations.read(version)[who], dial)


async def test_a_network_is_upgraded_broker_by_broker(live: Live) -> None:
    """Each broker in turn becomes one of the next version; publications go from end to end all the
    time."""
    network = path_network(3)
    await live.up(network)
    first, *_, last = (url_of(network, name) for name in network.names)
    for number, name in enumerate(network.names, start=1):
        await live.nodes[name].stop()
        await live.node(network, name, LATER)
        await linked(live.nodes.values())
        async with reefcast.connect(last) as subscriber, reefcast.connect(first) as publisher:
            subscription = await subscriber.subscribe("x > 0")
            await publisher.publish(x=number)
            assert (await anext(subscription))["x"] == number
    agreed = {
        (node.name, other): link.connection.link.agreed
        for node in live.nodes.values()
        for other, link in node.links.items()
        if link.connection is not None
    }
    both = Agreed(LATER.version, frozenset(LATER.features))
    assert agreed == dict.fromkeys([("b1", "b2"), ("b2", "b1"), ("b2", "b3"), ("b3", "b2")], both)


async def test_neighbours_of_two_versions_speak_the_older_one(live: Live) -> None:
    network = path_network(2)
    await live.node(network, "b1")
    await live.node(network, "b2", LATER)
    await linked(live.nodes.values())
    for node in live.nodes.values():
        (link,) = node.links.values()
        assert link.connection is not None
        assert link.connection.link.agreed == Agreed(wire.OFFER.version, frozenset())


async def test_who_has_no_version_in_common_is_told_both(live: Live) -> None:
    network = path_network(1)
    await live.node(network, "b1", MUCH_LATER)
    with pytest.raises(reefcast.ReefcastError, match=r"speaks version 1 .* versions 2 to 3"):
        await reefcast.connect(url_of(network, "b1"))
