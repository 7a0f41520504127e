"""`reefcast storage` and `reefcast history` against a real broker."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from children import Children, ended, line_of
from live_networks import path_network, running, until
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with running(path_network(2)) as urls:
        yield urls[1]


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def test_what_was_published_is_printed_later(
    url: str, children: Children, tmp_path: Path
) -> None:
    arguments = (url, "fx", "orders/#", "--directory", tmp_path, "--index", "n=number", "--json")
    storage = await children.start("storage", *arguments)
    answers: list[str] = []
    while answers != ["fx", "orders/#"]:
        answers = json.loads(await line_of(storage.stdout))["topics"]
    for n in range(3):
        await children.run("publish", url, f"n={n}", "--topic", "orders/1")
    asked = ("history", url, "topic MATCHES 'orders/+' AND n > 0", "--json")
    output = ""
    while len(output.splitlines()) < 2:  # what is published is stored a moment later
        code, output, errors = await children.run(*asked)
        assert code == 0, errors
    assert [json.loads(line)["attributes"] for line in output.splitlines()] == [{"n": 1}, {"n": 2}]
    storage.send_signal(signal.SIGKILL)
    await ended(storage)
    storage = await children.start("storage", *arguments)
    while json.loads(await line_of(storage.stdout))["topics"] != answers:
        pass
    code, output, errors = await children.run(*asked, "--limit", 1)
    assert (code, json.loads(output)["attributes"]) == (0, {"n": 1})
    assert errors == "reefcast: 1 event\n"
    storage.send_signal(signal.SIGTERM)
    assert (await ended(storage))[0] == 0


async def test_what_is_wrong_is_said(url: str, children: Children, tmp_path: Path) -> None:
    code, _, errors = await children.run("history", url, "topic = 'x'")
    assert code
    assert "nobody stores 'x'" in errors
    code, _, errors = await children.run("history", url, "n > 1")
    assert code
    assert "say which: topic = '...'" in errors
    code, _, errors = await children.run("storage", url, "a/#/b", "--directory", tmp_path)
    assert code
    assert "# must be the whole last level" in errors
    code, _, errors = await children.run(
        "storage", url, "x", "--directory", tmp_path, "--index", "price"
    )
    assert code
    assert "write it as price=number" in errors


async def test_days_are_sealed_and_topics_forgotten(
    url: str, children: Children, tmp_path: Path
) -> None:
    """One storage seals (`--seal-after 10`), the other one forgets (`--forget`)."""
    for name, options in (
        ("one", ("--seal-after", 10)),
        ("other", ("--seal-after", 1e10, "--forget")),
    ):
        store = HistoryStore(tmp_path / name, lambda error: None)
        for topic in ("fx", "b"):
            event = Publication("p", 1, 1_577_836_800_000_000, {}, (topic,))
            store.append([Incoming(encode_publication(event))])
        store.close()
        process = await children.start(
            "storage", url, "fx", "--directory", tmp_path / name, *options, "--json"
        )
        await line_of(process.stdout)
        await until(partial(is_kept, tmp_path / name, name))
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0


def is_kept(directory: Path, name: str) -> bool:
    """Return whether the days are sealed (storage "one"), or the other topics are gone (storage
    "other")."""
    if name == "one":
        return len(list(directory.glob("segments/*/*.parquet"))) == 1
    database = sqlite3.connect(directory / "history.sqlite")
    rows = dict(database.execute("SELECT name, rows FROM topic"))
    database.close()
    return rows == {"fx": 1, "b": 0} and not (directory / "segments").exists()
