"""`reefcast network roll` and `drain`: a running network whose brokers are started again, one at a
time."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

import reefcast
from children import Children, ended, line_of
from live_networks import path_network, url_of
from reefcast.cli.main import group
from reefcast.cli.network_drain import in_words
from reefcast.cli.network_roll import missing
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import SessionsSection

LAST = 1_000_000
"""The number of the event that ends a load."""


async def invoke(*words: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, group, ["network", *map(str, words)])


class Load:
    """Confirmed events from one end of a path, for a durable session whose home is the other end,
    and for a subscriber without one in the middle."""

    def __init__(self, network: NetworkFile) -> None:
        self.publisher = reefcast.connect(url_of(network, "b1"))
        self.consumer = reefcast.connect(url_of(network, "b3"))
        self.watcher = reefcast.connect(url_of(network, "b2"))
        self.published, self.stop = 0, False
        self.owed: list[int] = []
        self.seen: list[int] = []

    async def run(self, started: asyncio.Event) -> None:
        async with self.publisher as publisher, self.consumer as consumer, self.watcher as watcher:
            session = await consumer.session("orders")
            await session.subscribe("n > 0")
            subscription = await watcher.subscribe("n > 0")
            watching = asyncio.create_task(self._watch(subscription))
            consuming = asyncio.create_task(self._consume(session))
            started.set()
            while not self.stop:
                self.published += 1
                await publisher.publish(n=self.published, confirm=True)
                await asyncio.sleep(0.005)
            await publisher.publish(n=LAST, confirm=True)
            await consuming
            await watching

    async def _consume(self, session: reefcast.DurableSession) -> None:
        while LAST not in self.owed:
            async with session.processing() as event:
                self.owed.append(event["n"])

    async def _watch(self, subscription: reefcast.Subscription) -> None:
        while LAST not in self.seen:
            self.seen.append((await anext(subscription))["n"])


async def test_a_network_is_rolled_under_load(tmp_path: Path) -> None:
    """No event is lost, or comes twice, with and without a durable session; nobody's program sees
    an error; each broker has what needed a restart."""
    network, file = path_network(3), tmp_path / "net.toml"
    network.sessions = SessionsSection(directory=str(tmp_path / "sessions"))
    file.write_text(dump_network(network), encoding="utf-8")
    async with Children() as children:
        up = await children.start("network", "up", file, "--json")
        told = json.loads(await line_of(up.stdout))
        before = {each["broker"]: each["pid"] for each in told["brokers"]}
        load, started = Load(network), asyncio.Event()
        running = asyncio.create_task(load.run(started))
        await started.wait()
        changed = replace(network, sessions=replace(network.sessions, dedup_s=7.0))
        file.write_text(dump_network(changed), encoding="utf-8")
        assert (await invoke("apply", file)).exit_code == 1
        done = await invoke("roll", file, "--json")
        assert done.exit_code == 0, done.output
        rows = json.loads(done.stdout)
        assert [row["broker"] for row in rows] == ["b1", "b2", "b3"]
        assert all(row["pid"] != before[row["broker"]] and not row["why"] for row in rows)
        assert (await invoke("apply", file)).exit_code == 0
        load.stop = True
        await running
        assert load.owed == [*range(1, load.published + 1), LAST] and load.published > 10
        assert load.seen == load.owed
        # A broker keeps its durable sessions when it is drained, and takes clients again.
        drained = await invoke("drain", file, "b3", "--json")
        assert drained.exit_code == 0, drained.output
        assert json.loads(drained.stdout)["state"] == "empty"
        assert len(json.loads(drained.stdout)["homes"]) == 1
        again = await invoke("drain", file, "b3", "--undo")
        assert (again.exit_code, again.stdout) == (0, "b3 takes clients\n")
        up.send_signal(signal.SIGTERM)
        assert (await ended(up))[0] == 0


async def test_a_network_that_is_not_whole_is_not_rolled(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(dump_network(path_network(2)), encoding="utf-8")
    done = await invoke("roll", file)
    assert done.exit_code == 1
    assert done.stdout == (
        "b1 was not started again: first these must be up: broker b1, broker b2\n"
    )


def test_what_is_missing_has_names() -> None:
    link = {"link": "b", "state": "down"}
    status = {"relearning": True, "stopping": False, "links": [link]}
    assert missing(
        {
            "a": {**status, "lst": {"b": {"kind": "primary"}}},
            "b": {**status, "relearning": False, "lst": {"b": {"kind": "soft"}}},
        }
    ) == ["broker a (it relearns)", "link a - b"]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"clients": 2, "custody": 1}, "b still has 2 clients and 1 publication in custody"),
        ({"homes": ["x/y"]}, "b is empty; on its disk is 1 durable session: x/y"),
        (
            {"homes": [str(n) for n in range(12)]},
            "sessions: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more",
        ),
    ],
)
def test_how_far_a_broker_is_drained(state: dict[str, object], said: str) -> None:
    full = {"state": "draining", "clients": 0, "custody": 0, "homes": [], **state}
    assert in_words("b", full).endswith(said)
