"""What the dashboard's page asks over HTTP: who may ask what, and what it gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from secured_brokers import lines
from test_server_admin_http import basic

import reefcast
from asking_http import Said, ask, raw, with_admin
from live_networks import PATIENCE_S, path_network, until, url_of
from reefcast.network.file import NetworkFile
from reefcast.network.sections import RoleEntry, SessionsSection
from reefcast.server.node import Node
from reefcast.server.web.dashboard import MARK, MOST_FOLLOWERS
from reefcast.server.web.files import page_files
from secured import PASSWORD, secured
from tls_files import Office


async def post(node: Node, path: str, body: object, headers: dict[str, str] | None = None) -> Said:
    data = json.dumps(body).encode()
    fields = {"Host": "localhost", "Connection": "close", MARK: "1", **(headers or {})}
    fields["Content-Length"] = str(len(data))
    head = "\r\n".join([f"POST {path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())])
    answer = await raw(node, head.encode() + b"\r\n\r\n" + data)
    first, _, body_ = answer.partition(b"\r\n\r\n")
    return Said(int(first.split()[1]), {}, body_)


@asynccontextmanager
async def events(
    node: Node, path: str, headers: dict[str, str] | None = None
) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """The server-sent events of a path; those of other content are the text of the answer."""
    address = node.network.admin_address(node.name)
    assert address is not None
    reader, writer = await asyncio.open_connection(*address)
    fields = {"Host": "localhost", MARK: "1", **(headers or {})}
    lines_ = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
    writer.write("\r\n".join(lines_).encode())

    async def found() -> AsyncIterator[tuple[str, Any]]:
        name = ""
        async with asyncio.timeout(PATIENCE_S):
            while line := (await reader.readline()).decode():
                if line.startswith("event: "):
                    name = line.split()[1]
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ").strip()
                    yield name, data if name == "end" else json.loads(data)

    try:
        yield found()
    finally:
        writer.close()


async def last(news: AsyncIterator[tuple[str, Any]]) -> str:
    """Why a stream ended."""
    async for name, why in news:
        if name == "end":
            return str(why)
    raise AssertionError("it ended without a word")


def granted(folder: Path) -> NetworkFile:
    network = with_admin(secured(folder))
    network.role = [
        RoleEntry("fx-desk", publish="TRUE", subscribe="desk = 'fx'", rights=["status"]),
        RoleEntry("administrator", rights=["status", "drain"]),
    ]
    return network.validate()


# --- the page ------------------------------------------------------------------------------------


async def test_the_page_is_for_everybody_and_takes_nothing_from_elsewhere(
    live: Live, tmp_path: Path
) -> None:
    node = await live.node(with_admin(secured(tmp_path)), "b1")
    files = page_files()
    assert {"/", "/app.js", "/dashboard.css", "/icon.svg"} <= set(files)
    for path, file in files.items():
        said = await ask(node, path)
        assert (said.status, said.body) == (200, file.body)
        assert said.headers["content-type"] == file.kind
        policy = said.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        body = file.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in body
        assert "https://" not in body
    assert (await ask(node, "/api/me")).status == 401


async def test_browsers_do_not_ask_where_the_page_does(live: Live, tmp_path: Path) -> None:
    node = await live.node(with_admin(secured(tmp_path)), "b1")
    assert "Basic" in (await ask(node, "/api/me")).headers["www-authenticate"]
    said = await ask(node, "/api/me", {MARK: "1"})
    assert "Basic" not in said.headers["www-authenticate"]


# --- what it is told -----------------------------------------------------------------------------


async def test_the_network_live(live: Live) -> None:
    network = with_admin(path_network(2))
    nodes = await live.up(network)
    async with events(nodes["b1"], "/api/live") as news:
        async for name, told in news:
            assert name == "network"
            if all(each["up"] for each in told["brokers"]):
                break
        await live.crash(nodes["b2"])
        async for _, told in news:
            if not told["brokers"][1]["up"]:
                break
    assert not told["links"][0]["up"]


async def test_pages_of_one_and_of_all(live: Live) -> None:
    network = with_admin(path_network(2))
    nodes = await live.up(network)
    for name, node in nodes.items():
        for number in range(3):
            await live.client(node, f"{name}-{number}")
    one = (await ask(nodes["b1"], "/api/page?broker=b2&kind=clients&order=client&most=2")).json
    assert [line[0] for line in one["lines"]] == ["b2-2", "b2-1"]
    assert one["total"] == 3
    path = "/api/page?kind=clients&order=client&descending=false&most=2&skip=2"
    both = (await ask(nodes["b1"], path)).json
    assert [line[:2] for line in both["lines"]] == [["b1", "b1-2"], ["b2", "b2-0"]]
    assert both["total"] == 6
    for wrong, status in (
        ("broker=b9&kind=clients", 400),
        ("broker=b1&kind=colours", 400),
        ("broker=b1&kind=clients&most=100000", 400),
        ("broker=b1&kind=clients&skip=-1", 400),
        ("kind=clients&skip=1000", 400),
    ):
        assert (await ask(nodes["b1"], f"/api/page?{wrong}")).status == status
    await live.crash(nodes["b2"])
    said = await ask(nodes["b1"], "/api/page?broker=b2&kind=clients")
    assert said.status == 502
    assert b"cannot be reached" in said.body


async def test_explain(live: Live) -> None:
    node = await live.node(with_admin(path_network(1)), "b1")
    asked = {"filter": "a > 1 AND b = 2", "event": '{"a": 9007199254740993, "b": 3}'}
    told = json.loads((await post(node, "/api/explain", asked)).body)
    assert told["matches"] is False
    assert told["tree"]["terms"][0]["values"] == {"a": 9007199254740993}
    assert [each["text"] for each in told["decisive"]] == ["b = 2"]
    for wrong in (
        {"filter": "a > > 1"},
        {"filter": "a = 1", "event": "[1]"},
        {"filter": "a = 1", "event": '{"a": [1]}'},
        {"filter": " OR ".join(f"a = {n}" for n in range(3000))},
        {},
    ):
        said = await post(node, "/api/explain", wrong)
        assert said.status in (400, 429), said.body
    assert not node.host.journal.counters["failures"]


async def test_only_the_page_itself_makes_it_do_something(live: Live) -> None:
    node = await live.node(with_admin(path_network(1)), "b1")
    asked = {"broker": "b1", "wish": {"type": "move_link", "old": "x", "new": "y"}}
    said = await post(node, "/api/wish", asked, {MARK: "0"})
    assert said.status == 403
    assert MARK.encode() in said.body
    assert (await ask(node, "/api/wish")).status == 405
    assert (await ask(node, "/api/live", method="POST")).status == 405
    said = await post(node, "/api/wish", asked)
    assert said.status == 400
    assert b"acyclic" in said.body
    assert (await post(node, "/api/wish", {**asked, "wish": {"type": "leave"}})).status == 400
    assert (await post(node, "/api/wish", {**asked, "broker": "b9"})).status == 400


# --- who may -------------------------------------------------------------------------------------


async def test_wishes_need_the_right_and_are_written_down(live: Live, tmp_path: Path) -> None:
    network = granted(tmp_path)
    network.sessions = SessionsSection(directory=str(tmp_path / "sessions"))
    node = await live.node(network.validate(), "b1")
    wish = {"type": "manage_session", "owner": "anna", "session": "s", "what": "close"}
    asked = {"broker": "b1", "wish": wish}
    url = url_of(node.network, "b1")
    async with reefcast.connect(url, user="anna", password=PASSWORD) as client:
        await client.session("s")
        said = await post(node, "/api/wish", asked, basic("anna"))
        assert said.status == 403
        assert b"no right to 'drain'" in said.body
        assert len(await client.sessions()) == 1
        assert (await post(node, "/api/wish", asked, basic("otto"))).status == 200
        assert await client.sessions() == []
    written = [line for line in lines(tmp_path) if line["event"].startswith("wish")]
    assert [(line["event"], line["user"]) for line in written] == [
        ("wish_refused", "anna"),
        ("wish", "otto"),
    ]
    assert written[1]["session"] == "s"


async def test_events_outside_of_a_grant_are_not_seen(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.server.web.dashboard.QUIET_S", 0.1)
    node = await live.node(granted(tmp_path), "b1")
    said = await ask(node, "/api/follow?filter=", basic("otto"))
    assert said.status == 400
    assert b"user 'otto' may see nothing" in said.body
    url = url_of(node.network, "b1")
    async with (
        events(node, "/api/follow?filter=", basic("anna")) as news,
        reefcast.connect(url, user="anna", password=PASSWORD) as client,
    ):
        await anext(news)
        await until(lambda: node.host.watching.active)
        await client.publish(desk="hr")
        await client.publish(desk="fx")
        seen = []
        async for _, update in news:
            seen += [json.loads(path["attributes"]) for path in update["paths"]]
            if seen:
                break
        assert seen == [{"desk": "fx"}]
        node.regrant([RoleEntry("fx-desk", subscribe="desk = 'hr'", rights=["status"])])
        assert await last(news) == "what you may see has changed: follow again"


async def test_what_is_looked_at_ends_with_the_right_to_it(live: Live, tmp_path: Path) -> None:
    node = await live.node(granted(tmp_path), "b1")
    async with events(node, "/api/live", basic("otto")) as news:
        name, _ = await anext(news)
        assert name == "network"
        node.regrant([RoleEntry("administrator")])
        assert "no right to 'status'" in await last(news)


async def test_too_many_followers(live: Live) -> None:
    node = await live.node(with_admin(path_network(1)), "b1")
    async with asyncio.TaskGroup():
        opened = [events(node, "/api/follow?filter=a%3D1") for _ in range(MOST_FOLLOWERS)]
        for each in opened:
            await anext(await each.__aenter__())
        said = await ask(node, "/api/follow?filter=")
        assert said.status == 429
        for each in opened:
            await each.__aexit__(None, None, None)


async def test_nobody_looks_and_nobody_is_asked(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.server.view.asking.IDLE_S", 0.05)
    network = with_admin(path_network(2))
    nodes = await live.up(network)

    def asked() -> int:
        roles = [getattr(line.hello, "name", "") for line in nodes["b2"].shared.all]  # type: ignore[attr-defined]  # connections of ours
        return roles.count("admin")

    async with events(nodes["b1"], "/api/live") as news:
        async for _, told in news:
            if told["brokers"][1]["up"]:
                break
    await until(lambda: not asked())


async def test_brokers_with_certificates_show_them_to_each_other(
    live: Live, tmp_path: Path
) -> None:
    network = with_admin(Office(tmp_path).secured(path_network(2)))
    nodes = await live.up(network)
    door = nodes["b1"].door
    assert door is not None
    async with asyncio.timeout(PATIENCE_S):
        while True:
            told = await door.dashboard.view.overview()
            if all(each["up"] for each in told["brokers"]):
                break
            await asyncio.sleep(0.05)


async def test_brokers_with_a_key_show_it_to_each_other(live: Live, tmp_path: Path) -> None:
    network = with_admin(secured(tmp_path, 2))
    nodes = await live.up(network)
    async with events(nodes["b1"], "/api/live", basic("otto")) as news:
        async for _, told in news:
            if all(each["up"] for each in told["brokers"]):
                break
    del nodes
