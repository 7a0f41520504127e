"""Primary links of live brokers that move while publications flow: nothing is lost, and nothing
comes twice. Afterwards the brokers have the links and the tables of the tree as it is then."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from live_mesh import TREE, Members, counted, mesh_network
from raw_client import LARGE

import reefcast
from live_networks import linked, path_network, until, url_of
from reefcast.errors import ConfigurationError
from reefcast.model.messages import MoveLink, Unsubscribe
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.network.sections import LinkEntry, SessionsSection
from reefcast.overlay.topology import graph, hops_from
from reefcast.routing.mesh.moving import Moving
from reefcast.server.connection import Connection
from reefcast.server.node import Node

NINE = "abcdefghi"
LEAVES = "acfi"
MOVES = ["ihe", "hgi", "abd", "bde", "cba", "hie", "ieh", "deb"]
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
    """Ask for a move, and wait until it is over."""
    before = moved(nodes)
    ask(nodes, wish)
    await until(lambda: moved(nodes) > before)


def links_told(node: Node) -> set[frozenset[str]]:
    """Return the links of the overlay that an operator is told of; check that they are up, and in
    the LST."""
    status: Any = node.status(StatusRequest())
    rows = [status["lst"][link["link"]] | link for link in status["links"]]
    assert len(rows) == len(status["lst"])
    links = [row for row in rows if row["kind"] != "soft"]
    assert {row["state"] for row in links} == {"up"}
    return {frozenset((node.name, row["link"])) for row in links}


def is_tree_of(nodes: dict[str, Node], tree: set[frozenset[str]]) -> bool:
    """Return whether the links of shells and of cores are those of this tree, and up."""
    for name, node in nodes.items():
        mine = {link for link in tree if name in link}
        of_shell = {frozenset((name, link)) for link in node.links}
        of_core = {frozenset((name, link)) for link in node.host.core.router.brokers}
        up = all(link.state == "up" for link in node.links.values())
        if not (up and mine == of_shell == of_core):
            return False
    return True


async def becomes(nodes: dict[str, Node], tree: set[frozenset[str]]) -> None:
    await until(lambda: is_tree_of(nodes, tree))
    for name, node in nodes.items():
        assert links_told(node) == {link for link in tree if name in link}


@pytest.mark.parametrize(
    "strategy", ["S2", *(pytest.param(one, marks=pytest.mark.soak) for one in ("S0", "S1"))]
)
async def test_moves_one_after_the_other_under_load(live: Live, strategy: str):
    nodes = await live.up(nine(strategy=strategy))
    async with Members(nodes["a"].network, LEAVES) as members, members.publishing():
        for number, wish in enumerate(MOVES):
            await move(nodes, wish)
            await becomes(nodes, after(TREE, *MOVES[: number + 1]))
    assert not counted(nodes.values(), "failures")
    assert not counted(nodes.values(), "link_lost")


# --- wishes ---------------------------------------------------------------------------------------


def wishes(node: Node) -> list[tuple[object, ...]]:
    """Return the wishes as an operator gets them: from, to, state, reason."""
    rows: Any = node.status(StatusRequest())["rows"]
    return [tuple(row[1:]) for row in rows["moves"]["rows"]]


async def test_moves_that_are_asked_for_at_once_and_one_that_cannot_be(live: Live):
    """Moves are granted one after the other. The second move of i was possible when it was asked
    for."""
    nodes = await live.up(nine())
    async with Members(nodes["a"].network, LEAVES) as members, members.publishing():
        for wish in ("ihe", "abd", "ihg", "fge"):
            ask(nodes, wish)
        assert [w[2] for name in "iaf" for w in wishes(nodes[name])] == ["asked"] * 4
        await until(lambda: counted(nodes.values(), "moves_given_up") == 2)
        await becomes(nodes, after(TREE, "ihe", "abd"))
        await move(nodes, "ieg")
    told = [
        ("h", "e", "moved", ""),
        ("h", "g", "given up", "i has no primary link to h, but to e"),
        ("e", "g", "moved", ""),
    ]
    await until(lambda: wishes(nodes["i"]) == told)
    assert wishes(nodes["f"]) == [
        ("g", "e", "given up", "f has no primary link to g, but to e"),
    ]
    await becomes(nodes, after(TREE, "ihg", "abd"))
    assert not counted(nodes.values(), "failures")


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ("ihi", "i is no other broker within delta hops of i"),
        ("iha", "a is no other broker within delta hops of i"),
        ("bae", "e is not behind a: the network would fall into two parts"),
        ("bac", "b has a primary link to c already"),
    ],
)
async def test_why_a_move_is_given_up(live: Live, wish: str, why: str):
    nodes = await live.up(nine())
    ask(nodes, wish)
    await until(lambda: counted(nodes.values(), "moves_given_up"))
    assert wishes(nodes[wish[0]]) == [(wish[1], wish[2], "given up", why)]
    await move(nodes, "ihe")


async def test_without_a_coordinator_the_wish_is_refused(live: Live):
    nodes = await live.up(nine(coordinator=""))
    with pytest.raises(ConfigurationError, match="name a broker as coordinator"):
        ask(nodes, "ihe")
    assert wishes(nodes["i"]) == []
    assert not counted(nodes.values(), "failures")


async def test_other_routings_refuse_the_wish(live: Live):
    nodes = await live.up(path_network(3))
    with pytest.raises(ConfigurationError, match="routing 'acyclic' does not move links"):
        nodes["b1"].host.driver.wish(MoveLink("b2", "b3"))


# --- connections that break -----------------------------------------------------------------------


def abort(node: Node, link: str) -> None:
    """Break the connection; this end learns of it first."""
    end = node.links.get(link) or node.soft_links.links.get(link)
    if end is not None and end.connection is not None:
        end.connection.transport.abort()


def after_change(node: Node, change: str, link: str, do: Callable[[], None]) -> Callable[[], int]:
    """Run `do` the first time that the core of a broker says "promote" or "demote" (`change`) of
    the link; return a function that says how often the core has said it."""
    times = 0
    made = getattr(node.soft_links, change)

    def watched(name: str) -> None:
        nonlocal times
        made(name)
        if name == link:
            times += 1
            if times == 1:
                do()

    setattr(node.soft_links, change, watched)
    return lambda: times


LINE = [*pairwise("abcdef")]
TO_LATER, TO_EARLIER = ("c", "d", "f"), ("d", "c", "a")
"""The end whose name sorts first dials; it may be the mover or the other one."""


async def six(live: Live, **options: Any) -> dict[str, Node]:
    options = {"coordinator": "b", **options}
    return await live.up(mesh_network("abcdef", LINE, {}, **options))


@pytest.mark.parametrize("wish", [TO_LATER, TO_EARLIER], ids="".join)
@pytest.mark.parametrize("breaks_at", ["new", "mover"])
async def test_the_new_link_breaks_as_one_end_makes_it_a_primary_one(
    live: Live, wish: tuple[str, str, str], breaks_at: str
):
    """The far end promotes the link first. If the connection breaks then, the mover never learns of
    it, and asks again over another connection. After the mover has promoted it, too, the link is
    resumed."""
    nodes = await six(live)
    mover, _, new = wish
    here, there = (new, mover) if breaks_at == "new" else (mover, new)
    times = after_change(nodes[here], "promote", there, lambda: abort(nodes[here], there))
    async with Members(nodes["a"].network, "acf") as members, members.publishing():
        await move(nodes, "".join(wish))
        await becomes(nodes, after(LINE, "".join(wish)))
    assert times() == (2 if breaks_at == "new" else 1)
    assert nodes[here].links[there].reconnects == (0 if breaks_at == "new" else 1)
    assert not counted(nodes.values(), "failures")
    assert not counted(nodes.values(), "link_lost")


@pytest.mark.parametrize("wish", [TO_LATER, TO_EARLIER], ids="".join)
@pytest.mark.parametrize("breaks_at", ["old", "mover"])
async def test_the_old_link_breaks_as_one_end_gives_it_up(
    live: Live, wish: tuple[str, str, str], breaks_at: str
):
    nodes = await six(live)
    mover, old, _ = wish
    here, there = (old, mover) if breaks_at == "old" else (mover, old)
    times = after_change(nodes[here], "demote", there, lambda: abort(nodes[here], there))
    async with Members(nodes["a"].network, "acf") as members, members.publishing():
        await move(nodes, "".join(wish))
        await becomes(nodes, after(LINE, "".join(wish)))
    assert times() == 1
    await until(lambda: not any(end.host.core.router.soft_links for end in nodes.values()))
    assert not any(end.soft_links.links for end in nodes.values())
    assert not counted(nodes.values(), "failures")


@pytest.mark.parametrize("wish", [TO_LATER, TO_EARLIER], ids="".join)
async def test_who_dies_before_it_has_the_new_link_is_given_up_as_a_soft_one(
    live: Live, wish: tuple[str, str, str]
):
    """The far end, for which the link is a primary one already, waits as long as for any primary
    link, and then stops dialling."""
    nodes = await live.up(mesh_network("abcdef", LINE, {"link_patience_s": 1.0}, coordinator="b"))
    mover, _, new = wish
    there, crashes = nodes[new], []

    def crash() -> None:
        crashes.append(asyncio.create_task(live.crash(nodes[mover])))

    after_change(there, "promote", mover, crash)
    ask(nodes, "".join(wish))
    await until(lambda: mover in there.links and there.links[mover].state == "broken")
    assert mover in there.host.core.router.soft_links
    await until(lambda: mover not in there.links)
    assert mover not in there.host.core.router.soft_links
    assert mover not in there.host.outputs.links
    assert mover not in there.overlay_links._dials
    assert not there.host.journal.counters["failures"]
    await crashes[0]


async def test_what_is_under_way_on_the_old_link_when_it_is_given_up(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The old neighbour told of a client that left by the old tables, when the mover had new ones;
    this arrives when the link is a soft one at both ends."""
    caplog.set_level(logging.INFO)
    nodes = await six(live)
    mover, old = nodes["c"], nodes["d"]
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    client = await live.client(old, "s")
    await client.subscribe("n > 0")
    assert len(mover.host.core.router.prt) == 1
    connections: list[Connection] = []
    end = Moving._end

    def ends(moving: Moving) -> Any:
        if moving is mover.host.core.router.moving:
            connection = mover.links["d"].connection
            assert connection is not None
            connection.transport.pause_reading()
            connections.append(connection)
            old.host.driver.handle(Unsubscribe(("s", 1), 99), "s")
        return end(moving)

    monkeypatch.setattr(Moving, "_end", ends)
    await move(nodes, "cdf")
    await until(lambda: "d" in mover.soft_links.links and "c" in old.soft_links.links)
    assert old.soft_links.links["c"].queue.window.queue_len == 0
    assert not old.soft_links.links["c"].queue.window.all_acknowledged
    connections[0].transport.resume_reading()
    assert (await client.answer()).token == 99
    await becomes(nodes, after(LINE, "cdf"))
    await until(lambda: not (mover.soft_links.links or old.soft_links.links))
    assert "the soft link is closed" in caplog.text and " broke;" not in caplog.text
    assert [len(node.host.core.router.prt) for node in nodes.values()] == [0] * 6
    assert not counted(nodes.values(), "failures")


@pytest.mark.parametrize("wish", [TO_LATER, TO_EARLIER], ids="".join)
@pytest.mark.parametrize("which", [0, 1])
async def test_a_promoted_link_is_resumed_like_any_other(
    live: Live, wish: tuple[str, str, str], which: int
):
    nodes = await six(live, strategy="S0")
    mover, _, new = wish
    ends = ((mover, new), (new, mover))
    async with Members(nodes["a"].network, "af") as members:
        await move(nodes, "".join(wish))
        await becomes(nodes, after(LINE, "".join(wish)))
        assert [nodes[a].links[b].reconnects for a, b in ends] == [0, 0]
        async with members.publishing():
            for cuts in range(1, 6):
                abort(nodes[ends[which][0]], ends[which][1])
                await until(
                    lambda cuts=cuts: all(
                        nodes[a].links[b].state == "up" and nodes[a].links[b].reconnects == cuts
                        for a, b in ends
                    )
                )
    assert not counted(nodes.values(), "link_lost")
    assert not counted(nodes.values(), "failures")


@pytest.mark.parametrize("count", [3, pytest.param(len(MOVES), marks=pytest.mark.soak)])
async def test_soft_links_break_and_the_move_goes_on(live: Live, count: int):
    """The other soft links of the brokers break one after the other, at all times of the moves."""
    network = nine(fanout=9)
    nodes = await live.up(network)
    rng, cuts = random.Random(1), 0
    async with Members(network, LEAVES) as members, members.publishing():
        await until(lambda: sum(len(node.soft_links.links) for node in nodes.values()) > 4)
        for number, wish in enumerate(MOVES[:count]):
            await until(lambda: any(node.soft_links.links for node in nodes.values()))
            before = moved(nodes)
            ask(nodes, wish)
            for _ in range(20):
                ends = [(node, link) for node in nodes.values() for link in node.soft_links.links]
                if ends and moved(nodes) == before:
                    abort(*rng.choice(ends))
                    cuts += 1
                    await asyncio.sleep(rng.uniform(0, 0.004))
            await until(lambda number=number: is_tree_of(nodes, after(TREE, *MOVES[: number + 1])))
    assert cuts >= count
    assert not counted(nodes.values(), "failures")


async def test_a_new_neighbour_that_cannot_be_reached_at_first(
    live: Live, caplog: pytest.LogCaptureFixture
):
    """It is dialled again and again, but not in every turn of the loop."""
    caplog.set_level(logging.INFO)
    nodes = await six(live)
    there = nodes["c"].network.entry("f")
    address, there.listen = there.listen, "127.0.0.1:1"
    ask(nodes, "cdf")
    await until(lambda: caplog.text.count("no soft link to f") == 3)
    assert nodes["c"].soft_links._backoffs["f"].pause_s() > 0.1
    there.listen = address
    await until(lambda: moved(nodes))
    await becomes(nodes, after(LINE, "cdf"))
    assert not nodes["c"].soft_links._backoffs


async def test_a_broker_that_is_told_to_stop_in_the_middle_of_its_move(live: Live):
    nodes = await six(live)
    there = nodes["c"].network.entry("f")
    there.listen = "127.0.0.1:1"
    ask(nodes, "cdf")
    await until(lambda: "f" in nodes["c"].soft_links._backoffs)
    async with asyncio.timeout(10):
        await nodes["c"].stop()
    assert not moved(nodes)


async def test_a_move_around_a_broker_that_stops_is_given_up(live: Live):
    """Its neighbours hold back what is for brokers behind it, which would otherwise get it by other
    routes, or never. A subscriber that does not read keeps the broker from completing its stop."""
    nodes = await six(live)
    network, leaver = nodes["a"].network, nodes["c"]
    slow = await live.client(leaver, "slow")
    await slow.subscribe("large = 1")
    slow.writer.transport.pause_reading()
    async with Members(network, "abdef") as members:
        publisher = await live.client(nodes["a"], "p")
        queue = leaver.host.outputs.clients["slow"]
        for sent in range(100, 2001, 100):
            publisher.publish(100, large=1, n=0, text=LARGE)
            await publisher.until_acknowledged(sent)
        await until(lambda: not queue.empty and queue.queue_len > 0)
        stopping = asyncio.create_task(leaver.stop())
        await members.everybody_publishes(5)
        await until(lambda: nodes["d"].host.core.neighbours.holds_for(["c"]))
        ask(nodes, "dca")
        await members.everybody_publishes(20)
        await until(lambda: counted(nodes.values(), "moves_given_up"))
        slow.writer.transport.abort()
        await stopping
        await live.node(network, "c")
        await members.all_got_everything_once()
    assert not moved(nodes)


@pytest.mark.parametrize("wish", [TO_LATER, TO_EARLIER], ids="".join)
@pytest.mark.parametrize("victim", ["b", "e"])
async def test_a_broker_dies_when_the_new_link_is_a_primary_one(
    live: Live, wish: tuple[str, str, str], victim: str
):
    """The move is abandoned; the link is a soft one again, and the next move finds it."""
    nodes = await six(live)
    mover, _, new = wish
    crashes = []

    def crash() -> None:
        crashes.append(asyncio.create_task(live.crash(nodes[victim])))

    after_change(nodes[mover], "promote", new, crash)
    network = nodes["a"].network
    ask(nodes, "".join(wish))
    await until(lambda: crashes and crashes[0].done())
    await live.node(network, victim)
    await until(lambda: counted(nodes.values(), "moves_given_up"))
    await linked(nodes.values())
    await becomes(nodes, after(LINE))
    assert wishes(nodes[mover])[0][2:] == ("given up", "a broker that it affects failed, or stops")
    await move(nodes, "".join(wish))
    await becomes(nodes, after(LINE, "".join(wish)))
    async with Members(network, "acf") as members:
        await members.everybody_publishes(20)
        await members.all_got_everything_once()
    assert not counted(nodes.values(), "failures")


# --- afterwards -----------------------------------------------------------------------------------


async def test_brokers_restart_with_the_links_that_there_are_then(live: Live):
    """Each end of a moved link restarts in turn; the network file has the links as they are
    then."""
    nodes = await six(live, strategy="S0")
    network = nodes["a"].network
    await move(nodes, "cdf")
    await becomes(nodes, after(LINE, "cdf"))
    network.link = [
        LinkEntry(between=tuple(link)) for link in sorted(map(sorted, after(LINE, "cdf")))
    ]
    network.validate()
    for name in "cfd":
        await live.crash(nodes[name])
        await live.node(network, name)
        await linked(nodes.values())
        assert is_tree_of(nodes, after(LINE, "cdf"))
        async with Members(network, "ad") as members:
            await members.everybody_publishes(20)
            await members.all_got_everything_once()
    assert not counted(nodes.values(), "failures")


def forget(directory: Path, name: str) -> None:
    """Remove what a broker has on disk."""
    paths = [path for path in directory.rglob("*") if path.is_file()]
    its = [path for path in paths if name in (path.parent.name, path.name.split(".")[0])]
    assert its, paths
    for path in its:
        path.unlink()


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("mover", ["d", "a"])
async def test_brokers_with_disks_restart_with_their_links_by_the_old_file(
    live: Live, tmp_path: Path, mover: str, forgets: bool
):
    """Nobody has changed the network file; all have stopped at once."""
    old, new = ("c", "b") if mover == "d" else ("b", "c")
    network = mesh_network("abcd", [*pairwise("abcd")], {}, coordinator="b")
    network.sessions = SessionsSection(directory=str(tmp_path))
    nodes = dict(await live.up(network.validate()))
    tree = after([*pairwise("abcd")], mover + old + new)
    await move(nodes, mover + old + new)
    await becomes(nodes, tree)
    for node in nodes.values():
        assert node.host.keeper is not None
        await live.crash(node)
        await node.host.keeper.close()
    if forgets:
        forget(tmp_path, new)
    again = {name: await live.node(network, name) for name in "abcd"}
    await becomes(again, tree)
    client = await reefcast.connect(url_of(network, mover))
    await client.publish({"n": 1}, confirm=True)
    await client.close()
    assert not counted(again.values(), "failures")


async def test_a_mover_dials_its_new_neighbour_that_does_not_know_of_the_link_any_more(
    live: Live, tmp_path: Path
) -> None:
    """That one would dial by its name; it has started by the old file, and without its disk."""
    network = mesh_network("abcd", [*pairwise("abcd")], {"link_patience_s": 0.5}, coordinator="a")
    network.sessions = SessionsSection(directory=str(tmp_path))
    nodes = await live.up(network.validate())
    await move(nodes, "dcb")
    await becomes(nodes, after([*pairwise("abcd")], "dcb"))
    keeper = nodes["b"].host.keeper
    assert keeper is not None
    await live.crash(nodes["b"])
    await keeper.close()
    forget(tmp_path, "b")
    await live.node(network, "b")
    await becomes(nodes, after([*pairwise("abcd")], "dcb"))


async def test_a_mover_at_its_end_refuses_its_old_neighbour_that_begins_the_link_anew(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That one has given the link up, and has not heard yet that the move is carried out."""
    network = mesh_network("abcd", [*pairwise("abcd")], {}, coordinator="a")
    network.sessions = SessionsSection(directory=str(tmp_path))
    nodes = await live.up(network.validate())
    mover, old = nodes["d"], nodes["c"]
    unheard: list[Connection] = []
    end = Moving._end

    def ends(moving: Moving) -> Any:
        if moving is mover.host.core.router.moving:
            connection = old.links["b"].connection
            assert connection is not None
            connection.transport.pause_reading()
            unheard.append(connection)
            old.links["d"].give_up()
            abort(old, "d")
        return end(moving)

    monkeypatch.setattr(Moving, "_end", ends)
    ask(nodes, "dcb")
    await until(lambda: "broker d has no link to 'c' now" in caplog.text)
    assert mover.host.core.router.brokers == ["b"]
    assert old.host.core.router.brokers == ["b", "d"]
    unheard[0].transport.resume_reading()
    await becomes(nodes, after([*pairwise("abcd")], "dcb"))
    assert not counted(nodes.values(), "failures")


# --- all together ---------------------------------------------------------------------------------


def some_move(tree: set[frozenset[str]], rng: random.Random) -> str:
    """Return a random move that is possible: the new neighbour is among the brokers behind the old
    one."""
    links = sorted(tuple(sorted(link)) for link in tree)
    around = graph(NINE, links)
    while True:
        mover = rng.choice(NINE)
        old = rng.choice(around[mover])
        hops, beyond = hops_from(around, mover), hops_from(around, old)
        behind = [x for x in NINE if beyond[x] == hops[x] - 1 and 1 < hops[x] <= 4]
        if behind:
            return mover + old + rng.choice(behind)


async def moves_and_cuts(nodes: dict[str, Node], rng: random.Random, count: int) -> int:
    """Make random moves while connections of all links break; return how many broke."""
    tree = {frozenset(link) for link in TREE}
    cuts = 0
    for _ in range(count):
        wish = some_move(tree, rng)
        tree, before = after(tree, wish), moved(nodes)
        ask(nodes, wish)
        for _ in range(rng.randrange(20)):
            if moved(nodes) == before:
                node = rng.choice(list(nodes.values()))
                abort(node, rng.choice([*node.links, *node.soft_links.links]))
                cuts += 1
                await asyncio.sleep(rng.expovariate(300))
        await until(lambda before=before: moved(nodes) > before)
        await becomes(nodes, tree)
    return cuts


async def test_random_moves_while_connections_break(live: Live):
    nodes = await live.up(mixed(0))
    async with Members(nodes["a"].network, LEAVES) as members, members.publishing():
        assert await moves_and_cuts(nodes, random.Random(0), 5) > 12
    assert not counted(nodes.values(), "failures")
    assert not counted(nodes.values(), "link_lost")


def mixed(seed: int) -> NetworkFile:
    """Return a mesh in which each broker has a strategy of its own."""
    network, rng = nine(), random.Random(seed)
    for entry in network.broker:
        entry.routing["strategy"] = rng.choice(["S0", "S1", "S2", "SH"])
    return network.validate()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
async def test_many_random_moves_while_connections_break(live: Live, seed: int):
    nodes = await live.up(mixed(seed))
    async with Members(nodes["a"].network, LEAVES) as members, members.publishing(burst=10):
        await moves_and_cuts(nodes, random.Random(seed), 60)
    assert not counted(nodes.values(), "failures")
    assert not counted(nodes.values(), "link_lost")
