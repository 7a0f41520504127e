"""POST and GET /v1/events at a live broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from http_places import HttpPlace, fresh, http_broker
from live_networks import until
from reefcast.http.content import MOST_EVENTS
from reefcast.server.http import writing

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place() -> AsyncIterator[HttpPlace]:
    async with http_broker(max_body_bytes=100_000) as found:
        yield found


# --- publishing ----------------------------------------------------------------------------------


async def test_an_object_is_an_event(place: HttpPlace) -> None:
    topic = fresh()
    subscription = await place.client.subscribe(f"topic = '{topic}'")
    body = {"topic": topic, "order": {"price": 3, "tags": [1]}, "buy": True}
    status, told = await place.post(body)
    assert (status, told["accepted"], told["refused"]) == (202, 1, 0)
    event = await anext(subscription)
    assert dict(event) == {"content.type": "application/json", "order.price": 3, "buy": True}
    assert (event.topics, json.loads(event.payload)) == ((topic,), body)
    assert told["events"] == [
        {"item": 0, "state": "accepted", "id": f"{event.publisher}:{event.seq}"}
    ]


async def test_topics_of_the_query_win(place: HttpPlace) -> None:
    one, two = fresh(), fresh()
    subscription = await place.client.subscribe(f"topic = '{two}'")
    await place.post({"topic": "other", "n": 1}, f"?topic={one}&topic={two}&expires_s=90.5")
    event = await anext(subscription)
    assert event.topics == (one, two)
    assert event["$expires_s"] == 90.5


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
async def test_each_event_of_a_list_has_its_answer(place: HttpPlace, kind: str) -> None:
    name = fresh()
    subscription = await place.client.subscribe(f"name = '{name}'")
    items = [f'{{"name":"{name}","n":1}}', "7", f'{{"name":"{name}","n":2}}', '{"topic":[1]}']
    body = "[" + ",".join(items) + "]" if kind == "application/json" else "\n\n".join(items)
    status, told = await place.ask(
        "POST", "/v1/events?confirm=true", data=body, headers={"Content-Type": kind}
    )
    assert (status, told["accepted"], told["refused"]) == (207, 2, 2)
    states = [each["state"] for each in told["events"]]
    assert states == ["confirmed", "refused", "confirmed", "refused"]
    assert "an event is an object" in told["events"][1]["reason"]
    assert [(await anext(subscription))["n"] for _ in range(2)] == [1, 2]


async def test_confirmed_events_are_in_durable_sessions(place: HttpPlace) -> None:
    name = fresh()
    await place.ask("PUT", f"/v1/sessions/{name}", json={"filters": [f"name = '{name}'"]})
    status, told = await place.post([{"name": name}] * 3, "?confirm=true")
    assert (status, {each["state"] for each in told["events"]}) == (200, {"confirmed"})
    _, state = await place.ask("GET", f"/v1/sessions/{name}")
    assert state["events"] == 3


async def test_a_full_session_refuses_its_events_one_by_one(place: HttpPlace) -> None:
    name = fresh()
    wish = {"filters": [f"name = '{name}'"], "max_events": 2, "policy": "refuse"}
    await place.ask("PUT", f"/v1/sessions/{name}", json=wish)
    status, told = await place.post([{"name": name}] * 3, "?confirm=true")
    states = [each["state"] for each in told["events"]]
    assert (status, states) == (207, ["confirmed", "confirmed", "refused"])
    assert "full" in told["events"][2]["reason"]
    status, problem = await place.post({"name": name}, "?confirm=true")
    assert (status, problem["type"]) == (403, "urn:reefcast:problem:refused")


async def test_one_client_publishes_for_all_requests_of_a_user(place: HttpPlace) -> None:
    _, first = await place.post({"n": 1})
    answers = await asyncio.gather(*(place.post({"n": n}) for n in range(20)))
    publishers = {told["events"][0]["id"].rpartition(":")[0] for _, told in answers}
    assert publishers == {first["events"][0]["id"].rpartition(":")[0]}


@pytest.mark.parametrize(
    ("body", "kind", "status", "problem"),
    [
        (b"{", "application/json", 400, "unreadable"),
        (b"", "application/json", 400, "unreadable"),
        (b"[1", "application/json", 400, "unreadable"),
        (b"[]", "application/json", 202, ""),
        (b"3", "application/json", 400, "unreadable"),
        (b'{"topic": 1}', "application/json", 400, "invalid"),
        (b'{"topic": "$reefcast/x"}', "application/json", 400, "invalid"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "application/json", 400, "invalid"),
        (b"a,b", "text/csv", 415, "content-type"),
        (b'{"a":1}', "", 415, "content-type"),
        (b"1," * 60_000, "application/json", 413, "too-large"),
        (b"1\n" * (MOST_EVENTS + 1), "application/x-ndjson", 413, "too-many"),
    ],
)
async def test_bodies_that_are_no_events(
    place: HttpPlace, body: bytes, kind: str, status: int, problem: str
) -> None:
    headers = {"Content-Type": kind}
    found, told = await place.ask("POST", "/v1/events", data=body, headers=headers)
    assert found == status, told
    if problem:
        assert told["type"] == f"urn:reefcast:problem:{problem}"
        assert (told["status"], bool(told["title"]), bool(told["detail"])) == (status, True, True)


# --- streams -------------------------------------------------------------------------------------


async def test_a_stream_brings_what_matches(place: HttpPlace) -> None:
    topic = fresh()
    async with place.stream(filter=f"topic = '{topic}' AND n > 1") as stream:
        headers = stream.response.headers
        assert headers["Content-Type"] == "text/event-stream"
        await place.post([{"topic": topic, "n": n} for n in (1, 2)])
        event = await stream.message()
        assert (event["topics"], event["attributes"]["n"]) == ([topic], 2)
        assert event["data"] == {"topic": topic, "n": 2}
        assert stream.last_id == event["id"]
        await place.client.publish({"n": 5.5, "x": float("nan")}, topics=[topic], payload=b"\xff")
        event = await stream.message()
        assert (event["attributes"], event["data_base64"]) == ({"n": 5.5}, "/w==")


async def test_several_filters_of_one_stream(place: HttpPlace) -> None:
    name = fresh()
    filters = [f"name = '{name}' AND n = 1", f"name = '{name}' AND n < 3"]
    async with place.stream(filter=filters) as stream:
        await place.post([{"name": name, "n": n} for n in (1, 5, 2)])
        assert [(await stream.message())["attributes"]["n"] for _ in range(2)] == [1, 2]


async def test_a_stream_that_is_left_leaves_nothing(place: HttpPlace) -> None:
    listeners, sessions = place.node.http, place.node.clients.sessions
    assert listeners is not None
    await until(lambda: not (listeners.status()["streams"] or listeners.front.leaving))
    before = set(sessions)
    async with place.stream(filter="TRUE"):
        assert len(set(sessions) - before) == 1
        assert listeners.status()["streams"] == 1
    await until(lambda: set(sessions) == before)
    assert listeners.status()["streams"] == 0


async def test_a_slow_reader_loses_the_oldest_and_is_told(place: HttpPlace) -> None:
    name = fresh()
    query = {"filter": f"name = '{name}'", "queue_policy": "drop_oldest", "queue_limit": 10}
    async with place.stream(**query) as stream:
        stream.response.connection.transport.pause_reading()
        text, sent = "x" * 50_000, 0
        while not sum(each.port.dropped for each in place.node.clients.sessions.values()):
            await place.client.publish(name=name, n=sent, text=text)
            sent += 1
            await place.client.flush()
            await asyncio.sleep(0)
        stream.response.connection.transport.resume_reading()
        lost, got, last = 0, 0, -1
        while last < sent - 1:
            kind, told = await stream.next()
            if kind == "dropped":
                lost += told["count"]
            else:
                assert told["attributes"]["n"] > last
                got, last = got + 1, told["attributes"]["n"]
        assert lost > 0
        assert lost + got == sent


async def test_a_quiet_stream_says_that_it_is_there(
    place: HttpPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "KEEP_ALIVE_S", 0.01)
    async with place.stream(filter="FALSE") as stream:
        for _ in range(3):
            assert await stream.response.content.readline() == b": still here\n"
            assert await stream.response.content.readline() == b"\n"


async def test_a_reader_that_takes_nothing_is_disconnected(
    place: HttpPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "STALLED_S", 0.05)
    name, listeners = fresh(), place.node.http
    assert listeners is not None
    await until(lambda: not listeners.status()["streams"])
    async with place.stream(filter=f"name = '{name}'") as stream:
        stream.response.connection.transport.pause_reading()
        while listeners.status()["streams"]:
            await place.client.publish(name=name, text="x" * 100_000)
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("query", "status", "problem", "words"),
    [
        ("", 400, "query", "which events"),
        ("?filter=price >", 400, "filter-syntax", "column 8"),
        ("?filter=TRUE&prefetch=x", 400, "query", "prefetch"),
        ("?filter=TRUE&other=1", 400, "query", "other"),
        ("?filter=TRUE&queue_limit=1&queue_limit=2", 400, "query", "twice"),
        (f"?filter=TRUE&queue_limit={10**30}", 400, "query", "queue_limit"),
        ("?filter=TRUE&queue_policy=x", 400, "query", "queue_policy"),
        ("?session=none-of-these", 404, "gone", "none-of-these"),
    ],
)
async def test_streams_that_cannot_be(
    place: HttpPlace, query: str, status: int, problem: str, words: str
) -> None:
    found, told = await place.ask("GET", f"/v1/events{query}")
    assert (found, told["type"]) == (status, f"urn:reefcast:problem:{problem}")
    assert words in told["detail"]


async def test_methods_and_paths(place: HttpPlace) -> None:
    assert (await place.ask("GET", "/v1/other"))[0] == 404
    async with place.web.delete(f"{place.url}/v1/events") as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST, GET, OPTIONS")
    async with place.web.options(f"{place.url}/v1/events") as response:
        assert (response.status, response.headers["Allow"]) == (204, "POST, GET, OPTIONS")
