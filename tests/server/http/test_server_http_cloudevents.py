"""CloudEvents over the HTTP listener of a live broker: in by each mode, and out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from http_places import HttpPlace, fresh, http_broker
from reefcast.cloudevents.json_format import BATCH_TYPE, STRUCTURED_TYPE

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place() -> AsyncIterator[HttpPlace]:
    async with http_broker() as found:
        yield found


def event(name: str, **members: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "/s", "type": name, **members}


async def test_a_structured_event_comes_in(place: HttpPlace) -> None:
    name = fresh()
    subscription = await place.client.subscribe(f"type = '{name}' AND data.price > 2")
    body = event(name, data={"price": 3}, topic="fx", n=5)
    headers = {"Content-Type": f"{STRUCTURED_TYPE}; charset=utf-8"}
    status, told = await place.ask("POST", "/v1/events", json=body, headers=headers)
    assert (status, told["accepted"]) == (202, 1)
    got = await anext(subscription)
    assert got.topics == ("fx",)
    assert dict(got) == {
        **event(name, n=5, datacontenttype="application/json"),
        "content.type": "application/json",
        "data.price": 3,
    }
    assert json.loads(got.payload) == {"price": 3}


async def test_a_binary_event_comes_in(place: HttpPlace) -> None:
    name = fresh()
    subscription = await place.client.subscribe(f"type = '{name}'")
    headers = {f"ce-{key}": value for key, value in event(name).items()}
    headers |= {"Content-Type": "image/png", "ce-subject": "a%20b"}
    status, _ = await place.ask("POST", "/v1/events?topic=pics", data=b"\x89PNG", headers=headers)
    assert status == 202
    got = await anext(subscription)
    assert (got["subject"], got.payload, got.topics) == ("a b", b"\x89PNG", ("pics",))


async def test_a_batch_comes_in_event_by_event(place: HttpPlace) -> None:
    name = fresh()
    subscription = await place.client.subscribe(f"type = '{name}'")
    body = [event(name, n=1), event(name, time="now"), event(name, n=2)]
    headers = {"Content-Type": BATCH_TYPE}
    status, told = await place.ask("POST", "/v1/events", json=body, headers=headers)
    assert (status, told["accepted"], told["refused"]) == (207, 2, 1)
    assert "'time' is 'now'" in told["events"][1]["reason"]
    assert [(await anext(subscription))["n"] for _ in range(2)] == [1, 2]
    status, told = await place.ask("POST", "/v1/events", data=b"[]", headers=headers)
    assert (status, told["accepted"]) == (202, 0)


@pytest.mark.parametrize(
    ("headers", "body", "status", "kind", "words"),
    [
        ({"Content-Type": STRUCTURED_TYPE}, b"{}", 400, "cloudevent", "'specversion' is missing"),
        ({"Content-Type": BATCH_TYPE}, b"{}", 400, "cloudevent", "no JSON array"),
        ({"Content-Type": "application/cloudevents+avro"}, b"", 415, "content-type", "+avro"),
        ({"ce-specversion": "1.0", "ce-id": "1"}, b"", 400, "cloudevent", "'source' is missing"),
    ],
)
async def test_what_is_no_cloudevent(
    place: HttpPlace, headers: dict[str, str], body: bytes, status: int, kind: str, words: str
) -> None:
    found, told = await place.ask("POST", "/v1/events", data=body, headers=headers)
    assert (found, told["type"]) == (status, f"urn:reefcast:problem:{kind}")
    assert words in told["detail"]


async def test_events_come_out_as_cloudevents(place: HttpPlace) -> None:
    name = fresh()
    async with place.stream(filter=f"type = '{name}'", format="cloudevents") as stream:
        pretty = json.dumps(event(name, data={"a": [1]}), indent=2).encode()
        headers = {"Content-Type": STRUCTURED_TYPE}
        await place.ask("POST", "/v1/events", data=pretty, headers=headers)
        assert await stream.message() == event(
            name, data={"a": [1]}, datacontenttype="application/json"
        )
        await place.client.publish({"type": name, "price": 9.5}, topic="fx")
        native = await stream.message()
    assert native.pop("time").endswith("Z")
    publisher, seq = native.pop("id").rsplit(":", 1)
    assert native == {
        "specversion": "1.0",
        "type": name,
        "source": f"/reefcast/{publisher}",
        "topic": "fx",
        "datacontenttype": "application/json",
        "data": {"type": name, "price": 9.5},
    }
    assert seq.isdigit()


async def test_a_session_is_fetched_as_a_batch(place: HttpPlace) -> None:
    name = fresh()
    await place.ask("PUT", f"/v1/sessions/{name}", json={"filters": [f"type = '{name}'"]})
    headers = {"Content-Type": STRUCTURED_TYPE}
    await place.ask("POST", "/v1/events?confirm=true", json=event(name), headers=headers)
    path, accept = f"/v1/sessions/{name}/events?wait_s=30", {"Accept": BATCH_TYPE}
    async with place.web.get(place.url + path, headers=accept) as answer:
        assert answer.content_type == BATCH_TYPE
        (got,) = json.loads(await answer.read())
    assert got == event(name, reefcastposition="1", reefcastdeliveries="1")
    done = {"positions": [int(got["reefcastposition"])]}
    status, _ = await place.post(done, path=f"/v1/sessions/{name}/acknowledgements")
    assert status == 200
    query = {"session": name, "format": "cloudevents"}
    async with place.stream(**query) as stream:
        await place.ask("POST", "/v1/events", json=event(name, id="2"), headers=headers)
        assert (await stream.message())["id"] == "2"
