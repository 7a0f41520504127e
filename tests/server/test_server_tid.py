"""Live brokers with TID routing: what they relearn when inner brokers are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest
from live_brokers import Live, make_scot
from raw_client import RawClient, expect

from live_networks import linked, until
from reefcast.network.sections import LimitsSection
from reefcast.routing.tid import TidRouter
from reefcast.server.node import Node

EACH = 20


async def all_get(
    publishers: Sequence[RawClient], subscribers: Sequence[RawClient], before: int
) -> None:
    """Let all publish, after `before` publications each; every subscriber must get each of them
    once."""
    for publisher in publishers:
        publisher.publish(EACH)
    for subscriber in subscribers:
        got: dict[str, list[int]] = {publisher.name: [] for publisher in publishers}
        while any(len(seqs) < EACH for seqs in got.values()):
            _, publication = await subscriber.delivery()
            if publication.seq > before:  # earlier ones may have been on their way
                got[publication.publisher].append(publication.seq)
        for seqs in got.values():
            expect(sorted(seqs), before + 1, before + EACH)


def has_lost(live: Live, victim: str, state: str) -> bool:
    """Return whether all its neighbours have the link to it in this state."""
    links = [node.links[victim] for node in live.nodes.values() if victim in node.links]
    return all(link.state == state for link in links)


def tids(node: Node) -> set[tuple[str, int]]:
    router = node.host.core.router
    assert isinstance(router, TidRouter)
    return {tree.id for tree in router.srt}


@pytest.mark.parametrize("routing", ["tid-s", "tid-d"])
@pytest.mark.parametrize("noticed", [False, True], ids=["unnoticed", "given_up"])
async def test_inner_brokers_that_were_killed_relearn(live: Live, routing: str, noticed: bool):
    """The brokers are killed one after the other, so that every tree loses a broker; `noticed`: the
    neighbours give it up before it is back."""
    network = make_scot("path:3", 2, routing=routing)
    if noticed:
        network.limits = LimitsSection(link_patience_s=0.05)
    nodes = await live.up(network)
    edges = ["b1-0", "b1-1", "b3-0", "b3-1"]
    publishers = [await live.client(nodes[name], f"p-{name}") for name in edges]
    subscribers = [await live.client(nodes[name], f"s-{name}") for name in edges]
    await asyncio.gather(*(publisher.advertise() for publisher in publishers))
    await asyncio.gather(*(subscriber.subscribe("n > 0") for subscriber in subscribers))
    before = tids(nodes["b1-0"])
    assert len(before) == len(publishers)
    for round, victim in enumerate(["b2-0", "b2-1"]):
        await live.crash(live.nodes[victim])
        await until(partial(has_lost, live, victim, "away" if noticed else "broken"))
        await live.node(network, victim)
        await linked(live.nodes.values())
        await all_get(publishers, subscribers, round * EACH)
        assert all(len(tids(node)) == len(publishers) for node in live.nodes.values())
    if not noticed:
        assert tids(nodes["b1-0"]) == before  # the very same trees
