"""`reefcast session` and `reefcast subscribe --session` against a real broker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import reefcast
from children import Children, ended, line_of
from live_networks import make_network, running
from live_storages import published, storing, until_found, until_stored
from reefcast.cli.main import group
from reefcast.network.sections import SessionsSection


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    network = make_network("a")
    network.sessions = SessionsSection(directory=str(tmp_path))
    async with running(network) as [url]:
        yield url


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def test_a_session_from_the_command_line(url: str, children: Children) -> None:
    async with reefcast.connect(url) as client:
        session = await client.session("billing", max_deliveries=2)
        await session.subscribe("n > 0")
        for n in range(1, 4):
            await client.publish(n=n)
        await client.flush()
        async with client.session("billing", prefetch=1) as consumer:
            for _ in range(2):
                await (await anext(consumer)).reject()
            await anext(consumer)
            assert (await session.status()).dead_letters == 1

        code, output, _ = await children.run("session", "list", url, "--json")
        [row] = json.loads(output)
        assert (code, row["name"], row["events"], row["dead_letters"]) == (0, "billing", 2, 1)
        assert row["subscriptions"] == [{"number": 1, "filter": "n > 0"}]
        assert row["options"]["max_deliveries"] == 2

        arguments = ("session", "show", url, "billing", "--events", 5, "--dead-letters", 5)
        code, output, _ = await children.run(*arguments)
        first, *lines = output.splitlines()
        assert first.startswith(
            "billing  owner anonymous  home a  1 subscription  0 consumers  2 ev"
        )
        assert "  subscription 1: n > 0" in lines
        assert [line.rsplit("  ", 1)[-1] for line in lines[-3:]] == ["n=2", "n=3", "n=1"]
        _, output, _ = await children.run(*arguments, "--json")
        shown = json.loads(output)
        assert [each["attributes"] for each in shown["queue"]] == [{"n": 2}, {"n": 3}]
        assert [each["attributes"] for each in shown["dead"]] == [{"n": 1}]
        assert shown["dead"][0]["dead"]

        code, output, _ = await children.run("session", "move-dead-letters", url, "billing")
        assert (code, output) == (0, "session billing: 1 event moved\n")
        arguments = ("subscribe", url, "n = 9", "--session", "billing", "--count", 3, "--json")
        code, output, errors = await children.run(*arguments)
        printed = [json.loads(line) for line in output.splitlines()]
        assert [each["attributes"]["n"] for each in printed] == [2, 3, 1]
        assert [(each["position"], each["deliveries"], each["late"]) for each in printed] == [
            (2, 2, False),
            (3, 1, False),
            (4, 1, False),
        ]
        assert (code, errors) == (0, "reefcast: subscribed\nreefcast: 3 events\n")
        assert (await session.status()).subscriptions == {1: "n > 0", 2: "n = 9"}

        _, output, _ = await children.run("session", "drain", url, "billing", "--json")
        assert json.loads(output) == {"session": "billing", "dropped": 0}
        _, output, _ = await children.run("session", "close", url, "billing")
        assert output == "session billing is closed\n"
        code, output, errors = await children.run("session", "show", url, "billing")
        assert code != 0 and "no session 'billing'" in errors
        _, output, errors = await children.run("session", "list", url)
        assert (output, errors) == ("", "reefcast: this broker keeps no durable sessions\n")


async def test_the_past_first_with_and_without_a_session(
    url: str, children: Children, tmp_path: Path
) -> None:
    async with storing(url, tmp_path / "storage") as node, reefcast.connect(url) as client:
        await published(url, 4)
        await until_stored(node, 4)
        await until_found(client)
        [first, second, *_] = [event async for event in client.history("topic = 'fx'")]
        since = (first.time + (second.time - first.time) / 2).isoformat()
        asked = ("subscribe", url, "topic = 'fx'", "--replay", "--handover", 0.2, "--json")

        code, output, errors = await children.run(*asked, "--count", 4)
        assert (code, errors) == (0, "reefcast: subscribed\nreefcast: 4 events\n")
        assert numbers_in(output) == [0, 1, 2, 3]
        reader = await children.start(*asked, "--since", since, "--count", 4)
        output = (await line_of(reader.stdout)).decode()  # the past is on its way
        await published(url, 1, 4)
        output += (await ended(reader))[1]
        assert numbers_in(output) == [1, 2, 3, 4]

        await until_stored(node, 5)
        asked += ("--session", "billing")
        _, output, _ = await children.run(*asked, "--since", since, "--count", 3)
        assert numbers_in(output) == [1, 2, 3]
        _, output, _ = await children.run(*asked, "--count", 2)
        assert numbers_in(output) == [4, 0], "the session gets the events that it lacks"
        assert (await client.session("billing").status()).events == 0


def numbers_in(output: str) -> list[int]:
    return [json.loads(line)["attributes"]["n"] for line in output.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("session", "list", "billing"), "reefcast session show billing"),
        (("session", "show"), "Missing argument 'NAME'"),
        (("session", "close", "a", "b"), "one NAME, please"),
        (("subscribe", "--session", "s", "--order", "1"), "not for a durable session"),
        (("subscribe", "--session", "s", "--replay"), "--replay needs a FILTER"),
        (("subscribe", "topic = 'x'", "--since", "2026-01-31"), "add --replay"),
        (("subscribe", "topic = 'x'", "--replay", "--since", "noon"), "is not a time"),
        (("subscribe", "topic = 'x'", "--replay", "--retained"), "choose one"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(group, arguments)
    assert result.exit_code == 2 and says in result.output
