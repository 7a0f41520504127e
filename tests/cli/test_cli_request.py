"""`reefcast request` and `reefcast reply` against a real broker."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator

import pytest

from children import Children, ended, line_of
from live_networks import path_network, running


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def test_a_request_and_its_reply(children: Children) -> None:
    async with running(path_network(2)) as [url, other]:
        replier = await children.start(
            "reply", other, "kind = 'price'", "price=99.5", "--topic", "t", "--payload", "p"
        )
        assert await line_of(replier.stderr) == b"reefcast: subscribed\n"
        code, _, _ = await children.run("publish", url, "kind=price")
        assert code == 0  # no request
        for number in (1, 2):
            code, output, errors = await children.run(
                "request", url, "kind=price", f"n={number}", "--json", "--timeout", 60
            )
            reply = json.loads(output)
            assert (code, errors) == (0, "")
            assert reply["attributes"].pop("reply.for").startswith("request-")
            assert reply["attributes"] == {"price": 99.5, "reply.number": 1}
            assert reply["topics"] == ["t"]
            assert f"n={number}".encode() in await line_of(replier.stdout)
        replier.send_signal(signal.SIGINT)
        code, _, errors = await ended(replier)
        assert (code, errors) == (0, "reefcast: 2 replies\n")


async def test_a_request_without_a_reply(children: Children) -> None:
    async with running(path_network(1)) as [url]:
        code, output, errors = await children.run("request", url, "n=1", "--timeout", 0.1)
        assert (code, output, errors) == (1, "", "reefcast: no reply within 0.1 s\n")
        code, _, errors = await children.run("request", url)
        assert code == 2 and "Missing argument 'NAME=VALUE...'" in errors
