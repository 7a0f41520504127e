"""`reefcast session` and `reefcast subscribe --session` against a real broker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import reefcast
from children import Children
from live_networks import make_network, running
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
        assert first.startswith("billing  owner anonymous  1 subscriptions  0 consumers  2 events")
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
        assert (output, errors) == ("", "reefcast: there are no durable sessions\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("session", "list", "billing"), "reefcast session show billing"),
        (("session", "show"), "Missing argument 'NAME'"),
        (("session", "close", "a", "b"), "one NAME, please"),
        (("subscribe", "--session", "s", "--order", "1"), "not for a durable session"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(group, arguments)
    assert result.exit_code == 2 and says in result.output
