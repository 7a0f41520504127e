"""What clients ask for is logged by their brokers, and storages are placed by that log."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import reefcast
from live_networks import PATIENCE_S, path_network, running, until
from live_storages import numbers, published, storing, until_found, until_stored
from reefcast.cli.plan import command
from reefcast.client.connecting import Connecting
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import RequestsSection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def logging_network(directory: Path, **section: float) -> NetworkFile:
    requests = RequestsSection(directory=str(directory), **section)
    return msgspec.structs.replace(path_network(3), requests=requests).validate()


def logged(directory: Path) -> Counter[tuple[str, str]]:
    """Return how many requests were logged, by broker and topic."""
    found: Counter[tuple[str, str]] = Counter()
    for file in directory.glob("[!.]*.parquet"):
        table = pq.read_table(file)
        pairs = zip(table["broker"].to_pylist(), table["topic"].to_pylist(), strict=True)
        found.update(pairs)
    return found


def asking(url: str) -> Connecting:
    """Connect a client that asks once, however long the answer takes: a question that is asked
    again is another row."""
    return reefcast.connect(url, history_patience_s=PATIENCE_S)


async def ask(url: str, *topics: str) -> None:
    async with asking(url) as client:
        await until_found(client)
        for topic in topics:
            await numbers(client.history(f"topic MATCHES '{topic}'"))


async def some_requests(network: NetworkFile, directory: Path) -> Counter[tuple[str, str]]:
    """Ask as clients of several brokers, and return the rows that must be logged; `until_found`
    asks for fx once more each time."""
    async with running(network) as urls, storing(urls[2], directory / "one", ("fx", "a/#")) as one:
        await published(urls[0], 5)
        await until_stored(one, 5)
        async with storing(urls[0], directory / "two", ("fx",)):  # which catches up
            pass
        await ask(urls[0], "fx", "fx", "a/b")
        await ask(urls[1], "a/+")
    return Counter({("b1", "fx"): 3, ("b1", "a/b"): 1, ("b2", "fx"): 1, ("b2", "a/+"): 1})


async def test_each_request_of_a_client_is_a_row(tmp_path: Path) -> None:
    expected = await some_requests(logging_network(tmp_path / "log"), tmp_path)
    assert logged(tmp_path / "log") == expected


async def test_rows_are_written_while_brokers_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with (
        running(logging_network(log, flush_s=0.1)) as urls,
        storing(urls[0], tmp_path / "one"),
    ):
        await ask(urls[1], "fx")
        await until(lambda: logged(log) == {("b2", "fx"): 2})


async def test_an_answer_that_goes_on_elsewhere_is_no_other_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is longer than what a storage may send at once, so that it breaks off in the
    middle."""
    monkeypatch.setattr("reefcast.history.asking.WINDOW", 64)
    log, count = tmp_path / "log", 1000
    async with (
        running(logging_network(log)) as urls,
        storing(urls[2], tmp_path / "far") as far,
        asking(urls[0]) as client,
        AsyncExitStack() as stack,
    ):
        near = await stack.enter_async_context(storing(urls[1], tmp_path / "near"))
        await published(urls[0], count)
        await until_stored(far, count)
        await until_stored(near, count)
        events = client.history("topic = 'fx'")
        first = await numbers(events, 10)
        await stack.aclose()
        assert first + await numbers(events) == list(range(count))
    assert logged(log) == {("b1", "fx"): 1}


@pytest.mark.spark
async def test_a_placement_takes_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """The command reads it, with the Spark session that this process has already."""
    network = logging_network(tmp_path / "log")
    await some_requests(network, tmp_path)
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    limits = ("--copies", "1", "--capacity", "2", "--json")
    asked = ("placement", str(file), "--log", str(tmp_path / "log"), *limits)
    done = await asyncio.to_thread(CliRunner().invoke, command, asked)
    assert done.exit_code == 0, done.output
    plan = json.loads(done.output)
    assert plan["weights"] == pytest.approx({"fx": 4 / 6, "a/b": 1 / 6, "a/+": 1 / 6})
    kept = {topic: each["broker"] for each in plan["storages"] for topic in each["topics"]}
    assert kept.keys() == {"fx", "a/b", "a/+"} and kept["fx"] == "b1"
