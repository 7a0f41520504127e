"""The admin listener of a storage: what it answers while the storage comes, works and goes; who may
ask."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

import reefcast
from asking_http import Said, ask, labels, raw, scrape
from live_networks import PATIENCE_S, path_network, running, until, url_of
from live_storages import complain, numbers, published
from reefcast.errors import ConfigurationError
from reefcast.history.limits import Limits
from reefcast.history.messages import Request
from reefcast.history.store import HistoryStore
from reefcast.network.file import NetworkFile, dump_network, read_network
from reefcast.network.sections import RoleEntry, StorageEntry
from reefcast.server.metrics import definitions as common
from reefcast.server.supervisor import free_ports
from reefcast.storage_node import metric_definitions as of
from reefcast.storage_node.observed import Observed
from reefcast.storage_node.process import Keeping, Shown, serve_store
from reefcast.tls.identity import storage_uri
from secured import PASSWORD, secured
from tls_files import HERE, Office

FLAG = frozenset[tuple[str, str]]()


def with_storage(network: NetworkFile, folder: Path, **given: Any) -> NetworkFile:
    """The network with the storage s1 at b1, which has an admin listener on loopback."""
    [port] = free_ports(1)
    made = {"admin": f"127.0.0.1:{port}", "topics": ["fx", "orders/#"], **given}
    network.storage = [StorageEntry("s1", "b1", directory=str(folder / "s1"), **made)]
    return network.validate()


def basic(user: str) -> dict[str, str]:
    shown = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    return {"Authorization": f"Basic {shown}"}


def address_of(network: NetworkFile) -> tuple[str, int]:
    address = network.storage[0].admin_address
    assert address is not None
    return address


@asynccontextmanager
async def serving(
    network: NetworkFile, file: Path | None = None, **options: Any
) -> AsyncIterator[Observed]:
    """Run s1 as its process does; yield what operators see of it."""
    entry, stop = network.storage[0], asyncio.Event()
    async with Shown(network, entry, file).observed() as observed:
        assert observed is not None
        serve = serve_store(
            *(url_of(network, "b1"), entry.topics),
            *(Keeping(directory=Path(entry.directory), limits=Limits()), entry.joining, stop),
            name="s1",
            network=network.network.name,
            shown=options,
            ready=lambda node: None,
            observed=observed,
        )
        task = asyncio.create_task(serve)
        try:
            yield observed
        finally:
            stop.set()
            await task


async def until_ready(observed: Observed) -> None:
    await until(lambda: not observed.not_ready())


# --- what it answers ------------------------------------------------------------------------------


async def test_it_is_ready_when_it_answers_for_its_topics(tmp_path: Path) -> None:
    network = with_storage(path_network(1), tmp_path)
    at = address_of(network)
    async with serving(network) as observed:
        said = await ask(at, "/readyz")
        assert (await ask(at, "/healthz")).body == b"alive\n"
        assert (said.status, said.body) == (
            503,
            b"not ready: it opens its history, and looks for its broker\n",
        )
        async with running(network):
            await until_ready(observed)
            assert (await ask(at, "/readyz")).body == b"ready\n"
            assert (await scrape(at))[of.CONNECTED.name] == {FLAG: 1}
        await until(observed.not_ready)
        assert (await ask(at, "/readyz")).body == b"not ready: it is not connected to its broker\n"
        assert (await scrape(at))[common.READY.name] == {FLAG: 0}
        observed.stopping = True
        assert (await ask(at, "/readyz")).body == b"not ready: it was told to stop\n"
    with pytest.raises(OSError, match="onnect"):
        await ask(at)


async def test_figures_and_status_are_what_happened(tmp_path: Path) -> None:
    network = with_storage(path_network(1), tmp_path)
    at = address_of(network)
    async with running(network) as [url], serving(network) as observed:
        await until_ready(observed)
        await published(url, 3)
        await published(url, 2, topic="orders/1")
        await until(lambda: observed.counters["events_of_subscription"] == 5)
        async with reefcast.connect(url) as client:
            assert await numbers(client.history("topic = 'fx'")) == [0, 1, 2]
            await until(lambda: observed.counters["requests_answered"])
            node = observed._node
            assert node is not None
            request = Request(id=(client.id, 99), storage=node.id, topics=("fx",), filter="a ==")
            node.handle(request)
        seen, status = await scrape(at), (await ask(at, "/status")).json
    assert seen[of.STORED.name] == {
        labels(source="subscription"): 5,
        labels(source="storages"): 0,
    }
    assert seen[of.REQUESTS.name] == {
        labels(outcome="answered"): 1,
        labels(outcome="refused"): 1,
        labels(outcome="cancelled"): 0,
        labels(outcome="failed"): 0,
    }
    assert seen[of.TOPICS.name] == {
        labels(state="answering"): 2,
        labels(state="taking_over"): 0,
        labels(state="catching_up"): 0,
    }
    assert seen[of.ROWS.name] == {FLAG: 5}
    assert seen[of.STORED_BYTES.name] == seen[of.ROW_BYTES.name]
    assert seen[of.STORED_BYTES.name][FLAG] > 5 * 10
    assert 0 <= seen[of.NEWEST_AGE.name][FLAG] < 600
    assert seen[of.DISK_BYTES.name][FLAG] > seen[of.ROW_BYTES.name][FLAG]
    assert seen[of.DISK_FREE.name][FLAG] > 0
    assert seen[of.SEGMENTS.name] == seen[of.WAITING.name] == seen[of.RUNNING.name] == {FLAG: 0}
    [info] = seen[of.INFO.name]
    assert {("storage", "s1"), ("network", "test"), ("broker", "b1")} < info
    assert seen["process_cpu_seconds_total"][FLAG] > 0
    known = {name for metric in of.METRICS for name in metric.sample_names}
    shared = {name for metric in of.SHARED for name in metric.sample_names}
    ours = {name for name in seen if name.startswith("reefcast_")}
    assert known <= ours <= known | shared
    left = {common.EVENTS.name, common.CERTIFICATE.name}  # nothing else was counted; no TLS
    assert shared - ours == left
    assert status["storage"] == "s1"
    assert status["answers"] == status["topics"] == ["fx", "orders/#"]
    assert status["ready"] is status["connected"] is True
    assert status["joins"] == status["silent"] == []
    assert status["history"]["rows"] == 5
    assert status["counters"]["requests_answered"] == 1


async def test_what_it_takes_over_and_nobody_has(tmp_path: Path) -> None:
    """Others certainly have what is joining, so it does not begin without them."""
    network = with_storage(path_network(1), tmp_path, joining=["fx"])
    at = address_of(network)
    async with running(network), serving(network) as observed:
        await until(lambda: observed.status()["answers"] == ["orders/#"])
        said: Said = await ask(at, "/readyz")
        assert said.body == b"not ready: it does not answer for 1 of its 2 topics yet\n"
        status = (await ask(at, "/status")).json
        states = (await scrape(at))[of.TOPICS.name]
    assert status["joins"] == ["fx"]
    assert states[labels(state="taking_over")] == states[labels(state="answering")] == 1


async def test_what_it_fetched_from_another_counts_apart(tmp_path: Path) -> None:
    network = with_storage(path_network(1), tmp_path, topics=["fx"])
    other = NetworkFile(network=network.network, broker=network.broker)
    with_storage(other, tmp_path / "other", topics=["fx"])
    async with running(network) as [url], serving(other) as first:
        await until_ready(first)
        await published(url, 4)
        await until(lambda: first.counters["events_of_subscription"] == 4)
        async with serving(network) as second:
            await until(lambda: second.counters["events_of_storages"] == 4)
            await until_ready(second)


def test_counts_go_on_when_it_starts_again(tmp_path: Path) -> None:
    observed = Observed(StorageEntry("s1", "b1", ["fx"], str(tmp_path)), "test")

    class Ended:
        counters: ClassVar = {"event_bytes": 7}

    for _ in range(2):
        observed.attached(Ended())  # type: ignore[arg-type]  # the part that is looked at
        observed.failed("damaged")
        observed.ended()
    assert observed.counters["event_bytes"] == 14
    assert observed.status()["restarts"] == {"damaged": 2}
    assert observed.not_ready()


async def test_paths_are_those_of_brokers_but_for_the_dashboard(tmp_path: Path) -> None:
    network = with_storage(path_network(1), tmp_path)
    at = address_of(network)
    async with Shown(network, network.storage[0]).observed():
        said = await ask(at, "/")
        assert said.status == 404
        assert said.body.endswith(b"there is /metrics, /status, /healthz, /readyz\n")
        assert (await ask(at, "/api/live")).status == 404
        assert (await ask(at, "/metrics", method="POST")).status == 405
        assert (await ask(at, "/metrics", method="HEAD")).status == 200
        assert (await ask(at, "/status", {"Host": "evil.example"})).status == 421
        assert b"this is no request" in await raw(at, b"GET\r\n\r\n")
        assert (await scrape(at))[common.BAD_HTTP.name] == {FLAG: 1}
        with pytest.raises(ConfigurationError, match="storage s1 cannot listen on"):
            async with Shown(network, network.storage[0]).observed():
                pass


async def test_what_fails_is_logged_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    network = with_storage(path_network(1), tmp_path)
    at = address_of(network)
    async with Shown(network, network.storage[0]).observed() as observed:
        monkeypatch.setattr(observed, "status", lambda: 1 // 0)
        said = await ask(at, "/status")
        failures = (await scrape(at))[common.FAILURES.name]
    assert said.body == b"the storage failed on this request; its log says how\n"
    assert "storage s1 failed to answer an HTTP request" in caplog.text
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.__dict__["about"]["storage"] == "s1"
    assert failures == {FLAG: 1}


# --- who may ask ----------------------------------------------------------------------------------


async def test_users_with_the_right_may_ask_and_are_followed(tmp_path: Path) -> None:
    network = secured(tmp_path)
    network.role = [RoleEntry("fx-desk"), RoleEntry("administrator", rights=["status"])]
    with_storage(network, tmp_path)
    at, file = address_of(network), tmp_path / "net.toml"
    key = str(tmp_path / "network.key")
    file.write_text(dump_network(network))
    async with running(network), serving(network, file, network_key=key) as observed:
        await until_ready(observed)
        assert (await ask(at, "/readyz")).status == 200
        for path in ("/metrics", "/status"):
            assert (await ask(at, path)).status == 401
            assert (await ask(at, path, basic("anna"))).status == 403
            assert (await ask(at, path, basic("otto"))).status == 200
        assert (await scrape(at, basic("otto")))[common.PROOFS_FAILED.name] == {FLAG: 2}
        roles = [RoleEntry("fx-desk", rights=["status"]), RoleEntry("administrator")]
        file.write_text(dump_network(replace(network, role=roles)))
        async with asyncio.timeout(PATIENCE_S):
            while (await ask(at, "/status", basic("anna"))).status != 200:  # noqa: ASYNC110 (a file)
                await asyncio.sleep(0.02)
        assert (await ask(at, "/status", basic("otto"))).status == 403
    lines = [
        json.loads(line) for line in (tmp_path / "audit" / "s1.jsonl").read_text().splitlines()
    ]
    assert {line["storage"] for line in lines} == {"s1"}
    assert {line["user"] for line in lines if line["event"] == "connected"} == {"otto", "anna"}
    assert {line["role"] for line in lines} == {"http"}


async def test_with_tls_it_shows_its_own_certificate(tmp_path: Path) -> None:
    office = Office(tmp_path)
    network = with_storage(office.secured(path_network(1)), tmp_path)
    at = address_of(network)
    office.issue("s1", storage_uri("test", "s1"), HERE)
    trusting = ssl.create_default_context(cafile=office.file)
    async with Shown(network, network.storage[0]).observed():
        found = await scrape(at, tls=trusting)
        plain = await ask(at)
    assert found[common.CERTIFICATE.name][FLAG] > 1e9
    assert plain.status == 400
    assert b"this listener speaks TLS" in plain.body
    office.broker("test", "s1")
    with pytest.raises(ConfigurationError, match="does not say that it is for storage s1"):
        async with Shown(network, network.storage[0]).observed():
            pass


# --- the network file -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("admin", "says"),
    [
        ("0.0.0.0:9464", "storage s1 would show its status on 0.0.0.0, which others can reach"),
        ("127.0.0.1", "storage s1: admin = '127.0.0.1' is not host:port"),
        ("127.0.0.1:7301", "127.0.0.1:7301 of storage s1 is where a broker listens"),
        ("127.0.0.1:9464", "broker b1 and storage s1 are both on 127.0.0.1"),
        ("127.0.0.1:9465", "storage s1 and storage s2 are both .* as admin in its .*storage"),
        ("127.0.0.1:9470", ""),
    ],
)
def test_addresses_that_it_may_not_have(admin: str, says: str) -> None:
    storage = '[[storage]]\nname = "{}"\nbroker = "b1"\ntopics = ["a"]\ndirectory = "{}"\n'
    text = '[[broker]]\nname = "b1"\nlisten = "127.0.0.1:7301"\nadmin = "127.0.0.1:9464"\n'
    text += storage.format("s1", "1") + f'admin = "{admin}"\n'
    text += storage.format("s2", "2") + 'admin = "127.0.0.1:9465"\n'
    if not says:
        network = read_network(text)
        assert network.storage[0].admin_address == ("127.0.0.1", 9470)
        assert read_network(dump_network(network)) == network
        return
    with pytest.raises(ConfigurationError, match=says):
        read_network(text)


def test_names_and_machines(tmp_path: Path) -> None:
    network = path_network(1)
    with pytest.raises(ConfigurationError, match="so their audit logs would be one file"):
        with_storage(network, tmp_path).storage[0].name = "b1"
        network.validate()
    network.network.insecure = True
    network.admin.listen = "0.0.0.0:9464"
    network.storage = [  # pods: each has a machine of its own
        StorageEntry(name, "b1", ["a"], name, admin="0.0.0.0:9464") for name in ("s1", "s2")
    ]
    network.validate()


def test_a_history_tells_what_it_has(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, complain)
    has = store.contents()
    store.close()
    assert has[:4] == (0, 0, 0, 0)
    assert has.newest_us is None
    assert has.disk_bytes > 0
