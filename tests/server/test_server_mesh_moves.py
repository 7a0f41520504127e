"""Primary links of live brokers that move while publications flow: nothing is lost, and nothing
comes twice; afterwards the brokers have the links, and the tables, of the tree as it is then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from live_brokers import Live
from live_mesh import TREE, Members, counted, mesh_network

from live_networks import until
from reefcast.model.messages import MoveLink
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.server.node import Node

NINE = "abcdefghi"
LEAVES = "acfi"
MOVES = ["ihe", "hgi", "abd", "bde", "cba", "ieh", "dea"]
"""Mover, old neighbour, new neighbour: leaves, and brokers with others behind them."""


def nine(**options: Any) -> NetworkFile:
    options = {"round_s": 0.2, "fanout": 6, "maxlinks": 10, "coordinator": "e", **options}
    return mesh_network(NINE, TREE, {}, **options)


def after(tree: Iterable[tuple[str, str]], *moves: str) -> set[frozenset[str]]:
    links = {frozenset(link) for link in tree}
    for mover, old, new in moves:
        links.remove(frozenset((mover, old)))
        links.add(frozenset((mover, new)))
    return links


def ask(nodes: dict[str, Node], move: str) -> None:
    mover, old, new = move
    nodes[mover].host.driver.wish(MoveLink(old, new))


def moved(nodes: dict[str, Node]) -> int:
    return counted(nodes.values(), "moved")


async def move(nodes: dict[str, Node], wish: str) -> None:
    """Asks, and waits until it is over."""
    before = moved(nodes)
    ask(nodes, wish)
    await until(lambda: moved(nodes) > before)


def links_told(node: Node) -> set[frozenset[str]]:
    """Its links of the overlay, as an operator is told them: up, and the LST has them, too."""
    status: Any = node.status(StatusRequest())
    rows = [status["lst"][link["link"]] | link for link in status["links"]]
    assert len(rows) == len(status["lst"])
    links = [row for row in rows if row["kind"] != "soft"]
    assert {row["state"] for row in links} == {"up"}
    return {frozenset((node.name, row["link"])) for row in links}


def is_tree_of(nodes: dict[str, Node], tree: set[frozenset[str]]) -> bool:
    """Whether shells, cores and what both tell have the links of this tree."""
    for name, node in nodes.items():
        mine = {link for link in tree if name in link}
        of_shell = {frozenset((name, link)) for link in node.links}
        of_core = {frozenset((name, link)) for link in node.host.core.router.brokers}
        grades = {link for link, queue in node.host.outputs.links.items() if queue.overlay}
        if not (mine == of_shell == of_core) or grades != set(node.links):
            return False
    return True


async def becomes(nodes: dict[str, Node], tree: set[frozenset[str]]) -> None:
    await until(lambda: is_tree_of(nodes, tree))
    for name, node in nodes.items():
        assert links_told(node) == {link for link in tree if name in link}


@pytest.mark.parametrize("strategy", ["S0", "S1", "S2"])
async def test_moves_one_after_the_other_under_load(live: Live, strategy: str):
    nodes = await live.up(nine(strategy=strategy))
    async with Members(nodes["a"].network, LEAVES) as members:
        traffic = asyncio.create_task(members.everybody_publishes(3000, pause_s=0.01))
        for number, wish in enumerate(MOVES):
            await move(nodes, wish)
            await becomes(nodes, after(TREE, *MOVES[: number + 1]))
        assert not traffic.done()
        await traffic
        await members.all_got_everything_once()
    assert not counted(nodes.values(), "failures")
    assert not counted(nodes.values(), "link_lost")
