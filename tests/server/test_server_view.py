"""A whole network as one process sees it: the overview, pages, and the paths of publications."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live

import reefcast
from asking_http import with_admin
from live_networks import PATIENCE_S, make_network, path_network, until, url_of
from reefcast.errors import ConnectionLostError, LocalError, RefusedError
from reefcast.model.looks import Page, Sightings
from reefcast.model.messages import ManageSession
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.network.sections import RoleEntry, SessionsSection
from reefcast.protocol.proofs import Credentials
from reefcast.security.credentials import Nothing, Password
from reefcast.server.looks import watching
from reefcast.server.looks.slices import in_order
from reefcast.server.metrics.top import MOST, TopSubscriptions
from reefcast.server.node import Node
from reefcast.server.view import Following, NetworkView, askers_of
from secured import PASSWORD, secured


@asynccontextmanager
async def view_of(
    network: NetworkFile, credentials: Credentials | None = None
) -> AsyncIterator[NetworkView]:
    view = NetworkView(network, askers_of(network, credentials or Nothing()))
    try:
        yield view
    finally:
        await view.close()


async def overview(view: NetworkView, when: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The first overview for which `when` holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not when(told := await view.overview()):  # noqa: ASYNC110 (it asks brokers)
            await asyncio.sleep(0.05)
        return told


def lines(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["broker"]: each for each in told["brokers"]}


# --- the overview --------------------------------------------------------------------------------


async def test_all_brokers_and_links(live: Live) -> None:
    network = path_network(3)
    nodes = await live.up(network)
    async with (
        view_of(network) as view,
        reefcast.connect(url_of(network, "b1"), name="c") as client,
    ):
        wanted = await client.subscribe("a > 1")
        await wanted.settled()
        told = await overview(view, lambda told: lines(told)["b1"].get("subscriptions"))
        assert {name: line["up"] for name, line in lines(told).items()} == dict.fromkeys(
            nodes, True
        )
        assert [(each["between"], each["up"]) for each in told["links"]] == [
            (["b1", "b2"], True),
            (["b2", "b3"], True),
        ]
        assert lines(told)["b1"]["clients"] == 1
        assert lines(told)["b1"]["subscriptions"] == 1
        await client.publish(a=2)
        told = await overview(view, lambda told: lines(told)["b1"]["counts"]["delivered"] == 1)
        assert lines(told)["b1"]["counts"]["published"] == 1


async def test_many_who_look_ask_once(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    network = path_network(1)
    await live.up(network)
    async with view_of(network) as view:
        first, *others = await asyncio.gather(*(view.overview() for _ in range(20)))
        assert all(other is first for other in others)


async def test_a_broker_that_dies_and_comes_back(live: Live) -> None:
    network = path_network(2)
    nodes = await live.up(network)
    async with view_of(network) as view:
        await overview(view, lambda told: lines(told)["b2"]["up"])
        await live.crash(nodes["b2"])
        told = await overview(view, lambda told: not lines(told)["b2"]["up"])
        assert "cannot be reached: connection refused" in lines(told)["b2"]["why"]
        assert told["links"] == [{**told["links"][0], "between": ["b1", "b2"], "up": False}]
        with pytest.raises(ConnectionLostError):
            await view.look("b2", Page("clients"))
        await live.node(network, "b2")
        told = await overview(view, lambda told: told["links"][0]["up"])
        assert lines(told)["b2"]["up"]


async def test_one_that_hangs_delays_nobody(live: Live) -> None:
    network = path_network(2)
    node = await live.node(network, "b1")
    silent = await asyncio.start_server(lambda r, w: None, *network.address("b2"))
    async with view_of(network) as view:
        loop = asyncio.get_running_loop()
        before = loop.time()
        told = await view.overview()
        assert loop.time() - before < 2
        assert lines(told)["b1"]["up"]
        told = await overview(view, lambda told: "not answer" in lines(told)["b2"]["why"])
        assert not lines(told)["b2"]["up"]
    silent.close()
    await live.crash(node)


# --- pages ---------------------------------------------------------------------------------------


async def test_pages_of_clients(live: Live) -> None:
    network = path_network(1)
    node = (await live.up(network))["b1"]
    clients = [await live.client(node, f"c{n:02}") for n in range(12)]
    await clients[7].subscribe("TRUE")
    node.clients.sessions["c07"].port.paused = True
    clients[0].publish(a=1)
    await until(lambda: node.clients.sessions["c07"].port.queue_len)
    async with view_of(network) as view:
        page = await view.look("b1", Page("clients", most=5))
        assert page["total"] == 12
        assert page["lines"][0][0] == "c07"
        names = []
        for skip in (0, 5, 10):
            asked = Page("clients", order="client", descending=False, skip=skip, most=5)
            names += [line[0] for line in (await view.look("b1", asked))["lines"]]
        assert names == [f"c{n:02}" for n in range(12)]
        found = await view.look("b1", Page("clients", search="c1"))
        assert {line[0] for line in found["lines"]} == {"c10", "c11"}
        with pytest.raises(RefusedError, match="cannot be sorted by 'colour'"):
            await view.look("b1", Page("clients", order="colour"))


async def test_a_status_names_those_who_do_not_keep_up_first(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.server.status.MOST_CLIENTS", 3)
    node = (await live.up(path_network(1)))["b1"]
    for number in range(6):
        await live.client(node, f"c{number}")
    node.clients.sessions["c4"].port.dropped = 7
    node.clients.sessions["c5"].slow_since_s = 0.0
    status: Any = node.status(StatusRequest())
    assert [each["client"] for each in status["clients"]] == ["c5", "c4", "c0"]
    assert status["clients_left_out"] == 3
    node.clients.sessions["c5"].slow_since_s = None


async def test_pages_of_tables_and_subscriptions(live: Live) -> None:
    network = with_admin(path_network(1))
    await live.up(network)
    async with (
        view_of(network) as view,
        reefcast.connect(url_of(network, "b1"), name="c") as client,
    ):
        often = await client.subscribe("a > 0")
        seldom = await client.subscribe("a > 90")
        await seldom.settled()
        for number in range(100):
            await client.publish(a=number)
            await asyncio.sleep(0.001)
        assert [event["a"] async for event in _some(often, 99)][-1] == 99
        page = await view.look("b1", Page("table", "PRT", most=1))
        assert page["total"] == 2
        assert page["columns"][1] == "filter"
        assert len(page["lines"]) == 1
        with pytest.raises(RefusedError, match="has no table 'XYZ'; it has SRT"):
            await view.look("b1", Page("table", "XYZ"))
        page = await view.look("b1", Page("subscriptions"))
        shown = {line[2]: line[3] for line in page["lines"]}
        assert shown["a > 0"] > shown.get("a > 90", 0)


async def _some(subscription: Any, count: int) -> AsyncIterator[Any]:
    for _ in range(count):
        yield await anext(subscription)


async def test_durable_sessions_are_shown_and_managed(live: Live, tmp_path: Path) -> None:
    network = path_network(1)
    network.sessions = SessionsSection(directory=str(tmp_path))
    await live.up(network)
    async with (
        view_of(network) as view,
        reefcast.connect(url_of(network, "b1"), name="c") as client,
    ):
        session = await client.session("billing")
        await session.subscribe("a > 0")
        for number in range(3):
            await client.publish(a=number, confirm=True)
        page = await view.look("b1", Page("sessions"))
        (line,) = page["lines"]
        told = dict(zip(page["columns"], line, strict=True))
        assert (told["session"], told["events"], told["subscriptions"]) == ("billing", 2, ["a > 0"])
        await view.wish("b1", ManageSession(told["owner"], "billing", "drain"))
        assert (await session.status()).events == 0
        with pytest.raises(RefusedError, match="no session 'other'"):
            await view.wish("b1", ManageSession(told["owner"], "other", "close"))
        await view.wish("b1", ManageSession(told["owner"], "billing", "close"))
        assert (await view.look("b1", Page("sessions")))["total"] == 0
        assert await client.sessions() == []


async def test_sorted_in_slices_as_sorted_at_once() -> None:
    import random

    rng = random.Random(1)
    many = [(rng.randrange(100), number) for number in range(3000)]
    for descending in (False, True):
        wanted = sorted(many, key=lambda each: each[0], reverse=descending)
        for skip, most in ((0, 10), (499, 3), (1200, 700), (2995, 50), (4000, 5)):
            found = await in_order(many, lambda each: each[0], skip, most, descending=descending)
            assert [each[0] for each in found] == [each[0] for each in wanted[skip:][:most]]


def test_what_gets_most_stays_among_many() -> None:
    top = TopSubscriptions()
    for number in range(3 * MOST):
        top.see_local({f"c{number}": [1], "busy": [7]}, 1.0)
        top.tick(number / 100)
    (first, share), *others = top.shares()
    assert first == ("busy", 7)
    assert 0.4 < share < 0.6
    assert len(others) <= MOST


# --- following -----------------------------------------------------------------------------------


async def paths(following: Following, when: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """All paths by their ids, as soon as `when` holds for them."""
    found: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE_S):
        while True:
            update = await following.update()
            found |= {path["id"]: path for path in update.paths}
            if when(found):
                return found
            await asyncio.sleep(0.02)


async def test_the_way_of_a_publication(live: Live) -> None:
    network = path_network(3)
    nodes = await live.up(network)
    async with (
        view_of(network) as view,
        reefcast.connect(url_of(network, "b3"), name="reader") as reader,
        reefcast.connect(url_of(network, "b1"), name="writer") as writer,
    ):
        await writer.advertise("symbol = 'IBM' OR symbol = 'SUN'")
        wanted = await reader.subscribe("symbol = 'IBM' AND price > 10")
        await wanted.settled()
        following = Following(view, "symbol = 'IBM'")
        await following.update()
        assert all(node.host.watching.active for node in nodes.values())
        for price in (5, 20):
            await writer.publish(symbol="IBM", price=price)
        await writer.publish(symbol="SUN", price=20)
        found = await paths(
            following, lambda found: [len(path["sightings"]) for path in found.values()] == [1, 3]
        )
        low, high = found.values()
        assert json.loads(low["attributes"]) == {"symbol": "IBM", "price": 5}
        assert low["sightings"][0]["outcome"] == "unwanted"
        first, middle, last = high["sightings"]
        assert [each["broker"] for each in (first, middle, last)] == ["b1", "b2", "b3"]
        assert (first["by"], middle["by"], last["by"]) == (writer.id, "b1", "b2")
        assert [hop["to"] for hop in first["to"]] == ["b2"]
        assert first["outcome"] == middle["outcome"] == "forwarded"
        assert (last["outcome"], last["clients"], last["hops"]) == ("delivered", [reader.id], 2)
        assert high["published_us"] <= first["at_us"] <= middle["at_us"] <= last["at_us"]


async def test_what_is_refused_is_seen(live: Live) -> None:
    network = path_network(1)
    node = (await live.up(network))["b1"]
    client = await live.client(node, "c")
    await client.advertise("a > 10")
    async with view_of(network) as view:
        following = Following(view, "")
        await following.update()
        client.publish(a=1)
        (path,) = (await paths(following, len)).values()
        (seen,) = path["sightings"]
        assert seen["outcome"] == "refused"
        assert "outside what this client advertised" in seen["why"]


async def test_a_broker_that_is_silent_for_a_moment_tells_nothing_twice(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is anything lost; that it is silent is said, also of one that is down."""
    network = path_network(2)
    nodes = await live.up(network)
    async with view_of(network) as view, reefcast.connect(url_of(network, "b1")) as writer:
        following = Following(view, "")
        await overview(view, lambda told: lines(told)["b1"]["up"])
        await following.update()
        await writer.publish(a=1)
        await paths(following, lambda found: _outcomes(found)[-1:] == ["unwanted"])

        async def fails(asked: object) -> dict[str, Any]:
            raise ConnectionLostError("for a moment")

        with monkeypatch.context() as failing:
            failing.setattr(view.asker("b1"), "look", fails)
            assert (await following.update()).silent["b1"] == "for a moment"
        await writer.publish(a=2)
        await overview(view, lambda told: lines(told)["b1"]["up"])
        found = await paths(following, lambda found: _outcomes(found)[-1:] == ["unwanted"])
        assert [path["attributes"] for path in found.values()] == ['{"a":2}']
        following._after.clear()  # as after a restart that the overview does not know yet
        assert (await following.update()).paths == []
        await live.crash(nodes["b2"])
        await overview(view, lambda told: not lines(told)["b2"]["up"])
        assert "cannot be reached" in (await following.update()).silent["b2"]


def _outcomes(found: dict[str, Any]) -> list[str]:
    return [seen["outcome"] for path in found.values() for seen in path["sightings"]]


async def test_watching_ends_when_nobody_asks(live: Live) -> None:
    network = path_network(1)
    node = (await live.up(network))["b1"]
    async with view_of(network) as view:
        await Following(view, "a = 1").update()
    seen = node.host.watching
    assert seen.active
    seen.tick(node.loop.time() + watching.LEASE_S / 2)
    assert seen.active
    seen.tick(node.loop.time() + 2 * watching.LEASE_S)
    assert not seen.active


async def test_a_busy_broker_looks_at_a_share(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PER_S", 50)
    network = path_network(2)
    nodes = await live.up(network)
    async with (
        view_of(network) as view,
        reefcast.connect(url_of(network, "b2"), name="reader") as reader,
        reefcast.connect(url_of(network, "b1"), name="writer") as writer,
    ):
        await writer.advertise("a >= 0")
        wanted = await reader.subscribe("a >= 0")
        await wanted.settled()
        following = Following(view, "")
        await following.update()
        for number in range(3000):
            await writer.publish(a=number)
        assert [event["a"] async for event in _some(wanted, 3000)] == list(range(3000))
        update = await following.update()
        assert update.share < 0.5
        for node in nodes.values():
            assert node.host.watching._looked < 3000
        whole = [path for path in update.paths if len(path["sightings"]) == 2]
        assert whole  # the same ones are seen at both


async def test_too_many_watches_and_wrong_filters(live: Live) -> None:
    network = path_network(1)
    await live.up(network)
    async with view_of(network) as view:
        for number in range(watching.MOST_WATCHES):
            await view.look("b1", Sightings(f"a = {number}"))
        with pytest.raises(RefusedError, match="watches for 8 filters already"):
            await view.look("b1", Sightings("b = 1"))
        with pytest.raises(RefusedError, match="line 1, column"):
            await view.look("b1", Sightings("a = = 1"))
        with pytest.raises(RefusedError, match="filter_steps"):
            await view.look("b1", Sightings(" OR ".join(f"a = {n}" for n in range(5000))))


# --- who may -------------------------------------------------------------------------------------


async def granted(live: Live, folder: Path) -> Node:
    network = secured(folder)
    network.role = [
        RoleEntry("fx-desk", publish="TRUE", subscribe="desk = 'fx'", rights=["status"]),
        RoleEntry("administrator", rights=["status"]),
    ]
    return await live.node(network.validate(), "b1")


def password_of(user: str) -> Credentials:
    return Password(user, lambda: PASSWORD)


async def test_nobody_sees_events_outside_of_his_grant(live: Live, tmp_path: Path) -> None:
    node = await granted(live, tmp_path)
    async with (
        view_of(node.network, password_of("anna")) as hers,
        view_of(node.network, password_of("otto")) as his,
        reefcast.connect(url_of(node.network, "b1"), user="anna", password=PASSWORD) as client,
    ):
        following = Following(hers, "")
        await following.update()
        with pytest.raises(RefusedError, match="user 'otto' may see nothing"):
            await his.look("b1", Sightings("desk = 'fx'"))
        assert (await his.overview())["brokers"][0]["up"]
        for desk in ("hr", "fx"):
            await client.publish(desk=desk)
        found = await paths(following, len)
        assert [json.loads(path["attributes"]) for path in found.values()] == [{"desk": "fx"}]


async def test_wishes_need_rights(live: Live, tmp_path: Path) -> None:
    node = await granted(live, tmp_path)
    async with view_of(node.network, password_of("otto")) as his:
        with pytest.raises(LocalError, match="no right to 'drain'"):
            await his.wish("b1", ManageSession("anna", "s", "drain"))


async def test_without_status_nothing_is_shown(live: Live, tmp_path: Path) -> None:
    network = secured(tmp_path)
    network.role = [RoleEntry("fx-desk"), RoleEntry("administrator")]
    node = await live.node(network.validate(), "b1")
    async with view_of(node.network, password_of("anna")) as view:
        told = await view.overview()
        assert "no right to 'status'" in told["brokers"][0]["why"]


async def test_a_mesh_and_a_scot_are_seen(live: Live) -> None:
    network = make_network("abc", [("a", "b"), ("b", "c")], routing="flooding")
    await live.up(network)
    async with (
        view_of(network) as view,
        reefcast.connect(url_of(network, "a"), name="w") as writer,
    ):
        following = Following(view, "")
        await following.update()
        await writer.publish(a=1)
        found = await paths(following, lambda found: found and _seen(found) == 3)
        (path,) = found.values()
        assert {each["broker"] for each in path["sightings"]} == {"a", "b", "c"}


def _seen(found: dict[str, Any]) -> int:
    return len(next(iter(found.values()))["sightings"])
