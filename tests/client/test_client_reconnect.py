"""Connections that break and come back, with a scripted broker."""

from __future__ import annotations

import asyncio

import pytest
from fake_broker import FakeBroker

import reefcast
from live_networks import until
from reefcast.client import Client
from reefcast.model.messages import Advertise, Refused, Settled, Subscribe, Unsubscribe
from reefcast.model.wire import Close, FrameKind

QUICK = {"backoff_first_s": 0.005, "backoff_max_s": 0.02}


@pytest.fixture
async def broker():
    async with FakeBroker() as broker:
        yield broker


@pytest.fixture
async def client(broker):
    client = await reefcast.connect(broker.url, close_timeout_s=0.5, **QUICK)
    yield client
    await client._stop()


async def back(client: Client, broker: FakeBroker, connections: int = 2) -> None:
    """Wait until the client has connected for the second time."""
    await until(lambda: client.connected and len(broker.hellos) >= connections)


def numbers(broker: FakeBroker) -> list[int]:
    return [publication.seq for publication in broker.publications]


async def test_filters_are_told_anew_under_fresh_numbers_advertisements_first(
    broker: FakeBroker, client: Client
) -> None:
    subscription = await client.subscribe("x = 1", "x = 2")
    advertisement = await client.advertise("x > 0")
    gone = await client.subscribe("x = 3")
    await gone.cancel()
    before = len(broker.controls)
    broker.drop()
    await back(client, broker)
    await subscription.settled()
    await advertisement.settled()
    again = list(broker.controls)[before:]
    assert [(type(m), m.filter) for m in again] == [
        (Advertise, "x > 0"),
        (Subscribe, "x = 1"),
        (Subscribe, "x = 2"),
    ]
    everything = [m.id[1] for m in broker.controls if not isinstance(m, Unsubscribe)]
    assert everything == sorted(set(everything))
    broker.deliver(subscription.numbers, x=1)
    assert (await anext(subscription))["x"] == 1


async def test_the_same_broker_process_gets_every_publication_exactly_once(
    broker: FakeBroker, client: Client
) -> None:
    await client.subscribe("TRUE")  # control messages are counted too
    for i in range(10):
        await client.publish(i=i)
    await client.flush()
    for i in range(10, 20):
        await client.publish(i=i)
    # Ten more are taken over, but the connection goes before the acknowledgement does.
    await broker.until(lambda: len(broker.publications) == 20)
    broker.acknowledges = False
    for i in range(20, 30):
        await client.publish(i=i)
    broker.drop()
    broker.acknowledges = True
    await client.flush(timeout=10)
    assert numbers(broker) == list(range(1, 31))
    assert client.unacknowledged == 0


async def test_frames_that_were_taken_over_but_not_acknowledged_are_not_sent_again(
    broker: FakeBroker, client: Client
) -> None:
    broker.acknowledge = lambda: None
    for i in range(5):
        await client.publish(i=i)
    await broker.until(lambda: len(broker.publications) == 5)
    assert client.unacknowledged == 5
    broker.drop()
    await client.flush(timeout=10)
    assert numbers(broker) == [1, 2, 3, 4, 5]


async def test_a_restarted_broker_gets_again_what_was_not_acknowledged(
    broker: FakeBroker, client: Client
) -> None:
    await client.publish(i=0)
    await client.flush()
    broker.acknowledge = lambda: None
    for i in range(1, 5):
        await client.publish(i=i)
    await broker.until(lambda: len(broker.publications) == 5)
    del broker.acknowledge
    broker.restart()
    await client.flush(timeout=10)
    assert numbers(broker) == [1, 2, 3, 4, 5, 2, 3, 4, 5]
    assert broker.resent == [2, 3, 4, 5]  # marked, so that subscribers drop what they have had


async def test_a_second_broker_stands_by() -> None:
    async with FakeBroker() as first, FakeBroker(session="second") as second:
        client = await reefcast.connect(f"{first.url},{second.url}", **QUICK)
        subscription = await client.subscribe("TRUE")
        await client.publish(i=0)
        await client.flush()
        await first.stop()
        await back(client, second, 1)
        await subscription.settled(timeout=10)
        await client.publish(i=1)
        await client.close()
    assert (numbers(first), numbers(second)) == ([1], [2])
    assert len(second.standing()) == 1


async def test_resent_publications_need_credit_and_nothing_overtakes_them() -> None:
    async with FakeBroker(credit=20) as broker:
        broker.acknowledges = broker.tops_up = False
        client = await reefcast.connect(broker.url, **QUICK)
        for i in range(20):
            await client.publish(i=i)
        broker.credit, broker.acknowledges = 3, True
        broker.drop()
        await back(client, broker)
        publishing = asyncio.create_task(client.publish(i=20))
        await broker.until(lambda: len(broker.publications) == 3)
        broker.tops_up = True
        broker.send(FrameKind.CREDIT, 2)
        await publishing
        await client.close()
    assert numbers(broker) == list(range(1, 22))


async def test_settled_waits_across_a_reconnect(broker: FakeBroker, client: Client) -> None:
    broker.answers = False
    subscription = client.subscribe("x = 1")
    settling = asyncio.create_task(subscription.settled())
    await broker.until(lambda: len(broker.controls) == 1)
    broker.drop()
    await back(client, broker)
    await broker.until(lambda: len(broker.controls) == 2)
    broker.send_control(Settled(broker.controls[0].token))  # of the old connection: not ours
    await asyncio.sleep(0.02)
    assert not settling.done()
    broker.send_control(Settled(broker.controls[1].token))
    await asyncio.wait_for(settling, 10)


async def test_a_filter_taken_back_while_the_connection_is_away_stays_away(
    broker: FakeBroker, client: Client
) -> None:
    subscription = await client.subscribe("x = 1", "x = 2")
    await broker.stop()
    await until(lambda: not client.connected)
    await subscription.remove("x = 1")
    fresh = client.subscribe("x = 3")
    publishing = asyncio.create_task(client.publish(x=1))
    broker.controls.clear()
    await broker.listen()
    await fresh.settled(timeout=10)
    await publishing
    assert [filter for _, filter in broker.standing()] == ["x = 2", "x = 3"]


async def test_settled_gives_up_after_its_timeout(broker: FakeBroker, client: Client) -> None:
    broker.answers = False
    subscription = client.subscribe("x = 1")
    with pytest.raises(TimeoutError):
        await subscription.settled(timeout=0.02)


async def test_a_refused_subscription_raises_where_it_is_awaited_and_where_it_is_read(
    broker: FakeBroker, client: Client
) -> None:
    broker.answers = False
    awaited, read = client.subscribe("x = 1"), client.subscribe("x = 2")
    await broker.until(lambda: len(broker.controls) == 2)
    for message in list(broker.controls):
        broker.send_control(Refused(message.token, "this routing needs a topic"))
    with pytest.raises(reefcast.RefusedError, match=r"'x = 1' was refused: .* needs a topic"):
        await awaited
    with pytest.raises(reefcast.RefusedError, match="'x = 2'"):
        await anext(read)


async def test_a_refused_filter_more_leaves_the_others_alone(
    broker: FakeBroker, client: Client
) -> None:
    subscription = await client.subscribe("x = 1")
    broker.answers = False
    adding = asyncio.create_task(subscription.replace("x = 1", "x = 2"))
    await broker.until(lambda: len(broker.controls) == 2)
    broker.send_control(Refused(broker.controls[1].token, "no"))
    with pytest.raises(reefcast.RefusedError):
        await adding
    assert subscription.filters == ("x = 1",)
    broker.deliver(subscription.numbers, x=1)
    assert (await anext(subscription))["x"] == 1


async def test_callbacks_tell_of_the_connection_and_their_errors_do_no_harm(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    def on_disconnect() -> None:
        seen.append(("gone", client.connected))
        raise ValueError("of the application")

    client = await reefcast.connect(
        broker.url,
        on_disconnect=on_disconnect,
        on_reconnect=lambda: seen.append(("back", client.connected)),
        **QUICK,
    )
    broker.drop()
    await until(lambda: len(seen) == 2)
    await client.close()
    assert seen == [("gone", False), ("back", True)]
    assert "a callback of the application failed" in caplog.text


async def test_after_the_reconnect_timeout_everything_that_waits_is_told(
    broker: FakeBroker,
) -> None:
    client = await reefcast.connect(broker.url, reconnect_timeout_s=0.1, **QUICK)
    subscription = await client.subscribe("TRUE")
    broker.acknowledges = False
    await client.publish(i=1)
    broker.deliver(subscription.numbers, i=1)
    await until(lambda: subscription.waiting == 1)
    await broker.stop()
    await until(lambda: not client.connected)
    results = await asyncio.gather(
        client.flush(),
        client.publish(i=2),
        client.subscribe("x = 1"),
        read_all(subscription),
        return_exceptions=True,
    )
    assert all(isinstance(result, reefcast.ConnectionLostError) for result in results), results
    assert f"no connection to {broker.url} within 0.1 s" in str(results[0])
    with pytest.raises(reefcast.ConnectionLostError):
        await client.publish(i=3)


async def read_all(subscription: reefcast.Subscription) -> None:
    async for event in subscription:
        assert event["i"] == 1


async def test_what_no_broker_took_over_is_told_at_the_end(broker: FakeBroker) -> None:
    broker.acknowledges = False
    with pytest.raises(reefcast.ConnectionLostError, match="2 publications that no broker"):
        async with reefcast.connect(broker.url, close_timeout_s=0.05) as client:
            await client.publish(i=1)
            await client.publish(i=2)


async def test_what_no_broker_took_over_is_told_though_the_client_ended_before(
    broker: FakeBroker,
) -> None:
    client = await reefcast.connect(broker.url, reconnect_timeout_s=0.05, **QUICK)
    await client.publish(i=1)
    await client.flush()
    broker.acknowledges = False
    await client.publish(i=2)
    await broker.stop()
    await until(lambda: client.ended)
    with pytest.raises(reefcast.ConnectionLostError, match="no connection to"):
        await client.close()


async def test_leaving_with_an_error_does_not_wait(broker: FakeBroker) -> None:
    broker.acknowledges = False
    with pytest.raises(ZeroDivisionError):
        async with reefcast.connect(broker.url) as client:
            await client.publish(i=1 // 0)
    await broker.until(lambda: broker.closings)


async def test_closed_for_good_and_closed_for_now(broker: FakeBroker, client: Client) -> None:
    subscription = await client.subscribe("TRUE")
    broker.send(FrameKind.CLOSE, Close("told to stop", retry=True))
    await back(client, broker)
    await subscription.settled(timeout=10)
    broker.send(FrameKind.CLOSE, Close("your queue is full", retry=False))
    with pytest.raises(reefcast.ConnectionLostError, match="your queue is full"):
        await anext(subscription)


async def test_a_broker_that_breaks_the_protocol_ends_the_client(
    broker: FakeBroker, client: Client
) -> None:
    subscription = await client.subscribe("TRUE")
    broker.send(FrameKind.ACK, 1000)
    with pytest.raises(reefcast.ProtocolError, match="acknowledgement of frame 1000"):
        await anext(subscription)


async def test_an_error_in_the_low_level_receiver_is_the_applications(broker: FakeBroker) -> None:
    def receive(payloads: list[bytes]) -> None:
        raise KeyError("mine")

    client = await reefcast.connect(broker.url, on_deliveries=receive)
    subscription = await client.subscribe("TRUE")
    broker.deliver(subscription.numbers, i=1)
    with pytest.raises(reefcast.LocalError, match=r"on_deliveries failed.*KeyError"):
        await anext(subscription)
    await client.close()


async def test_what_nobody_expected_is_our_fault(
    broker: FakeBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client._session, "_put", None)
    broker.deliver((1,), i=1)
    await until(lambda: client.ended)
    with pytest.raises(reefcast.InternalError, match=r"the client failed: TypeError"):
        await client.publish(x=1)


async def test_nobody_listens() -> None:
    with pytest.raises(
        reefcast.ConnectionLostError, match=r"no connection to reefcast://127.0.0.1:1"
    ):
        await reefcast.connect("reefcast://127.0.0.1:1", connect_timeout_s=0.05)


async def test_a_broker_that_refuses_at_the_door() -> None:
    async with FakeBroker() as broker:
        broker._on_hello = lambda _: broker.send(FrameKind.CLOSE, Close("another network"))
        with pytest.raises(reefcast.RefusedError, match="refused the connection: another network"):
            await reefcast.connect(broker.url)


# --- the time that connecting takes ---------------------------------------------------------------


@pytest.fixture
async def silent():
    """Yield the URL of a port that accepts connections and says nothing."""
    held = []
    server = await asyncio.start_server(lambda *streams: held.append(streams), "127.0.0.1", 0)
    yield f"reefcast://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for _, writer in held:
        writer.transport.abort()


async def test_a_broker_that_says_nothing_takes_no_longer_than_was_allowed(silent: str) -> None:
    async with asyncio.timeout(4):
        with pytest.raises(reefcast.ConnectionLostError, match=r"within 0\.3 s: no answer"):
            await reefcast.connect(silent, connect_timeout_s=0.3)


async def test_a_silent_address_leaves_the_next_its_time(broker: FakeBroker, silent: str) -> None:
    async with asyncio.timeout(4):
        client = await reefcast.connect([silent, broker.url], connect_timeout_s=2)
    assert client.connected
    await client.close()


# --- what is logged -------------------------------------------------------------------------------


async def test_each_loss_and_each_return_is_logged_once(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == "reefcast.client"]

    client = await reefcast.connect(broker.url, name="shop", reconnect_timeout_s=0.2, **QUICK)
    broker.drop()
    await until(lambda: len(told()) == 2)
    await broker.stop()
    await until(lambda: client.ended)
    lost, again, lost_again, given_up = told()
    assert lost.startswith(f"client {client.id} lost its connection to {broker.url}: ")
    assert lost.removesuffix(": ") == lost, "no reason"
    assert again == f"client {client.id} is connected again, to {broker.url}"
    assert lost_again.startswith(f"client {client.id} lost its connection to {broker.url}: ")
    assert f"{client.id} gives up: no connection to {broker.url} within 0.2 s" in given_up
    await client.close()


async def test_a_connection_that_is_closed_is_not_lost(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with reefcast.connect(broker.url) as client:
        await client.subscribe("x = 1")
    assert [r for r in caplog.records if r.name == "reefcast.client"] == []
