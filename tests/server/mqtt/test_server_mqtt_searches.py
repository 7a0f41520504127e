"""How often MQTT clients may have the network searched for their sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from live_networks import linked, make_network
from mqtt_clients import MqttPlace
from mqtt_statements import fresh
from reefcast.mqtt.packets import MQTT_3_1_1, MQTT_5
from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.network.sections import SessionsSection
from reefcast.server.mqtt.searches import MOST_WAIT_S, SearchRates
from reefcast.server.node import Node


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[MqttPlace]:
    """Two brokers; MQTT clients connect to the first."""
    network = make_network("ab", [("a", "b")], user_searches_per_s=0.01)
    network.sessions = SessionsSection(directory=str(tmp_path / "{broker}"))
    nodes = [Node(network, name) for name in "ab"]
    place = MqttPlace(nodes[0])
    async with AsyncExitStack() as stack:
        for each in nodes:
            await each.start()
            stack.push_async_callback(each.stop)
        await linked(nodes)
        yield place


async def test_more_than_the_limit_are_told_to_come_again(place: MqttPlace) -> None:
    name = fresh("client")
    fields = {"clean_start": False, "session_expiry_interval": 100}
    await (await place.client(name, **fields)).leave()
    for version, reason in (
        (MQTT_5, Reason.CONNECTION_RATE_EXCEEDED),
        (MQTT_3_1_1, Reason.SERVER_UNAVAILABLE),
    ):
        answer = await place.refusal(version, client_id=fresh("client"))
        assert answer.reason is reason
    assert "user_searches_per_s" in (
        (await place.refusal(client_id=name + "x")).properties.reason_string or ""
    )
    await place.client()  # who gets a new identifier has no session, and wants none
    answer = await place.refusal(session_expiry_interval=100)
    assert answer.reason is Reason.CONNECTION_RATE_EXCEEDED
    assert (await place.client(name, **fields)).connack.session_present  # it is at this broker


async def test_who_waits_is_answered(place: MqttPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchRates, "wait_s", lambda *_: 0.01)
    assert not (await place.client(fresh("client"))).connack.session_present


def test_waits_become_longer_and_end() -> None:
    rates = SearchRates()
    waits = [rates.wait_s("u", 2.0, 0.0) for _ in range(9)]
    assert waits == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, MOST_WAIT_S]
    with pytest.raises(MqttError, match="more than 2 times a second"):
        rates.wait_s("u", 2.0, 0.0)
    assert rates.wait_s("other", 2.0, 0.0) == 0.0
    assert rates.wait_s("u", 2.0, 1.0) == 2.5
    assert rates.wait_s("u", 0.0, 1.0) == 0.0
    assert rates.wait_s("u", 2.0, 1.0) == 0.0
    rates.forget_old(0.0)
    assert rates._buckets
    rates.forget_old(100.0)
    assert not rates._buckets
