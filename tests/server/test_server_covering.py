"""Covering among live brokers: what they tell each other, and what their clients get meanwhile.

Subscribers, and the monitor that comes and goes, are at b1, the head of the line b1 - b2 - ...
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live, make_scot
from raw_client import RawClient, expect

from children import Children, ended, line_of
from live_networks import linked, path_network, until
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile, dump_network
from reefcast.server.node import Node
from reefcast.statistics.store import BATCH, SET_ASIDE

STRATEGIES = ("none", "lazy", "active", "packing", "incremental")
ENOUGH = 46
"""How many false positives in a row end a ghost with the default theta."""
MIXTURE = ("lazy", "incremental", "none", "active", "packing")
"""The strategies of b1 to b5."""
MIXED = "/".join(MIXTURE)


def line(folder: Path, covering: str, brokers: int = 5) -> NetworkFile:
    """Return b1 - b2 - ...; `covering`: the strategy of all, or of each in turn, separated by
    slashes."""
    network = path_network(brokers)
    first, *others = covering.split("/")
    network.routing["covering"] = first
    for entry, own in zip(network.broker[1:], others, strict=False):
        entry.routing["covering"] = own
    network.statistics.directory = str(folder / "statistics")
    return network.validate()


def told(node: Node, table: str = "PRT") -> list[tuple[Any, ...]]:
    """Return the rows of a table, as an operator gets them."""
    rows: Any = node.status(StatusRequest((table,)))["rows"]
    return [tuple(row) for row in rows[table]["rows"]]


def prt_filters(nodes: dict[str, Node]) -> list[list[str]]:
    """Return the filters in the PRT of each broker, b1 first."""
    return [sorted(row[1] for row in told(node)) for _, node in sorted(nodes.items())]


def counted(node: Node) -> dict[str, int]:
    """Return the counters that are not 0."""
    counts: Any = node.status(StatusRequest())["counted"]
    return {words: number for words, number in counts.items() if number}


async def publisher_at(live: Live, node: Node, filter: str = "x >= 0") -> RawClient:
    client = await live.client(node, f"p-{node.name}")
    await client.advertise(filter)
    return client


# --- what neighbours are told ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("covering", "broad_first", "broad_last"),
    [
        ("none", [3, 3, 3, 3, 3], [3, 3, 3, 3, 3]),
        ("lazy", [3, 1, 1, 1, 1], [3, 3, 3, 3, 3]),
        *((strategy, [3, 1, 1, 1, 1], [3, 1, 1, 1, 1]) for strategy in STRATEGIES[2:]),
        # b1 quenches lazily, b2 cleans up behind it.
        (MIXED, [3, 1, 1, 1, 1], [3, 3, 1, 1, 1]),
    ],
)
async def test_what_is_covered_is_not_forwarded(
    live: Live, tmp_path: Path, covering: str, broad_first: list[int], broad_last: list[int]
):
    nodes = await live.up(line(tmp_path, covering))
    publisher = await publisher_at(live, nodes["b5"])
    subscriber = await live.client(nodes["b1"], "s")
    filters = ["x > 2", "x = 3", "x = 4"]
    for order, expected in ((filters, broad_first), (filters[::-1], broad_last)):
        numbers = {await subscriber.subscribe(filter): filter for filter in order}
        assert [len(told(node)) for _, node in sorted(nodes.items())] == expected
        for x in (0, 4):
            publisher.publish(x=x)
        got, event = await subscriber.delivery()
        assert event.attributes["x"] == 4
        assert sorted(numbers[number] for number in got) == ["x = 4", "x > 2"]
        for number in numbers:
            await subscriber.unsubscribe(number)
        # Nobody wants them any more, and nothing is left behind by those who went first.
        assert prt_filters(nodes) == [[]] * 5


async def test_an_operator_is_told_what_covering_did(live: Live, tmp_path: Path):
    nodes = await live.up(line(tmp_path, "active", 2))
    await publisher_at(live, nodes["b2"])
    subscriber = await live.client(nodes["b1"], "s")
    await subscriber.subscribe("x = 3")
    broad = await subscriber.subscribe("x > 2")
    await subscriber.subscribe("x = 4")
    assert counted(nodes["b1"]) == {"replaced": 1, "quenched": 1}
    await subscriber.unsubscribe(broad)
    assert counted(nodes["b1"]) == {"replaced": 1, "quenched": 1, "NRS": 2}
    assert counted(nodes["b2"]) == {}


@pytest.mark.parametrize("routing", ["spr", "idr"])
@pytest.mark.parametrize(("covering", "rows"), [("none", 3), *((s, 1) for s in STRATEGIES[1:4])])
async def test_in_the_clusters_of_a_scot(live: Live, routing: str, covering: str, rows: int):
    network = make_scot("path:2", 2, routing=routing)
    network.routing["covering"] = covering
    nodes = await live.up(network.validate())
    publisher = await publisher_at(live, nodes["b2-1"])
    subscriber = await live.client(nodes["b1-0"], "s")
    broad = await subscriber.subscribe("x > 2")
    narrow = [await subscriber.subscribe(filter) for filter in ("x = 3", "x = 4")]
    for wants, left in (([broad, narrow[1]], rows), ([narrow[1]], 2)):
        assert len(told(nodes["b2-0"])) == left
        publisher.publish(x=0)
        publisher.publish(x=4)
        numbers, event = await subscriber.delivery()
        assert (list(numbers), event.attributes["x"]) == (wants, 4)
        if left == rows:
            await subscriber.unsubscribe(broad)


# --- while publications flow ----------------------------------------------------------------------


async def all_of(client: RawClient, publishers: int, last: int) -> list[tuple[str, int]]:
    """Return what the client gets, up to publication `last` of each publisher."""
    got: list[tuple[str, int]] = []
    while sum(seq == last for _, seq in got) < publishers:
        got.append((await client.delivery())[1].id)
    return got


@pytest.mark.parametrize("covering", [*STRATEGIES, MIXED])
async def test_while_a_monitor_comes_and_goes_nobody_misses_anything_and_nothing_comes_twice(
    live: Live, tmp_path: Path, covering: str
):
    nodes = await live.up(line(tmp_path, covering))
    publishers = [await publisher_at(live, nodes[name]) for name in ("b3", "b5")]
    settled = {"x = 3": "b1", "x > 2": "b2", "x < 4 AND x > 1": "b1", "x = 3 OR x = 0": "b5"}
    clients = {filter: await live.client(nodes[name], filter) for filter, name in settled.items()}
    for filter, client in clients.items():
        await client.subscribe(filter)
    monitor = await live.client(nodes["b1"], "monitor")
    published: list[tuple[int, int]] = []

    def publish(count: int) -> None:
        for x in itertools.islice(itertools.cycle((0, 1, 2, 3, 4, 5)), count):
            for publisher in publishers:
                publisher.publish(x=x)
            published.append((len(published) + 1, x))

    for _ in range(12):
        coming = asyncio.create_task(monitor.subscribe("x >= 0"))
        publish(3)  # while it comes
        number = await coming
        since = len(published)
        publish(24)
        got = await all_of(monitor, len(publishers), len(published))
        for publisher in publishers:
            mine = [seq for name, seq in got if name == publisher.name]
            expect(mine, mine[0], len(published))  # the first ones were under way as it came
            assert mine[0] <= since + 1
        going = asyncio.create_task(monitor.unsubscribe(number))
        publish(3)
        await going
        monitor.inbox.clear()  # all that came before the answer
    publish(4)  # the last is for all
    matches = {
        "x = 3": {3},
        "x > 2": {3, 4, 5},
        "x < 4 AND x > 1": {2, 3},
        "x = 3 OR x = 0": {0, 3},
    }
    for filter, client in clients.items():
        got = await all_of(client, len(publishers), len(published))
        wanted = [seq for seq, x in published if x in matches[filter]]
        for publisher in publishers:
            assert [seq for name, seq in got if name == publisher.name] == wanted, filter


# --- incremental ----------------------------------------------------------------------------------


async def watched(live: Live, nodes: dict[str, Node]) -> tuple[RawClient, RawClient, int]:
    """Connect a publisher at b5 and a monitor at b1, which has received as much of what b1 wants (x
    = 1) as of what b3 wants (x = 2): its unsubscription must go the two hops to b3. Return both,
    and the number of the monitor's subscription."""
    publisher = await publisher_at(live, nodes["b5"])
    for filter, name in (("x = 1", "b1"), ("x = 2", "b3")):
        client = await live.client(nodes[name], filter)
        await client.subscribe(filter)
    monitor = await live.client(nodes["b1"], "monitor")
    number = await monitor.subscribe("x > 0")
    await watch(publisher, monitor)
    return publisher, monitor, number


async def watch(publisher: RawClient, monitor: RawClient) -> None:
    for _ in range(BATCH):
        publisher.publish(x=1)
        publisher.publish(x=2)
    expect(await monitor.seqs_of(2 * BATCH), 1, 2 * BATCH)


PRESERVED = [["x = 1"], ["x = 1"], ["x = 1", "x = 2"], ["x > 0"], ["x > 0"]]
"""The PRTs when the unsubscription has stopped at b3: beyond it the ghost stands for the other
subscriptions."""


async def test_an_unsubscription_stops_where_others_want_the_same(live: Live, tmp_path: Path):
    nodes = await live.up(line(tmp_path, "incremental"))
    publisher, monitor, number = await watched(live, nodes)
    await monitor.unsubscribe(number)
    assert prt_filters(nodes) == PRESERVED
    assert told(nodes["b3"], "ghosts") == [("monitor#1", "x > 0", "b4", 2, "0 of 0")]
    assert counted(nodes["b3"])["preserved"] == 1
    for x in (3, 2, 3, 1):
        publisher.publish(x=x)
    publisher.publish(x=7)
    await until(lambda: nodes["b3"].host.core.counters["false_positive"] == 3)
    assert told(nodes["b3"], "ghosts")[0][-1] == "3 of 5"
    assert not any(node.host.core.counters["false_positive"] for node in others(nodes, "b3"))


def others(nodes: dict[str, Node], name: str) -> list[Node]:
    return [node for other, node in nodes.items() if other != name]


async def test_a_ghost_is_collected_when_a_live_subscription_covers_it(live: Live, tmp_path: Path):
    nodes = await live.up(line(tmp_path, "incremental"))
    _, monitor, number = await watched(live, nodes)
    await monitor.unsubscribe(number)
    broader = await live.client(nodes["b2"], "broader")
    await broader.subscribe("x > -1")
    beyond = [["x = 2", "x > -1"], ["x > -1"], ["x > -1"]]
    assert prt_filters(nodes) == [["x = 1"], ["x = 1", "x > -1"], *beyond]
    assert told(nodes["b3"], "ghosts") == []
    assert counted(nodes["b3"])["collected"] == 1


async def test_a_ghost_with_too_many_false_positives_moves_upstream_and_goes(
    live: Live, tmp_path: Path
):
    nodes = await live.up(line(tmp_path, "incremental"))
    publisher, monitor, number = await watched(live, nodes)
    await monitor.unsubscribe(number)
    precise = ["x = 1", "x = 2"]
    for at, prts in ((3, [["x > 0"]]), (4, [])):
        publisher.publish(ENOUGH, x=9)
        await until(lambda at=at: counted(nodes[f"b{at}"]).get("collected"))
        upstream = [precise] * (2 - len(prts)) + prts
        await until(lambda upstream=upstream: prt_filters(nodes)[3:] == upstream)
        assert nodes[f"b{at}"].host.core.counters["false_positive"] >= ENOUGH
    assert not any(told(node, "ghosts") for node in nodes.values())
    publisher.publish(ENOUGH, x=9)
    await until(lambda: nodes["b5"].host.core.counters["unwanted"] == ENOUGH)


# --- the file of statistics -----------------------------------------------------------------------


@asynccontextmanager
async def process_of(
    file: Path, name: str, end: signal.Signals
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the broker in a process of its own, which gets the signal `end` at the end."""
    async with Children() as children:
        process = await children.start("broker", file, name, stdin=None, stderr=None)
        assert b"listens" in await line_of(process.stdout)
        yield process
        process.send_signal(end)
        await ended(process)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_statistics_outlive_the_process_of_their_broker(
    live: Live, tmp_path: Path, end: signal.Signals
):
    network = line(tmp_path, "incremental")
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    nodes = {name: await live.node(network, name) for name in network.names[1:]}
    for life in (1, 2):
        async with process_of(file, "b1", end):
            await linked(nodes.values())
            if life == 1:
                publisher = await publisher_at(live, nodes["b5"])
                here = await live.client(nodes["b3"], "x = 2")
                await here.subscribe("x = 2")
            clients = {}
            for name in ("x = 1", "x > 0"):
                clients[name] = await RawClient.connect(network.address("b1"), name, f"life {life}")
                clients[name].numbers = itertools.count(100 * life)
                number = await clients[name].subscribe(name)
            if life == 1:
                await watch(publisher, clients["x > 0"])
            else:
                await clients["x > 0"].unsubscribe(number)
                assert [row[:3] for row in told(nodes["b3"], "ghosts")] == [
                    ("x > 0#200", "x > 0", "b4")
                ]
        assert (tmp_path / "statistics" / "b1.sqlite").exists()
        for client in clients.values():
            await client.close()
    assert [len(told(nodes[name], "ghosts")) for name in ("b2", "b4", "b5")] == [0, 0, 0]


async def test_without_records_the_unsubscription_ends_at_once(live: Live, tmp_path: Path):
    """The control for the test before: there are no records."""
    nodes = await live.up(line(tmp_path, "incremental"))
    await publisher_at(live, nodes["b5"])
    client = await live.client(nodes["b1"], "s")
    await client.subscribe("x = 1")
    await client.unsubscribe(await client.subscribe("x > 0"))
    assert prt_filters(nodes) == [["x = 1"]] + [["x > 0"]] * 4
    assert [row[:3] for row in told(nodes["b1"], "ghosts")] == [("s#2", "x > 0", "b2")]


async def test_a_damaged_file_is_set_aside_and_the_broker_runs(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    network = line(tmp_path, "incremental", 2)
    file = tmp_path / "statistics" / "b1.sqlite"
    file.parent.mkdir()
    file.write_bytes(b"no database" * 1000)
    nodes = await live.up(network)
    assert f"the statistics {file} cannot be used" in caplog.text
    assert "b1.sqlite.damaged, and a new file was begun" in caplog.text
    assert file.with_name(file.name + SET_ASIDE).read_bytes() == b"no database" * 1000
    publisher = await publisher_at(live, nodes["b2"])
    subscriber = await live.client(nodes["b1"], "s")
    await subscriber.subscribe("x > 0")
    publisher.publish(x=1)
    expect(await subscriber.seqs_of(1), 1, 1)


async def test_only_brokers_that_prune_have_a_file(live: Live, tmp_path: Path):
    await live.up(line(tmp_path, "lazy/incremental", 2))
    assert [file.name for file in (tmp_path / "statistics").glob("*.sqlite")] == ["b2.sqlite"]
