"""Clients that publish and receive many events at once, with a scripted broker and with real
ones."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from fake_broker import FakeBroker

import reefcast
from live_networks import path_network, running, until
from reefcast.client import Client
from reefcast.model.messages import Refused
from reefcast.sync import BACKLOG

QUICK = {"backoff_first_s": 0.005, "backoff_max_s": 0.02}


def rows(count: int, first: int = 0) -> list[dict[str, int]]:
    return [{"i": i} for i in range(first, first + count)]


def numbers(broker: FakeBroker) -> list[int]:
    return [publication.seq for publication in broker.publications]


# --- publishing -----------------------------------------------------------------------------------


@pytest.fixture
async def broker():
    async with FakeBroker(credit=10) as broker:
        broker.tops_up = False
        yield broker


@pytest.fixture
async def client(broker):
    client = await reefcast.connect(broker.url, close_timeout_s=0.5, **QUICK)
    yield client
    await client._stop()


async def test_a_batch_takes_credit_and_others_wait_behind_it(
    broker: FakeBroker, client: Client
) -> None:
    first = asyncio.create_task(client.publish_many(rows(25)))
    await broker.until(lambda: len(broker.publications) == 10)
    second = asyncio.create_task(client.publish(i=25))
    third = asyncio.create_task(client.publish_many(pa.table({"i": [26, 27]})))
    await asyncio.sleep(0)
    assert not (first.done() or second.done() or third.done()) and client.unacknowledged <= 25
    broker.send(reefcast.model.wire.FrameKind.CREDIT, 15)
    assert await first == (client.id, 1, 25)
    assert not second.done(), "published without credit"
    broker.send(reefcast.model.wire.FrameKind.CREDIT, 10)
    assert await second == (client.id, 26)
    assert await third == (client.id, 27, 2)
    await client.flush(timeout=10)
    assert numbers(broker) == [*range(1, 29)]
    assert [each.attributes["i"] for each in broker.publications] == [*range(28)]
    assert len({each.time_us for each in broker.publications[:25]}) == 1


async def test_nothing_of_a_batch_with_a_wrong_row_is_published(
    broker: FakeBroker, client: Client
) -> None:
    with pytest.raises(reefcast.InvalidValueError, match=r"^row 2: attribute 'i'"):
        await client.publish_many([*rows(2), {"i": [1]}])
    assert client.unacknowledged == 0
    assert await client.publish(i=0) == (client.id, 1)
    assert await client.publish_many([]) == (client.id, 2, 0)


async def test_a_wait_that_is_cancelled_takes_nothing_back(
    broker: FakeBroker, client: Client
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await client.publish_many(rows(15))
    broker.send(reefcast.model.wire.FrameKind.CREDIT, 10)
    await client.flush(timeout=10)
    assert await client.publish(i=15) == (client.id, 16)
    await client.flush(timeout=10)
    assert numbers(broker) == [*range(1, 17)]


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_a_broker_did_not_take_over_goes_again(
    broker: FakeBroker, client: Client, restarts: bool
) -> None:
    publishing = asyncio.create_task(client.publish_many(rows(25)))
    await broker.until(lambda: len(broker.publications) == 10)
    await until(lambda: client.unacknowledged == 15)
    broker.credit = 100
    if restarts:
        broker.restart()
    else:
        broker.drop()
    await publishing
    await client.flush(timeout=10)
    assert numbers(broker) == [*range(1, 26)]


async def test_a_batch_that_waits_hears_that_the_client_has_ended(
    broker: FakeBroker, client: Client
) -> None:
    publishing = asyncio.create_task(client.publish_many(rows(11)))
    await broker.until(lambda: len(broker.publications) == 10)
    await client._stop()
    with pytest.raises(reefcast.LocalError, match="has been closed"):
        await publishing


async def test_refused_rows_are_named(broker: FakeBroker, client: Client) -> None:
    await client.publish(i=0)
    await client.publish_many(rows(5))
    for seq in (1, 3, 6):
        broker.send_control(Refused(0, "not advertised", (client.id, seq)))
    await until(lambda: len(client._session.refusals) == 3)
    with pytest.raises(reefcast.RefusedError) as caught:
        await client.publish_many(rows(1))
    assert str(caught.value) == (
        "3 publications were refused; the first: publication 1 was refused: not advertised; the "
        "others: publication 3 (row 1 of a batch of 5), publication 6 (row 4 of a batch of 5)"
    )
    assert caught.value.publications == ((client.id, 1), (client.id, 3), (client.id, 6))
    assert client._outbox.seq == 6, "some of the refused batch was published"
    broker.send_control(Refused(0, "no", (client.id, 2)))
    await until(lambda: client._session.refusals)
    with pytest.raises(
        reefcast.RefusedError, match=r"^publication 2 \(row 0 of a batch of 5\) was refused: no$"
    ):
        await client.flush()


# --- receiving ------------------------------------------------------------------------------------


async def test_tables_of_a_subscription() -> None:
    async with (
        running(path_network(2)) as [one, other],
        asyncio.timeout(60),
        reefcast.connect(one) as publisher,
        reefcast.connect(other, local_queue_limit=500) as subscriber,
    ):
        subscription = await subscriber.subscribe("i >= 0")
        filling = asyncio.create_task(subscription.next_table(max_rows=400, max_wait_s=60))
        await publisher.publish_many(rows(300))
        await publisher.publish_many(pa.table({"i": range(300, 1000)}), topics=["t"])
        table = await filling
        assert table.to_pylist() == rows(400)
        seen = 400
        while seen < 1000:
            table = await subscription.next_table(max_rows=64, seq_column="seq")
            assert 0 < table.num_rows <= 64
            assert table["i"].to_pylist() == [*range(seen, seen + table.num_rows)]
            assert table["seq"].to_pylist() == [*range(seen + 1, seen + 1 + table.num_rows)]
            seen += table.num_rows
        await publisher.publish(i=1000, seq=5)
        with pytest.raises(reefcast.InvalidValueError, match="two columns 'seq'"):
            await subscription.next_table(seq_column="seq")
        assert (await anext(subscription))["seq"] == 5, "the event was dropped by the error"
        with pytest.raises(reefcast.InvalidValueError, match="max_rows is 0"):
            await subscription.next_table(max_rows=0)
        await publisher.publish(i=7)
        await until(lambda: subscription.waiting)
        await subscriber.close()
        table = await subscription.next_table(max_rows=5, max_wait_s=60)
        assert table.to_pylist() == [{"i": 7}], "the end of the client did not end the wait"
        with pytest.raises(StopAsyncIteration):
            await subscription.next_table()


async def test_a_table_is_not_waited_for_longer_than_it_may() -> None:
    async with (
        running(path_network(1)) as [url],
        asyncio.timeout(60),
        reefcast.connect(url, local_queue_limit=10) as client,
    ):
        subscription = await client.subscribe("TRUE")
        await client.publish(i=0)
        table = await subscription.next_table(max_wait_s=0.01)
        assert table.num_rows == 1
        await client.publish_many(rows(12))
        table = await subscription.next_table(max_wait_s=600)
        assert table.num_rows >= 10, "the full queue did not end the wait"


async def test_two_read_tables_of_one_subscription() -> None:
    async with (
        running(path_network(1)) as [url],
        asyncio.timeout(60),
        reefcast.connect(url) as client,
    ):
        subscription = await client.subscribe("TRUE")
        read = [
            asyncio.create_task(subscription.next_table(max_rows=5, max_wait_s=60))
            for _ in range(2)
        ]
        await client.publish_many(rows(5))
        await asyncio.wait(read, return_when=asyncio.FIRST_COMPLETED)
        await client.publish_many(rows(5, 5))
        tables = await asyncio.gather(*read)
        assert sorted(i for table in tables for i in table["i"].to_pylist()) == [*range(10)]


async def test_a_batch_is_judged_by_advertisements() -> None:
    async with (
        running(path_network(1)) as [url],
        asyncio.timeout(60),
        reefcast.connect(url) as client,
    ):
        subscription = await client.subscribe("TRUE")
        await client.advertise("i < 3")
        await client.publish_many(rows(5))
        await until(lambda: len(client._session.refusals) == 2)
        with pytest.raises(reefcast.RefusedError, match=r"row 3 of a batch of 5.*row 4"):
            await client.flush()
        got = [(await anext(subscription))["i"] for _ in range(3)]
        assert got == [0, 1, 2] and not subscription.waiting


# --- the synchronous twin -------------------------------------------------------------------------


async def test_the_synchronous_twin() -> None:
    def work(url: str) -> None:
        with (
            reefcast.sync.connect(url, local_queue_limit=10_000) as reader,
            reefcast.sync.connect(url) as writer,
        ):
            subscription = reader.subscribe("i >= 0")
            subscription.settled()
            with pytest.raises(TimeoutError):
                subscription.next_table(0.01)
            many = 3 * BACKLOG
            assert writer.publish_many(rows(many)) == (writer.id, 1, many)
            assert writer.publish(i=many) == (writer.id, many + 1)
            with pytest.raises(reefcast.InvalidValueError, match=r"^row 1"):
                writer.publish_many([{"i": 1}, {"i": b""}])
            table = pa.table({"i": [many + 1, many + 2], "p": [b"x", None]})
            assert writer.publish_many(table, payload_column="p") == (writer.id, many + 2, 2)
            first = subscription.next_table(10, max_rows=many, max_wait_s=60)
            assert first is not None and first["i"].to_pylist() == [*range(many)]
            rest = subscription.next_table(10, max_rows=3, max_wait_s=60, payload_column="p")
            assert rest is not None
            assert rest["i"].to_pylist() == [many, many + 1, many + 2]
            assert rest["p"].to_pylist() == [b"", b"x", b""]
            writer.publish(i=1, p=2)
            with pytest.raises(reefcast.InvalidValueError, match="two columns 'p'"):
                subscription.next_table(10, payload_column="p")
            event = subscription.next(10)
            assert event is not None and event["p"] == 2, "the event was dropped by the error"
            subscription.cancel()
            assert subscription.next_table() is None

    async with running(path_network(1)) as [url], asyncio.timeout(60):
        await asyncio.to_thread(work, url)


async def test_batches_of_several_threads_stay_whole() -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url, local_queue_limit=10_000) as client:
            subscription = client.subscribe("TRUE")
            subscription.settled()
            found = []

            def publish(thread: int) -> None:
                for _ in range(10):
                    batch = [{"thread": thread, "row": row} for row in range(150)]
                    found.append((thread, client.publish_many(batch)))

            threads = [threading.Thread(target=publish, args=(i,)) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            table = subscription.next_table(10, max_rows=4500, max_wait_s=60, seq_column="seq")
            assert table is not None and table["seq"].to_pylist() == [*range(1, 4501)]
            threads_of = table["thread"].to_pylist()
            for thread, ids in found:
                rows_of = slice(ids.first_seq - 1, ids.first_seq - 1 + ids.size)
                assert set(threads_of[rows_of]) == {thread}

    async with running(path_network(1)) as [url], asyncio.timeout(60):
        await asyncio.to_thread(work, url)


# --- without pyarrow ------------------------------------------------------------------------------

BARE = """
import sys
sys.modules["pyarrow"] = None
import asyncio, reefcast
from reefcast.client.batches import encode_batch
from reefcast.client.blocks import Special
from reefcast.client.handles import Subscription

assert len(encode_batch("p", 1, 0, [{"x": 1}, {"x": 2.5}], Special())) == 2
assert not {"numpy", "pandas"} & set(sys.modules)

class Table:
    def __arrow_c_stream__(self, schema=None): ...

for work in (
    lambda: encode_batch("p", 1, 0, Table(), Special()),
    lambda: asyncio.run(Subscription.next_table(None)),
):
    try:
        work()
    except reefcast.LocalError as error:
        print(error)
"""


def test_a_bare_client_says_what_tables_need() -> None:
    result = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        f"{what} needs more packages (pyarrow is not installed): pip install 'reefcast[broker]'"
        for what in ("publish_many of a table", "next_table")
    ]
