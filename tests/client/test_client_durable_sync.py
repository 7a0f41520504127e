"""Durable sessions in programs without asyncio, against a real broker in the test's loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reefcast
from documentation import DOCS, Page
from live_networks import PATIENCE_S, make_network, running
from reefcast.network.sections import SessionsSection


async def beside(directory: Path, work: Callable[[str], object]) -> None:
    """Run `work` in a thread, with the URL of a broker that has a disk."""
    network = make_network("a")
    network.sessions = SessionsSection(directory=str(directory))
    async with running(network) as [url], asyncio.timeout(PATIENCE_S):
        await asyncio.to_thread(work, url)


async def test_all_that_a_session_does(tmp_path: Path) -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client:
            with client.session("billing", max_deliveries=2, prefetch=10) as session:
                assert (session.name, session.subscribe("n > 0", timeout=30)) == ("billing", 1)
                for n in range(1, 6):
                    client.publish(n=n, payload=b"p")
                client.flush()
                first = next(session)
                assert (first["n"], first.payload, first.position) == (1, b"p", 1)
                assert (first.deliveries, first.redelivered, first.late) == (1, False, False)
                first.ack(timeout=30, wait=True)
                with pytest.raises(ZeroDivisionError), session.processing() as event:
                    assert event["n"] == 2
                    raise ZeroDivisionError
                third = session.next(timeout=30)
                assert third is not None
                rest = third
                while rest["n"] != 5:
                    rest = next(session)
                session.ack_up_to(rest, wait=True)
                again = next(session)
                assert (again["n"], again.deliveries, session.ended) == (2, 2, False)
                assert session.in_hand == [again.position]
                session.reject_position(again.position)
                assert (session.in_hand, session.waiting) == ([], 0)
                with pytest.raises(TimeoutError):
                    session.next(timeout=0.01)
                [letter] = session.look(dead=True)
                assert letter.event["n"] == 2
                assert session.move_dead_letters() == 1
                with session.processing() as event:
                    assert event["n"] == 2
                client.publish(n=6, confirm=True)
                client.publish(n=7, confirm=True)
                batch = session.next_batch(timeout=30)
                while len(batch) < 2:
                    batch += session.next_batch(timeout=30)
                assert [event["n"] for event in batch] == [6, 7]
                session.ack_positions([event.position for event in batch], wait=True, timeout=30)
                assert session.look() == []
                session.flush(timeout=30)
                assert session.drop_dead_letters() == session.drain() == 0
                session.resize(5)
                session.unsubscribe("n > 0")
                assert session.status().subscriptions == {}
                session.detach()
                assert session.status().consumers == {}
            assert [row.name for row in client.sessions()] == ["billing"]
            session.close()
            assert client.sessions() == []

    await beside(tmp_path, work)


async def test_in_hand_is_what_the_program_has_read(tmp_path: Path) -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client, client.session("billing") as session:
            session.subscribe("n > 0")
            for n in range(1, 4):
                client.publish(n=n, confirm=True)
            read = [next(session).position]
            while session.waiting < 2:
                session.flush()
            read.append(next(session).position)
            assert (session.in_hand, session.waiting) == (read, 1)

    await beside(tmp_path, work)


async def test_the_loop_of_the_page(tmp_path: Path, capsys: Any) -> None:
    """The loop is that of docs/how-to/use-durable-sessions.md."""
    page = Page(DOCS / "how-to" / "use-durable-sessions.md")
    [block] = [block.text for block in page.blocks() if block.about == _ME]
    block = block.replace("            event.ack()", "            event.ack()\n            break")

    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client:
            client.session("billing").subscribe("kind = 'order'")
            client.publish(kind="order", number=7)
            client.flush()
        exec(re.sub(r"reefcast://[\d.:]+", url, block), {"reefcast": reefcast})

    await beside(tmp_path, work)
    assert capsys.readouterr().out == "bill order 7\n"


_ME = "tests/client/test_client_durable_sync.py"
