"""GET /v1/events as WebSocket, /v1/history, /v1/explain and /v1/openapi.json at a live broker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from openapi_spec_validator import OpenAPIV31SpecValidator

from http_places import HttpPlace, fresh, http_broker
from live_networks import until
from reefcast.http.routes import ROUTES
from reefcast.server.http.sockets import close_reason

pytestmark = pytest.mark.asyncio(loop_scope="module")
Socket = aiohttp.ClientWebSocketResponse


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place() -> AsyncIterator[HttpPlace]:
    async with http_broker() as found:
        yield found


async def say(socket: Socket, **message: Any) -> Any:
    """Say something, and return the answer."""
    await socket.send_json(message)
    return await socket.receive_json()


async def events(socket: Socket, count: int) -> list[Any]:
    """Return so many events, as messages bring them."""
    found: list[Any] = []
    while len(found) < count:
        message = await socket.receive_json()
        assert message["type"] == "events", message
        found += message["events"]
    return found


def numbers(found: list[Any]) -> list[int]:
    return [each["attributes"]["n"] for each in found]


# --- WebSocket -----------------------------------------------------------------------------------


async def test_publish_and_subscribe(place: HttpPlace) -> None:
    name = fresh()
    async with place.socket() as socket:
        assert socket.protocol == "reefcast"
        told = await say(socket, type="subscribe", id=1, filter=f"name = '{name}'")
        assert told == {"type": "subscribed", "id": 1, "subscription": 1}
        told = await say(socket, type="publish", id=2, events=[{"name": name, "n": 1}, 7])
        if told["type"] == "events":  # they may be faster than the answer
            assert numbers(told["events"]) == [1]
            told = await socket.receive_json()
        else:
            assert numbers(await events(socket, 1)) == [1]
        assert (told["type"], told["id"]) == ("published", 2)
        assert [each["state"] for each in told["events"]] == ["accepted", "refused"]


async def test_filters_of_the_query(place: HttpPlace) -> None:
    name = fresh()
    async with place.socket(filter=f"name = '{name}'") as socket:
        assert await socket.receive_json() == {"type": "subscribed", "subscription": 1}
        await place.post([{"name": name, "n": n} for n in range(3)])
        assert numbers(await events(socket, 3)) == [0, 1, 2]


async def test_another_filter_without_a_gap(place: HttpPlace) -> None:
    name = fresh()
    async with place.socket() as socket:
        await say(socket, type="subscribe", filter=f"name = '{name}' AND n = 1")
        told = await say(
            socket, type="replace", id=5, subscription=1, filter=f"name = '{name}' AND n = 2"
        )
        assert told == {"type": "done", "id": 5}
        await place.post([{"name": name, "n": n} for n in (1, 2)])
        assert numbers(await events(socket, 1)) == [2]
        assert (await say(socket, type="unsubscribe", id=6, subscription=1))["type"] == "done"
        told = await say(socket, type="unsubscribe", id=7, subscription=1)
        assert (told["type"], told["id"], told["problem"]["status"]) == ("problem", 7, 404)


async def test_a_durable_session(place: HttpPlace) -> None:
    name = fresh("s")
    await place.ask("PUT", f"/v1/sessions/{name}", json={"filters": [f"name = '{name}'"]})
    await place.post([{"name": name, "n": n} for n in range(3)], "?confirm=true")
    async with place.socket() as socket:
        await socket.send_json({"type": "attach", "id": 1, "session": name})
        assert (await socket.receive_json()) == {"type": "done", "id": 1}
        found = await events(socket, 3)
        assert (numbers(found), found[0]["position"]) == ([0, 1, 2], 1)
        told = await say(socket, type="acknowledge", id=2, session=name, up_to=2)
        assert told == {"type": "done", "id": 2, "acknowledged": 2}
        reject = [{"position": 3}]
        await socket.send_json({"type": "acknowledge", "id": 3, "session": name, "reject": reject})
        answers = [await socket.receive_json() for _ in range(2)]
        assert {each["type"] for each in answers} == {"done", "events"}
    _, state = await place.ask("GET", f"/v1/sessions/{name}")
    assert state["events"] == 1


async def test_confirmations_come_when_they_come(place: HttpPlace) -> None:
    async with place.socket() as socket:
        for n in range(10):
            await socket.send_json({"type": "publish", "id": n, "confirm": True, "events": [{}]})
        answers = [await socket.receive_json() for _ in range(10)]
        assert {each["events"][0]["state"] for each in answers} == {"confirmed"}
        ids = {
            each["id"]: int(each["events"][0]["id"].rpartition(":")[2])
            for each in answers
            if "id" in each
        }
        assert [ids[n] for n in sorted(ids)] == sorted(ids.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"type":"other"}',
        '{"type":"subscribe"}',
        '{"type":"publish"}',
        '{"type":"subscribe","filter":"n >"}',
        '{"type":"attach","session":"none"}',
        '{"type":"acknowledge","session":"none"}',
        '{"type":"subscribe","filter":"n","x":1}',
        "[" * 100_000,
    ],
)
async def test_messages_without_a_meaning(place: HttpPlace, text: str) -> None:
    async with place.socket() as socket:
        await socket.send_str(text)
        told = await socket.receive_json()
        assert (told["type"], told["problem"]["status"] in (400, 404)) == ("problem", True)
        assert (await say(socket, type="subscribe", filter="TRUE"))["type"] == "subscribed"


async def test_a_binary_frame_ends_the_socket(place: HttpPlace) -> None:
    async with place.socket() as socket:
        await socket.send_bytes(b"x")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == aiohttp.WSCloseCode.UNSUPPORTED_DATA


async def test_events_that_are_not_the_json_they_say(place: HttpPlace) -> None:
    name = fresh()
    async with place.socket(filter=f"name = '{name}'") as socket:
        await socket.receive_json()
        attributes = {"name": name, "content.type": "application/json"}
        for n, payload in enumerate((b'{"a": "\xff"}', b"[" * 100_000 + b"]" * 100_000, b"{}")):
            await place.client.publish({**attributes, "n": n}, payload=payload)
        found = await events(socket, 3)
        assert ["data_base64" in each for each in found] == [True, True, False]


async def test_the_end_of_a_session_is_none_of_its_socket(place: HttpPlace) -> None:
    name = fresh("s")
    path, wish = f"/v1/sessions/{name}", {"filters": [f"name = '{name}'"]}
    await place.ask("PUT", path, json=wish)
    async with place.socket() as socket:
        assert (await say(socket, type="attach", session=name))["type"] == "done"
        await place.ask("DELETE", path)
        told = await socket.receive_json()
        assert (told["type"], name in told["problem"]["detail"]) == ("problem", True)
        await place.ask("PUT", path, json=wish)
        assert (await say(socket, type="attach", session=name))["type"] == "done"
        await place.post({"name": name, "n": 5})
        assert numbers(await events(socket, 1)) == [5]


async def test_reasons_of_the_end_are_utf8(place: HttpPlace) -> None:
    assert place.url
    assert close_reason("ä" * 100).decode() == "ä" * 61
    assert close_reason("short") == b"short"


async def test_a_socket_that_cannot_be_is_refused_in_http(place: HttpPlace) -> None:
    for query, status in (({"filter": "n >"}, 400), ({"session": "none"}, 404)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            async with place.socket(**query):
                pass
        assert caught.value.status == status


async def test_a_socket_that_is_left_leaves_nothing(place: HttpPlace) -> None:
    listeners = place.node.http
    assert listeners is not None
    async with place.socket(filter="TRUE"):
        assert listeners.status()["streams"]
    await until(lambda: not listeners.status()["streams"])


# --- the past ------------------------------------------------------------------------------------


async def test_history(place: HttpPlace) -> None:
    topic = fresh()
    before = (await place.post([{"topic": topic, "n": n} for n in range(5)], "?confirm=true"))[1]
    assert before["accepted"] == 5

    async def asked(**query: Any) -> list[Any]:
        query = {"filter": f"topic = '{topic}'", **query}
        async with place.web.get(f"{place.url}/v1/history", params=query) as response:
            assert response.status == 200, await response.text()
            assert response.headers["Content-Type"] == "application/x-ndjson"
            return [json.loads(line) for line in (await response.text()).splitlines()]

    while len(found := await asked()) < 5:  # the storage is a subscriber like others
        pass
    assert numbers(found) == [0, 1, 2, 3, 4]
    assert numbers(await asked(limit=2)) == [0, 1]
    assert numbers(await asked(filter=f"topic = '{topic}' AND n > 3")) == [4]
    assert numbers(await asked(**{"from": found[3]["time"]})) == [3, 4]
    assert numbers(await asked(to=found[1]["time"])) == [0]
    assert await asked(to="0") == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, "filter"),
        ({"filter": "n > 1"}, "topic"),
        ({"filter": "topic = 'a'", "from": "yesterday"}, "yesterday"),
        ({"filter": "topic = 'a'", "to": "1e400"}, "1e400"),
        ({"filter": "topic = 'a'", "to": "2026-01-01"}, "zone"),
        ({"filter": "topic = 'a'", "limit": "-1"}, "limit"),
        ({"filter": "topic = 'a'", "limit": str(1 << 63)}, "limit"),  # more than a message can say
    ],
)
async def test_questions_that_cannot_be(place: HttpPlace, query: Any, words: str) -> None:
    status, problem = await place.ask("GET", "/v1/history", params=query)
    assert (status, words in problem["detail"]) == (400, True), problem


async def test_explain(place: HttpPlace) -> None:
    question = {"filter": "a.b > 2 AND c = 'x'", "event": {"a": {"b": 3}, "c": "y"}}
    status, told = await place.post(question, path="/v1/explain")
    assert (status, told["matches"], told["doubts"]) == (200, False, [])
    assert [each["text"] for each in told["explanation"]["decisive"]] == ["c = 'x'"]
    status, problem = await place.post({"filter": "a >"}, path="/v1/explain")
    assert (status, problem["line"], problem["column"]) == (400, 1, 4)


# --- the description -----------------------------------------------------------------------------


async def test_the_description_is_valid_and_whole(place: HttpPlace) -> None:
    status, document = await place.ask("GET", "/v1/openapi.json")
    assert status == 200
    OpenAPIV31SpecValidator(document).validate()
    described = {
        (method.upper(), path) for path, each in document["paths"].items() for method in each
    }
    assert described == {(route.method, route.path) for route in ROUTES}


async def test_answers_are_as_described(place: HttpPlace) -> None:
    """Those of a few requests, by the schemas of the description."""
    from jsonschema import Draft202012Validator

    _, document = await place.ask("GET", "/v1/openapi.json")
    name = fresh("s")
    asked = [
        ("put", "/v1/sessions/{session}", f"/v1/sessions/{name}", {"filters": ["n = 1"]}),
        ("post", "/v1/events", "/v1/events?confirm=true", [{"n": 1}, {"n": 2}]),
        ("get", "/v1/sessions/{session}/events", f"/v1/sessions/{name}/events", None),
        ("get", "/v1/sessions/{session}", f"/v1/sessions/{name}", None),
        ("get", "/v1/sessions", "/v1/sessions", None),
        ("post", "/v1/explain", "/v1/explain", {"filter": "n = 1"}),
        ("post", "/v1/explain", "/v1/explain", {"filter": "n ="}),
    ]
    for method, path, url, body in asked:
        status, told = await place.ask(method, url, **({} if body is None else {"json": body}))
        answers = document["paths"][path][method]["responses"]
        answer = answers.get(str(status), answers["default"])
        (content,) = answer["content"].values()
        schema = {**content["schema"], "components": document["components"]}
        Draft202012Validator(schema).validate(told)
