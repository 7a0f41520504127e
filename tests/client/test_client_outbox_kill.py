"""Publishers that are killed: what is in their outbox file arrives, once and in order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import reefcast
from children import Children, line_of
from live_networks import PATIENCE_S, make_network, running
from reefcast.client.outbox_file import read_outbox
from reefcast.network.sections import SessionsSection

PROGRAM = """
import asyncio, sys
import reefcast

async def main():
    url, outbox = sys.argv[1:]
    async with reefcast.connect(url, outbox=outbox) as client:
        async def publish():
            for _ in range(100_000):
                _, seq = await client.publish(x=1)
                print(seq, flush=True)
        await asyncio.gather(*(publish() for _ in range(4)))

asyncio.run(main())
"""


async def published(children: Children, program: Path, url: str, outbox: Path, count: int) -> int:
    """Let a publisher take at least `count` events, kill it, and return the last number taken."""
    process = await children.start_file(program, url, str(outbox))
    assert process.stdout is not None
    last = 0
    for _ in range(count):
        last = max(last, int(await line_of(process.stdout)))
    process.kill()
    async for line in process.stdout:
        if line.endswith(b"\n"):
            last = max(last, int(line))
    await process.wait()
    return last


async def kill_publishers(tmp_path: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    program, outbox = tmp_path / "publisher.py", tmp_path / "orders.outbox"
    program.write_text(PROGRAM)
    network = make_network("a")
    network.sessions = SessionsSection(directory=str(tmp_path / "sessions"))
    async with (
        Children() as children,
        running(network) as [url],
        reefcast.connect(url) as client,
    ):
        await (await client.session("billing")).subscribe("x = 1")
        last = 0
        for _ in range(kills):
            last = await published(children, program, url, outbox, rng.randint(1, 60))
        left = read_outbox(outbox)
        assert left.last_seq >= last
        async with reefcast.connect(url, outbox=str(outbox)) as publisher:
            await publisher.all_done()
            assert publisher.unconfirmed == 0
        [row] = await client.sessions()
        assert row.events == left.last_seq
        seqs = []
        async for event in client.session("billing", prefetch=1000):
            assert event.id[0] == left.identity.id
            seqs.append(event.id[1])
            await event.ack()
            if len(seqs) == row.events:
                break
        assert seqs == list(range(1, left.last_seq + 1))
    assert read_outbox(outbox).frames == {}


async def test_what_publish_took_arrives_once_and_in_order(tmp_path: Path) -> None:
    await kill_publishers(tmp_path, 3, 1)


@pytest.mark.soak
async def test_fifty_kills(tmp_path: Path) -> None:
    await kill_publishers(tmp_path, 50, 2)


def publish_without_asyncio(url: str, outbox: str) -> None:
    with reefcast.sync.connect(url, outbox=outbox) as client:
        _, seq = client.publish(x=6)
        assert client.publish_many([{"x": 7}]).first_seq == seq + 1
        client.all_done(timeout=PATIENCE_S)
        assert client._client.unconfirmed == 0


async def test_while_the_broker_is_away_events_stay_in_the_file(tmp_path: Path) -> None:
    outbox = tmp_path / "orders.outbox"
    network = make_network("a")
    network.sessions = SessionsSection(directory=str(tmp_path / "sessions"))
    async with running(network) as [url]:
        async with reefcast.connect(url) as client:
            await (await client.session("billing")).subscribe("x > 0")
        publisher = reefcast.connect(url, outbox=str(outbox), close_timeout_s=0.2)
        client = await publisher
        await client.publish(x=1, confirm=True)
    # The broker is gone: what is published now stays in the file.
    await client.publish(x=2)
    await client.publish_many([{"x": 3}, {"x": 4}])
    await client.close()
    assert sorted(read_outbox(outbox).frames) == [2, 3, 4]
    async with running(network) as [url]:
        async with reefcast.connect(url, outbox=str(outbox)) as client:
            await client.publish(x=5, confirm=True)
        await asyncio.to_thread(publish_without_asyncio, url, str(outbox))
        async with reefcast.connect(url) as client:
            session = client.session("billing")
            seen = []
            async for event in session:
                seen.append(event["x"])
                await event.ack()
                if len(seen) == 7:
                    break
            assert seen == [1, 2, 3, 4, 5, 6, 7]
