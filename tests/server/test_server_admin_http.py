"""The admin listener: who may ask, what it answers, and what bad visitors can do (nothing)."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from secured_brokers import lines

import reefcast
from asking_http import Said, ask, raw, scrape, with_admin
from live_networks import make_network, path_network, until, url_of
from reefcast.errors import ConfigurationError, LocalError, ProtocolError
from reefcast.model.wire import StatusRequest
from reefcast.network.sections import RoleEntry, SecuritySection
from reefcast.protocol.proofs import Answer, Method
from reefcast.server.admin import ask_status
from reefcast.server.metrics import definitions as of
from reefcast.server.node import Node
from reefcast.server.peer import Peer
from reefcast.server.supervisor import free_ports
from reefcast.server.web import visits as visiting
from reefcast.server.web.proving import shown_in
from reefcast.server.web.visits import MOST_BYTES, Visit, Visits
from secured import OTHER_PASSWORD, PASSWORD, secured, token
from tls_files import Office


def basic(user: str, password: str = PASSWORD) -> dict[str, str]:
    shown = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {shown}"}


def bearer(shown: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {shown}"}


async def alone(live: Live, **limits: Any) -> Node:
    return await live.node(with_admin(path_network(1, **limits)), "b1")


# --- what it answers -----------------------------------------------------------------------------


async def test_alive_and_ready(live: Live) -> None:
    network = with_admin(path_network(2))
    first = await live.node(network, "b1")
    assert (await ask(first, "/healthz")).status == 200
    said = await ask(first, "/readyz")
    assert said.status == 503
    assert said.body == b"not ready: it relearns its tables; links that are not up: 1 of 1\n"
    second = await live.node(network, "b2")
    await until(lambda: not first.host.core.relearning and first.links["b2"].state == "up")
    said = await ask(first, "/readyz")
    assert (said.status, said.body) == (200, b"ready\n")
    await live.crash(second)
    await until(lambda: first.links["b2"].connection is None)
    assert (await ask(first, "/readyz")).body == b"not ready: links that are not up: 1 of 1\n"
    assert (await ask(first, "/healthz")).body == b"alive\n"


async def test_a_broker_that_drains_says_so(live: Live) -> None:
    node = await alone(live)
    holding = await live.client(node, "c")
    await holding.subscribe("TRUE")
    node.clients.sessions["c"].port.paused = True
    async with reefcast.connect(url_of(node.network, "b1")) as publisher:
        await publisher.publish(a=1)
        await until(lambda: node.clients.sessions["c"].port.queue_len)
    stopping = asyncio.create_task(node.stop())
    await until(lambda: node.stopping)
    said = await ask(node, "/readyz")
    assert (said.status, said.body) == (503, b"not ready: it was told to stop\n")
    assert (await scrape(node))[of.STOPPING.name] == {frozenset(): 1}
    node.clients.sessions["c"].port.resume()
    await stopping


async def test_status_is_that_of_the_native_door(live: Live) -> None:
    node = await alone(live)
    async with reefcast.connect(url_of(node.network, "b1"), name="c") as client:
        subscription = await client.subscribe("a = 1")
        await subscription.settled()
        native = await ask_status(
            *node.network.address("b1"), StatusRequest(tables=("PRT",), rows=5)
        )
        said = await ask(node, "/status?table=PRT")
        short = await ask(node, "/status?table=PRT&rows=0")
    assert said.headers["content-type"] == "application/json"
    ours, told = json.loads(json.dumps(native)), said.json
    for changing in ("uptime_s", "memory_mb"):
        assert told.pop(changing) >= ours.pop(changing)
    assert told == ours
    assert told["rows"]["PRT"]["rows"][0][1] == "a = 1"
    assert short.json["rows"]["PRT"]["left_out"] == 1


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/nothing", "GET", 404),
        ("/", "POST", 405),
        ("/metrics/../status", "GET", 404),
        ("/metrics", "POST", 405),
        ("/status", "DELETE", 405),
        ("/status?rows=many", "GET", 400),
        ("/status?rows=-1", "GET", 400),
        ("/metrics", "HEAD", 200),
    ],
)
async def test_other_requests(live: Live, path: str, method: str, status: int) -> None:
    node = await alone(live)
    said = await ask(node, path, method=method)
    assert said.status == status
    assert said.headers["server"] == "reefcast"
    assert said.headers["cache-control"] == "no-store"
    assert bool(said.body) is (method != "HEAD")


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", False),
        ("application/openmetrics-text; version=1.0.0", True),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4,*/*;q=0.3", True),
        ("text/plain;version=0.0.4;q=0.6,application/openmetrics-text;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x,text/plain", False),
        ("text/plain;version=0/plain;version=0.0.4", False),  # prometheus_client fails on it
        ("application/openmetrics-text;version=99;escaping=what", True),
    ],
)
async def test_both_formats(live: Live, accept: str, openmetrics: bool) -> None:
    node = await alone(live)
    said = await ask(node, headers={"Accept": accept})
    assert said.status == 200
    if openmetrics:
        assert said.headers["content-type"].startswith(
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        )
    else:
        assert said.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert said.body.endswith(b"# EOF\n") is openmetrics


async def test_what_fails_is_logged_and_said(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(node: Node, request: StatusRequest) -> dict[str, object]:
        raise ZeroDivisionError("of a test")

    monkeypatch.setattr(Node, "status", fail)
    node = await alone(live)
    said = await ask(node, "/status")
    assert (said.status, said.body) == (
        500,
        b"the broker failed on this request; its log says how\n",
    )
    assert "failed to answer an HTTP request" in caplog.text
    assert "ZeroDivisionError: of a test" in caplog.text
    assert (await scrape(node))[of.FAILURES.name] == {frozenset(): 1}


async def test_a_peer_has_one() -> None:
    listen, admin = free_ports(2)
    async with Peer(f"127.0.0.1:{listen}", admin=f"127.0.0.1:{admin}") as peer:
        found = await scrape(peer.node)
    assert found[of.READY.name] == {frozenset(): 1}
    with pytest.raises(ConfigurationError, match=r"would show its status on 0\.0\.0\.0"):
        Peer(f"127.0.0.1:{listen}", admin=f"0.0.0.0:{admin}")


# --- who may ask ---------------------------------------------------------------------------------


async def test_users_tokens_and_nobody(live: Live, tmp_path: Path) -> None:
    node = await live.node(with_admin(secured(tmp_path)), "b1")
    for path in ("/metrics", "/status"):
        nobody = await ask(node, path)
        assert nobody.status == 401
        assert "asks who this is" in nobody.body.decode()
        assert 'Basic realm="reefcast test", charset="UTF-8"' in nobody.headers["www-authenticate"]
        assert 'Bearer realm="reefcast test"' in nobody.headers["www-authenticate"]
        assert (await ask(node, path, basic("otto"))).status == 200
        assert (await ask(node, path, bearer(token()))).status == 200
        assert (await ask(node, path, basic("otto", OTHER_PASSWORD))).status == 401
        assert (await ask(node, path, bearer(token(seconds=-100)))).status == 401
        assert (await ask(node, path, {"Authorization": "Digest x"})).status == 401
    for path in ("/healthz", "/readyz"):
        assert (await ask(node, path)).status == 200
    written = lines(tmp_path)
    assert {line["role"] for line in written} == {"http"}
    assert {line["user"] for line in written if line["event"] == "connected"} == {"otto", "anna"}
    refused = [line for line in written if line["event"] == "refused"]
    assert len(refused) == 8
    assert {line.get("tried") for line in refused} == {None, "otto"}
    assert PASSWORD not in (tmp_path / "audit" / "b1.jsonl").read_text()


async def test_roles_with_rights(live: Live, tmp_path: Path) -> None:
    network = with_admin(secured(tmp_path))
    network.role = [RoleEntry("fx-desk"), RoleEntry("administrator", rights=["status"])]
    node = await live.node(network.validate(), "b1")
    said = await ask(node, "/metrics", basic("anna"))
    assert said.status == 403
    assert "status" in said.body.decode()
    assert (await ask(node, "/metrics", basic("otto"))).status == 200


async def test_who_guesses_waits(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await live.node(with_admin(secured(tmp_path)), "b1")
    counters, pauses = node.host.journal.counters, []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr("reefcast.server.proving.asyncio.sleep", sleep)
    seen = [(await ask(node, "/status", basic("otto", f"guess {n}"))).status for n in range(12)]
    assert seen[0] == 401
    assert seen[-1] == 429
    assert counters["proofs_failed"] == seen.count(401)
    assert counters["proofs_slowed"] >= 4
    assert any(pause > 0.1 for pause in pauses)
    said = await ask(node, "/status", basic("otto", "guess"))
    assert "try again" in said.body.decode()
    assert said.headers["retry-after"] == "10"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9464", "10.0.0.1", ""])
async def test_pages_by_other_names_read_nothing(live: Live, host: str) -> None:
    node = await alone(live)
    said = await ask(node, "/status", {"Host": host})
    assert said.status == 421
    assert b"localhost" in said.body


@pytest.mark.parametrize("host", ["localhost:9464", "127.0.0.1", "[::1]:9464", "127.1.2.3:80"])
async def test_names_of_this_machine(live: Live, host: str) -> None:
    node = await alone(live)
    assert (await ask(node, "/healthz", {"Host": host})).status == 200


def test_what_a_request_shows() -> None:
    assert shown_in(None) == shown_in("") == Answer(Method.NOTHING)
    assert shown_in("bearer abc") == Answer(Method.TOKEN, secret="abc")
    known = base64.b64encode("ä:b:c".encode()).decode()
    assert shown_in(f"BASIC {known}") == Answer(Method.PASSWORD, "ä", "b:c")
    for wrong in ("Basic", "Basic ???", "Basic YQ==", "Basic /w==", "Bearer", "abc", "Basic YQ= ="):
        with pytest.raises(ProtocolError):
            shown_in(wrong)


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("tls"))


async def test_tls(live: Live, office: Office, tmp_path: Path) -> None:
    network = with_admin(office.secured(secured(tmp_path)))
    node = await live.node(network, "b1")
    trusting = ssl.create_default_context(cafile=str(office.file))
    trusting.check_hostname = False
    assert (await ask(node, "/metrics", tls=trusting)).status == 401
    found = await ask(node, "/metrics", basic("otto"), tls=trusting)
    assert b"reefcast_certificate_expiry_timestamp_seconds" in found.body
    plain = await raw(node, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert plain.startswith(b"HTTP/1.1 400")
    assert b"use https://" in plain
    trusting.load_cert_chain(*office.broker("test", "b1")[1:])
    assert (await ask(node, "/metrics", tls=trusting)).status == 200, "a member of the network"


def anywhere(
    folder: Path, *, tls: bool = False, users: bool = False, insecure: bool = False
) -> Any:
    network = path_network(1)
    network.broker[0].admin = "0.0.0.0:9464"
    network.network.insecure = insecure
    if tls:
        network.tls.certificate = network.tls.authority = str(folder / "c.pem")
    if users:
        network.security = SecuritySection(users=str(folder / "users.toml"))
    return network


def test_off_loopback_it_needs_tls_and_users(tmp_path: Path) -> None:
    anywhere(tmp_path, tls=True, users=True).validate()
    anywhere(tmp_path, insecure=True).validate()
    for given, lacks in (
        ({}, "a section [tls] (reefcast certificates make) and a section [security]"),
        ({"tls": True}, "give the file a section [security] with users or tokens"),
        ({"users": True}, "give the file a section [tls]"),
    ):
        with pytest.raises(ConfigurationError) as wrong:
            anywhere(tmp_path, **given).validate()
        assert "would show its status on 0.0.0.0, which others can reach" in str(wrong.value)
        assert lacks in str(wrong.value)


def test_addresses_that_contradict_themselves() -> None:
    def wrong(change: Callable[[Any], None]) -> str:
        network = make_network("ab", [("a", "b")])
        change(network)
        with pytest.raises(ConfigurationError) as found:
            network.validate()
        return str(found.value)

    def same(network: Any) -> None:
        network.admin.listen = "127.0.0.1:9464"

    def taken(network: Any) -> None:
        network.broker[1].admin = network.broker[0].listen

    def none(network: Any) -> None:
        network.broker[0].admin = "9464"

    assert "broker a and broker b are both on 127.0.0.1" in wrong(same)
    assert "is where a broker listens for clients" in wrong(taken)
    assert "broker a: admin = '9464' is not host:port" in wrong(none)
    elsewhere = make_network("ab", [("a", "b")])
    elsewhere.network.insecure = True
    for number, entry in enumerate(elsewhere.broker):
        entry.listen = f"10.0.0.{number}:7301"
    elsewhere.admin.listen = "127.0.0.1:9464"
    assert elsewhere.validate().admin_address("b") == ("127.0.0.1", 9464)


async def test_a_port_that_is_taken(live: Live) -> None:
    node = await alone(live)
    network = path_network(1)
    network.broker[0].admin = node.network.broker[0].admin
    with pytest.raises(ConfigurationError, match="another program listens there"):
        await live.node(network, "b1")


# --- bad visitors --------------------------------------------------------------------------------


class Pipe(asyncio.Transport):
    def __init__(self, visit: Visit) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.visit = visit
        self.aborted = False

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            self.visit.connection_lost(None)


class Nothing(asyncio.Protocol):
    pass


async def test_one_too_many_ends_the_one_that_waits_longest() -> None:
    evicted: list[int] = []
    visits = Visits(3, lambda: evicted.append(1))
    pipes = []
    for _ in range(3):
        visit = Visit(visits, Nothing())
        pipes.append(Pipe(visit))
        visit.connection_made(pipes[-1])
    visits.answered(pipes[0])
    late = Visit(visits, Nothing())
    late.connection_made(Pipe(late))
    assert [pipe.aborted for pipe in pipes] == [False, True, False]
    assert len(visits) == 3
    assert evicted == [1]
    visits.end_all()
    assert not len(visits)


async def test_who_is_slow_or_says_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = Visits(9, lambda: None)
    now = asyncio.get_running_loop().time()
    slow, chatty, asking = (Visit(visits, Nothing()) for _ in range(3))
    pipes = {visit: Pipe(visit) for visit in (slow, chatty, asking)}
    for visit, pipe in pipes.items():
        visit.connection_made(pipe)
    chatty.data_received(b"x" * MOST_BYTES)
    assert not pipes[chatty].aborted
    chatty.data_received(b"x")
    assert pipes[chatty].aborted
    visits.tick(now + visiting.ANSWER_S / 2)
    assert not pipes[slow].aborted
    asking.begin_anew(now + 3 * visiting.ANSWER_S)
    visits.tick(now + 2 * visiting.ANSWER_S)
    assert pipes[slow].aborted
    assert not pipes[asking].aborted


async def test_silent_connections_keep_nobody_out(live: Live) -> None:
    node = await alone(live)
    address = node.network.admin_address("b1")
    assert address is not None
    silent = [await asyncio.open_connection(*address) for _ in range(80)]
    for _, writer in silent[:40]:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: local")
    said: Said = await ask(node)
    assert said.status == 200
    assert node.door is not None
    assert len(node.door.visits) <= 64
    assert node.host.journal.counters["http_evicted"] >= 16
    for _, writer in silent:
        writer.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100 + b"\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"b" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
async def test_what_is_no_request_is_told_so(live: Live, request_bytes: bytes) -> None:
    node = await alone(live)
    answer = await raw(node, request_bytes)
    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert b"this is no request that can be read" in answer
    assert (await ask(node)).status == 200
    assert not node.host.journal.counters["failures"]
    assert node.host.journal.counters["bad_http"] == 1


# --- packages ------------------------------------------------------------------------------------


def test_nothing_is_loaded_where_nothing_listens() -> None:
    code = (
        "import sys, reefcast.server.node, reefcast.cli.main, reefcast.cli.broker\n"
        "print([m for m in ('aiohttp', 'prometheus_client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_missing_package_is_named(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("broker_door", "door"):
        monkeypatch.delitem(sys.modules, f"reefcast.server.web.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(LocalError, match=r"an admin listener needs more packages .aiohttp"):
        Node(with_admin(path_network(1)), "b1")
