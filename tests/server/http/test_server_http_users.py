"""Who HTTP clients are, what they may do, from which pages they come, and how much they may ask."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from live_brokers import Live
from secured_brokers import lines

from http_places import HttpPlace, fresh, http_broker
from live_networks import path_network, until
from reefcast.network.file import NetworkFile
from reefcast.network.listeners import ListenerEntry
from reefcast.network.sections import CertificateEntry, RoleEntry
from reefcast.security.tokens import LEEWAY_S
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports
from secured import OTHER_PASSWORD, PASSWORD, secured, token, write_users
from tls_files import Office

FX = RoleEntry(name="fx-desk", publish="topic MATCHES 'fx/#'", subscribe="topic MATCHES 'fx/#'")
EVENT = {"topic": "fx/usd", "n": 1}


def basic(user: str, password: str) -> dict[str, str]:
    shown = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {shown}"}


ANNA = basic("anna", PASSWORD)


def bearer(user: str = "bert", **more: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(user, **more)}"}


def with_http(network: NetworkFile, folder: Path, **fields: Any) -> NetworkFile:
    """Return the network with a listener for HTTP."""
    network.sessions.directory = str(folder / "sessions")
    (port,) = free_ports(1)
    entry = ListenerEntry(broker="b1", protocol="http", listen=f"127.0.0.1:{port}", **fields)
    network.listener.append(entry)
    return network.validate()


def place_of(node: Node, web: aiohttp.ClientSession, scheme: str = "http") -> HttpPlace:
    assert node.http is not None
    (listener,) = node.http.front.listeners
    return HttpPlace(node, f"{scheme}://127.0.0.1:{listener.listener.port}", web)


@pytest.fixture
async def web() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def place(live: Live, tmp_path: Path, web: aiohttp.ClientSession) -> HttpPlace:
    """A broker with users, and a role."""
    network = secured(tmp_path)
    network.role = [FX]
    return place_of(await live.node(with_http(network, tmp_path), "b1"), web)


# --- who they are, and what they may do -----------------------------------------------------------


async def test_users_and_what_they_may(place: HttpPlace, tmp_path: Path) -> None:
    ask = place.ask
    async with place.web.post(f"{place.url}/v1/events", json=EVENT) as response:
        told = await response.json()
        assert (response.status, told["type"]) == (401, "urn:reefcast:problem:unproved")
        shown = response.headers["WWW-Authenticate"]
        assert ("Basic realm=" in shown, "Bearer realm=" in shown) == (True, True)
    for how in ({"headers": ANNA}, {"headers": bearer()}):
        assert (await ask("POST", "/v1/events?confirm=true", json=EVENT, **how))[0] == 200
        status, told = await ask("POST", "/v1/events", json={"topic": "hr"}, **how)
        assert (status, told["type"]) == (403, "urn:reefcast:problem:refused")
        assert "outside what user" in told["detail"]
        status, told = await ask("POST", "/v1/events", json=[EVENT, {"topic": "hr"}], **how)
        assert (status, [each["state"] for each in told["events"]]) == (
            *(207,),
            ["accepted", "refused"],
        )
    wrong = basic("anna", OTHER_PASSWORD)
    assert (await ask("POST", "/v1/events", json=EVENT, headers=wrong))[0] == 401
    for header in ("Basic x", "Bearer x", "Digest x", "Basic", "Bearer "):
        said = {"Authorization": header}
        assert (await ask("GET", "/v1/sessions", headers=said))[0] == 401
    assert (await ask("GET", "/v1/openapi.json"))[0] == 200
    events = [(each["event"], each.get("user", each.get("tried"))) for each in lines(tmp_path)]
    assert ("connected", "anna") in events
    assert ("connected", "bert") in events
    assert ("refused", "anna") in events


async def test_a_stream_shows_what_its_user_may_see(place: HttpPlace) -> None:
    otherwise = {"filter": "topic = 'hr' OR topic = 'fx/usd'"}
    request = place.web.get(f"{place.url}/v1/events", params=otherwise, headers=bearer())
    async with request as response:
        assert response.status == 200
        await place.ask("POST", "/v1/events?confirm=true", json=EVENT, headers=ANNA)
        while not (line := await response.content.readline()).startswith(b"data"):
            pass
        assert b'"fx/usd"' in line


async def test_a_stream_ends_with_its_user(place: HttpPlace, tmp_path: Path) -> None:
    request = place.web.get(f"{place.url}/v1/events?filter=topic='fx/a'", headers=ANNA)
    async with request as response:
        assert response.status == 200
        write_users(tmp_path / "users.toml", ("otto", ["administrator"]))
        place.node.look_at_users()
        text = await response.text()
        assert "event: end" in text
        assert "was removed" in text
    assert (await place.ask("GET", "/v1/sessions", headers=ANNA))[0] == 401


async def test_a_stream_ends_with_its_token(place: HttpPlace) -> None:
    headers = bearer(seconds=1.0 - LEEWAY_S)
    url = f"{place.url}/v1/events?filter=topic='fx/a'"
    async with place.web.get(url, headers=headers) as response:
        assert response.status == 200
        assert "has expired" in await response.text()
    assert (await place.ask("GET", "/v1/sessions", headers=headers))[0] == 401


async def test_guessing_is_slowed_down(place: HttpPlace) -> None:
    counters = place.node.host.journal.counters
    wrong = basic("anna", OTHER_PASSWORD)
    while not counters["proofs_slowed"]:
        assert (await place.ask("GET", "/v1/sessions", headers=wrong))[0] == 401
    assert counters["proofs_failed"] >= 1


async def test_a_token_outside_of_a_header_needs_tls(place: HttpPlace) -> None:
    status, told = await place.ask("GET", f"/v1/sessions?access_token={token()}")
    assert (status, "over TLS only" in told["detail"]) == (401, True)
    offered = ("reefcast", f"reefcast.token.{token()}")
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await place.web.ws_connect(f"{place.url}/v1/events", protocols=offered)
    assert caught.value.status == 401


async def test_with_tls(live: Live, tmp_path: Path, web: aiohttp.ClientSession) -> None:
    office = Office(tmp_path)
    network = office.secured(secured(tmp_path), "optional")
    network.role = [FX]
    bert = office.issue("bert")
    network.certificate = [CertificateEntry(subject="CN=bert", user="bert", roles=["fx-desk"])]
    node = await live.node(with_http(network, tmp_path, tls=True), "b1")
    place = place_of(node, web, "https")
    trusting = ssl.create_default_context(cafile=str(office.file))
    own = ssl.create_default_context(cafile=str(office.file))
    own.load_cert_chain(bert.certificate, bert.key)
    post = ("POST", "/v1/events?confirm=true")
    assert (await place.ask(*post, json=EVENT, ssl=trusting))[0] == 401
    assert (await place.ask(*post, json=EVENT, ssl=own))[0] == 200
    assert (await place.ask(*post, json=EVENT, ssl=trusting, headers=ANNA))[0] == 200
    shown = f"/v1/sessions?access_token={token('carl')}"
    assert (await place.ask("GET", shown, ssl=trusting))[0] == 200
    offered = ("reefcast", f"reefcast.token.{token('carl')}")
    url = f"{place.url}/v1/events?filter=topic='fx/usd'"
    async with web.ws_connect(url, protocols=offered, ssl=trusting) as socket:
        assert socket.protocol == "reefcast"
        assert (await socket.receive_json())["type"] == "subscribed"
        await place.ask(*post, json=EVENT, ssl=own)
        assert (await socket.receive_json())["events"][0]["attributes"]["n"] == 1
    plain = place.url.replace("https", "http")
    async with web.get(f"{plain}/v1/sessions") as response:
        assert (response.status, "speaks TLS" in await response.text()) == (400, True)


# --- pages ---------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def open_place() -> AsyncIterator[HttpPlace]:
    async with http_broker(allow_origins=["https://app.example"], max_connections=40) as found:
        yield found


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("origin", "status", "shown"),
    [
        ("https://app.example", 202, "https://app.example"),
        ("https://other.example", 403, None),
        ("http://app.example", 403, None),
        ("null", 403, None),
        ("https://app.example:1", 403, None),
    ],
)
async def test_origins(open_place: HttpPlace, origin: str, status: int, shown: str | None) -> None:
    web, url = open_place.web, f"{open_place.url}/v1/events"
    async with web.post(url, json={}, headers={"Origin": origin}) as response:
        assert response.status == status
        assert response.headers.get("Access-Control-Allow-Origin") == shown
    asks = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-of-mine",
    }
    async with web.options(url, headers=asks) as response:
        assert response.status == 204
        assert response.headers.get("Access-Control-Allow-Origin") == shown
        allowed = response.headers.get("Access-Control-Allow-Headers")
        assert allowed == ("content-type,x-of-mine" if shown else None)
        assert response.headers["Vary"] == "Origin"
    if shown is None:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await web.ws_connect(url, headers={"Origin": origin})
        assert caught.value.status == 403


@pytest.mark.asyncio(loop_scope="module")
async def test_a_page_of_this_host_may_and_no_other_name_of_it(open_place: HttpPlace) -> None:
    url = f"{open_place.url}/v1/events"
    own = {"Origin": open_place.url}
    async with open_place.web.post(url, json={}, headers=own) as response:
        assert response.status == 202
    for host in ("evil.example", "evil.example:80", ""):
        async with open_place.web.post(url, json={}, headers={"Host": host}) as response:
            assert response.status == 421


@pytest.mark.asyncio(loop_scope="module")
async def test_an_image_of_another_page_acknowledges_nothing(open_place: HttpPlace) -> None:
    name = fresh()
    await open_place.ask("PUT", f"/v1/sessions/{name}", json={"filters": [f"of = '{name}'"]})
    await open_place.post({"of": name}, "?confirm=true")
    _, fetched = await open_place.ask("GET", f"/v1/sessions/{name}/events?wait_s=60")
    assert [each["position"] for each in fetched["events"]] == [1]
    _, state = await open_place.ask("GET", f"/v1/sessions/{name}")
    last = f"{round(state['created_s'] * 1e6)}:1"
    image = f"{open_place.url}/v1/events?session={name}&last_event_id={last}"
    elsewhere = {"Sec-Fetch-Site": "cross-site"}  # a browser names no origin in such a GET
    async with open_place.web.get(image, headers=elsewhere) as response:
        assert response.status == 403
    _, state = await open_place.ask("GET", f"/v1/sessions/{name}")
    assert state["events"] == 1
    # A link leads to what everybody may see.
    assert (await open_place.ask("GET", "/v1/openapi.json", headers=elsewhere))[0] == 200


# --- a broker that takes nobody -------------------------------------------------------------------


async def test_a_broker_that_is_drained_says_so_at_once(place: HttpPlace) -> None:
    place.node.clients.turn_away("broker b1 is drained", lambda: ("127.0.0.1:1",))
    async with place.web.post(f"{place.url}/v1/events", json=EVENT, headers=ANNA) as response:
        told = await response.json()
        assert (response.status, response.headers["Retry-After"]) == (503, "5")
    assert "broker b1 is drained" in told["detail"]
    place.node.clients.take_again()
    assert (await place.ask("POST", "/v1/events", json=EVENT, headers=ANNA))[0] == 202


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="module")
async def test_connections_that_say_nothing_keep_nobody_out(open_place: HttpPlace) -> None:
    host, _, port = open_place.url.removeprefix("http://").rpartition(":")
    async with open_place.stream(filter="n = 1") as stream:
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(60)]
        await open_place.post({"n": 1})
        assert (await stream.message())["attributes"]["n"] == 1
        for _, writer in silent:
            writer.close()
    assert open_place.node.http is not None
    assert open_place.node.host.journal.counters["http_evicted"] > 0


async def test_events_are_as_large_as_they_may_be(
    live: Live, tmp_path: Path, web: aiohttp.ClientSession
) -> None:
    """To the byte as the broker counts it: what it would refuse later is refused at once."""
    network = path_network(1, publication_bytes=2000)
    place = place_of(await live.node(with_http(network, tmp_path), "b1"), web)
    lengths = list(range(850, 1000, 3))
    answers = [await place.post({"t": "x" * n}, "?confirm=true") for n in lengths]
    statuses = [status for status, _ in answers]
    assert statuses == [200] * statuses.count(200) + [413] * statuses.count(413)
    assert 0 < statuses.count(200) < len(lengths)
    assert place.node.host.journal.counters["http_refused_later"] == 0


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "lines",
    [b"GET /v1/events?access_token=SECRET&filter=%s HTTP/1.1", b"GET / HTTP/1.1\r\nA: SECRET%s"],
)
async def test_what_is_too_long_is_quoted_nowhere(
    open_place: HttpPlace, lines: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = open_place.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with caplog.at_level("INFO"), caplog.at_level("INFO", logger="reefcast"):
        writer.write(lines % (b"x" * 40_000) + b"\r\nHost: localhost\r\n\r\n")
        answer = await reader.read()
    writer.close()
    assert b"no request that can be read: Got more than" in answer
    assert "no request that can be read: Got more than" in caplog.text
    assert b"SECRET" not in answer
    assert "SECRET" not in caplog.text


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_http_is_answered_in_words(open_place: HttpPlace) -> None:
    host, _, port = open_place.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\x10\x0c\x00\x04MQTT\x05\x02\x00\x3c\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert b"application/problem+json" in answer
    assert (await open_place.post({}))[0] == 202


async def test_a_broker_that_stops_tells_its_streams(live: Live, tmp_path: Path) -> None:
    node = await live.node(with_http(path_network(1, drain_s=1.0), tmp_path), "b1")
    async with aiohttp.ClientSession() as web:
        place = place_of(node, web)
        async with place.stream(filter="TRUE") as stream:
            await place.post({"n": 1})
            await until(lambda: place.node.http.front.streams == 1)
            stopping = asyncio.create_task(node.stop())
            assert (await stream.message())["attributes"]["n"] == 1
            kind, told = await stream.next()
            assert (kind, "told to stop" in told["detail"]) == ("end", True)
            assert (await stream.next())[0] == "over"
            await stopping
