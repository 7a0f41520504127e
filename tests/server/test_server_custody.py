"""Custody with real processes: a broker in the middle is killed, and then its custodian."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import reefcast
from live_networks import PATIENCE_S, make_network, url_of
from reefcast.cli.network import command as network_command
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import SessionsSection
from reefcast.server.supervisor import Overlay

QUICK: dict[str, Any] = {"backoff_first_s": 0.005, "backoff_max_s": 0.02}


def publishing(
    network: NetworkFile, broker: str
) -> AbstractAsyncContextManager[reefcast.client.Client]:
    """Connect a publisher that does not wait at its end for what is in custody: that may take
    long."""
    return reefcast.connect(url_of(network, broker), **QUICK, close_timeout_s=PATIENCE_S)


def network_with_disks(directory: Path) -> NetworkFile:
    network = make_network("abc", [("a", "b"), ("b", "c")])
    network.sessions = SessionsSection(directory=str(directory), custody_after_s=0.2)
    return network.validate()


async def ask(file: Path, *arguments: str) -> Result:
    """Run `reefcast network custody` for what a keeps for b."""
    words = ["custody", str(file), "a", "b", *arguments]
    return await asyncio.to_thread(CliRunner().invoke, network_command, words)


async def numbers(client: reefcast.client.Client, count: int) -> list[object]:
    async with client.session("billing") as session, asyncio.timeout(PATIENCE_S):
        found = []
        for _ in range(count):
            event = await anext(session)
            found.append(event["n"])
            await event.ack(wait=True)
        return found


async def test_what_a_broker_keeps_for_one_that_was_killed_arrives_although_it_is_killed_too(
    tmp_path: Path,
) -> None:
    network = network_with_disks(tmp_path / "sessions")
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network))
    async with (
        asyncio.timeout(PATIENCE_S),
        Overlay(network, restart=False) as overlay,
        reefcast.connect(url_of(network, "c"), **QUICK) as consumer,
    ):
        session = await consumer.session("billing")
        await session.subscribe("n > 0")
        async with publishing(network, "a") as publisher:
            await publisher.publish(n=1, confirm=True)
            await overlay.kill("b")
            await publisher.publish(n=2, confirm=True)  # returns: it is in custody
            await publisher.publish(n=3, confirm=True)
            shown = json.loads((await ask(file, "--json")).output)
            assert (shown["waiting"], shown["in_custody"]) == (2, 2), shown
            assert shown["away_s"] > 0
        status = await asyncio.to_thread(CliRunner().invoke, network_command, ["status", str(file)])
        assert "a: 2 publications wait for broker b, down for" in status.output
        await overlay.kill("a")  # nobody but its disk has them now
        await overlay.start("a")
        await overlay.start("b")
        await overlay.linked()
        assert await numbers(consumer, 3) == [1, 2, 3]
        # A new publisher does not wait for a broker that is down, either.
        await overlay.kill("b")
        async with publishing(network, "a") as newcomer:
            await newcomer.publish(n=4, confirm=True)
            await newcomer.publish(n=5, confirm=True)
        dropped = json.loads((await ask(file, "--drop", "--json")).output)
        assert (dropped["dropped"], dropped["in_custody"]) == (2, 0), dropped
        await overlay.start("b")
        await overlay.linked()
        refused = await ask(file, "--reroute")
        assert "is connected" in str(refused.exception)
        async with publishing(network, "a") as newcomer:
            await newcomer.publish(n=6, confirm=True)
        assert await numbers(consumer, 1) == [6]
