"""Whose CloudEvents subscriptions a broker serves, and what it delivers to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from live_brokers import Live
from test_server_http_users import ANNA, FX, bearer, place_of, with_http

from http_places import HttpPlace
from live_networks import until
from secured import secured, write_users
from webhook_sinks import sink


@pytest.fixture
async def place(live: Live, tmp_path: Path) -> AsyncIterator[HttpPlace]:
    network = secured(tmp_path)
    network.role = [FX]
    async with aiohttp.ClientSession() as web:
        yield place_of(await live.node(with_http(network, tmp_path), "b1"), web)


async def test_a_subscription_gets_what_its_user_may_see_as_long_as_there_is_one(
    place: HttpPlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def publish(number: int) -> None:
        for topic in ("hr", "fx/usd"):
            event = {"topic": topic, "type": "t", "n": number}
            await place.ask("POST", "/v1/events?confirm=true", json=event, headers=bearer())

    async with sink() as to:
        wish = {"protocol": "HTTP", "sink": to.url, "filters": [{"prefix": {"type": "t"}}]}
        assert (await place.ask("POST", "/v1/subscriptions", json=wish))[0] == 401
        status, told = await place.ask("POST", "/v1/subscriptions", json=wish, headers=ANNA)
        assert status == 201, told
        path = f"/v1/subscriptions/{told['id']}"
        assert (await place.ask("GET", path, headers=bearer()))[0] == 404  # another user's
        await publish(1)
        await until(lambda: bool(to.got))
        assert to.got[0][1].context["topic"] == "fx/usd"
        write_users(tmp_path / "users.toml", ("otto", ["administrator"]))
        assert place.node.look_at_users()
        await until(lambda: "there is no user 'anna' any more" in caplog.text)
        await publish(2)
        assert [each.context["n"] for _, each in to.got] == ["1"]
