"""The Subscriptions API of a live broker, and deliveries to sinks that answer as they like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from http_places import PATIENCE_S, HttpPlace, fresh, http_broker
from live_networks import until
from reefcast.cloudevents.sinks import SinkError
from reefcast.network.listeners import ListenerEntry
from reefcast.server.http.deliveries import settings_of
from webhook_sinks import Sink, sink

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place() -> AsyncIterator[HttpPlace]:
    async with http_broker(sink_origin="reef.example") as found:
        yield found


async def subscribe(place: HttpPlace, sink: Sink, name: str, **members: Any) -> str:
    wish = {"protocol": "HTTP", "sink": sink.url, "types": [name], **members}
    status, told = await place.post(wish, path="/v1/subscriptions")
    assert status == 201, told
    assert told["types"] == [name]
    return str(told["id"])


async def until_true(ask: Callable[[], Awaitable[object]]) -> None:
    """Wait until the answer is true. Only the broker knows, and it tells nobody: so ask again."""
    async with asyncio.timeout(PATIENCE_S):
        while not await ask():  # noqa: ASYNC110 (see above)
            await asyncio.sleep(0.02)


async def publish(place: HttpPlace, name: str, *numbers: int) -> None:
    for number in numbers:
        await place.client.publish({"type": name, "n": number}, confirm=True)


async def test_events_are_delivered_once_the_sink_permits_them(place: HttpPlace) -> None:
    name = fresh()
    async with sink() as to:
        secret = {"credentialtype": "ACCESSTOKEN", "accesstoken": "abc"}
        secret["accesstokenexpiresutc"] = "2027-01-01T00:00:00Z"
        settings = {"headers": {"X-Key": "k"}}
        more = {"sinkcredential": secret, "protocolsettings": settings, "config": {"rate": 6000}}
        more["filters"] = [{"not": {"exact": {"n": "2"}}}]  # type: ignore[assignment]  # of any kind
        id = await subscribe(place, to, name, **more)
        await publish(place, name, 1, 2, 3)
        await until(lambda: len(to.got) == 2)
        assert to.ids == ["1", "3"]
        assert to.asked[0]["webhook-request-origin"] == "reef.example"
        assert to.asked[0]["webhook-request-rate"] == "6000"
        headers = to.got[0][0]
        assert (headers["authorization"], headers["x-key"]) == ("Bearer abc", "k")
        assert headers["webhook-request-origin"] == "reef.example"
        _, told = await place.ask("GET", f"/v1/subscriptions/{id}")
        assert told["sinkcredential"] == {"credentialtype": "ACCESSTOKEN"}
        _, all = await place.ask("GET", "/v1/subscriptions")
        assert told in all
        changed = {**told, "types": [name + "b"], "config": {"contentmode": "structured"}}
        status, told = await place.ask("PUT", f"/v1/subscriptions/{id}", json=changed)
        assert (status, told["types"], told["id"]) == (200, [name + "b"], id)
        await publish(place, name, 4)
        await publish(place, name + "b", 5)
        await until(lambda: len(to.got) == 3)
        assert to.got[2][0]["content-type"] == "application/cloudevents+json"
        assert (to.ids[2], to.got[2][0]["authorization"]) == ("5", "Bearer abc")
        status, ended = await place.ask("DELETE", f"/v1/subscriptions/{id}")
        assert (status, ended["id"]) == (200, id)
        for method in ("GET", "DELETE"):
            status, _ = await place.ask(method, f"/v1/subscriptions/{id}")
            assert status == 404


async def test_nothing_is_delivered_to_a_sink_that_permits_nothing(place: HttpPlace) -> None:
    name = fresh()
    async with sink() as to:
        to.permits = {"Allow": "POST"}
        await subscribe(place, to, name)
        await publish(place, name, 1)
        await until(lambda: bool(to.asked))
        to.permits = {"WebHook-Allowed-Origin": "reef.example"}  # asked again, it does
        await until(lambda: bool(to.got))
        assert len(to.asked) >= 2


async def test_what_a_sink_cannot_take_becomes_a_dead_letter(place: HttpPlace) -> None:
    name = fresh()
    async with sink() as to:
        to.answer = lambda number: web.Response(status=415 if number == 1 else 202)
        id = await subscribe(place, to, name, config={"attempts": 3})
        await publish(place, name, 1, 2)
        session = place.client.session(f"cloudevents:{id}")
        await until_true(lambda: session.look(dead=True))
        letters = await session.look(dead=True)
        assert [letter.event["n"] for letter in letters] == [1]
        await until(lambda: len(to.got) == 2)
        assert to.ids == ["1", "2"]  # the first one was sent once only


async def test_failed_attempts_are_repeated(place: HttpPlace) -> None:
    name = fresh()
    async with sink() as to:
        answers = {1: (503, {"Retry-After": "0"}), 2: (500, {}), 3: (301, {"Location": to.url})}
        to.answer = lambda number: web.Response(
            status=answers.get(number, (200, {}))[0], headers=answers.get(number, (200, {}))[1]
        )
        await subscribe(place, to, name, config={"attempts": 5})
        await publish(place, name, 1)
        await until(lambda: len(to.got) == 3)
        await publish(place, name, 2)
        await until(lambda: len(to.got) == 4)
        assert to.ids == ["1", "1", "1", "2"]  # a redirect is final, and not followed


async def test_a_sink_that_is_gone_ends_its_subscription(place: HttpPlace) -> None:
    name = fresh()
    async with sink() as to:
        to.answer = lambda number: web.Response(status=410)
        id = await subscribe(place, to, name)
        await publish(place, name, 1)

        async def is_gone() -> bool:
            return (await place.ask("GET", f"/v1/subscriptions/{id}"))[0] == 404

        await until_true(is_gone)
        assert len(to.got) == 1


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"{", "unreadable", "no JSON"),
        (b"[]", "subscription", "must be an object"),
        (b'{"protocol":"HTTP"}', "subscription", "sink: must be the URL"),
        (b'{"protocol":"HTTP","sink":"https://example.com/"}', "subscription", "must not deliver"),
        (
            b'{"protocol":"HTTP","sink":"http://127.0.0.1/","filters":[{"sql":"("}]}',
            "subscription",
            "filters[0].sql",
        ),
    ],
)
async def test_what_is_no_subscription(
    place: HttpPlace, body: bytes, kind: str, words: str
) -> None:
    status, told = await place.post(body, path="/v1/subscriptions")
    assert (status, told["type"]) == (400, f"urn:reefcast:problem:{kind}")
    assert words in told["detail"]
    assert (await place.ask("GET", "/v1/subscriptions/none"))[0] == 404


@pytest.mark.parametrize(
    ("listen", "said", "allowed"),
    [
        ("127.0.0.1:8080", {}, True),
        ("127.0.0.1:8080", {"public_url": "https://reef.example"}, False),
        ("127.0.0.1:8080", {"sinks": ["hooks.example"]}, False),
        ("192.0.2.1:8080", {}, False),
    ],
)
async def test_who_is_elsewhere_reaches_nothing_of_this_machine(
    listen: str, said: dict[str, Any], allowed: bool
) -> None:
    """Whoever comes by a public URL is elsewhere."""
    entry = ListenerEntry(broker="b1", protocol="http", listen=listen, **said)
    with nullcontext() if allowed else pytest.raises(SinkError):
        settings_of([entry]).allowed.check("http://127.0.0.1:9000/")


async def test_a_callback_permits_deliveries_and_a_restart_loses_nothing(tmp_path: Any) -> None:
    name = fresh()
    async with sink() as to:
        to.permits = {}
        async with http_broker(
            f"[sessions]\ndirectory = {json.dumps(str(tmp_path))}",
            public_url="http://reef.example",
            sinks=[to.url],
        ) as place:
            id = await subscribe(place, to, name)
            await publish(place, name, 1)
            await until(lambda: bool(to.asked))
            callback = to.asked[0]["webhook-request-callback"]
            path = callback.removeprefix("http://reef.example")
            assert path.startswith(f"/v1/subscriptions/{id}/permission?key=")
            assert (await place.ask("GET", path + "x"))[0] == 404
            assert not to.got
            assert (await place.ask("POST", path, headers={"WebHook-Allowed-Rate": "9000"}))[
                0
            ] == 204
            await until(lambda: to.ids == ["1"])
            to.answer = lambda number: web.Response(status=500)
            await publish(place, name, 2)
            await until(lambda: len(to.got) == 2)
        to.answer = lambda number: web.Response(status=200)
        async with http_broker(
            f"[sessions]\ndirectory = {json.dumps(str(tmp_path))}", sink_handshake=False
        ) as place:
            await until(lambda: to.ids[-1] == "2" and len(to.got) == 3)
            assert (await place.ask("GET", f"/v1/subscriptions/{id}"))[0] == 200
