"""Durable sessions over HTTP at a live broker: made, fetched from, streamed, acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from http_places import HttpPlace, fresh, http_broker
from reefcast.server.http.consumers import LEASE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place() -> AsyncIterator[HttpPlace]:
    async with http_broker() as found:
        yield found


async def made(place: HttpPlace, count: int = 0, **wish: Any) -> str:
    """Make a session that is owed so many events, n = 0, 1, ...; return its name."""
    name = fresh("s")
    status, told = await place.ask(
        "PUT", f"/v1/sessions/{name}", json={"filters": [f"name = '{name}'"], **wish}
    )
    assert status == 200, told
    if count:
        await publish(place, name, *range(count))
    return name


async def publish(place: HttpPlace, name: str, *numbers: int) -> None:
    events = [{"name": name, "n": n} for n in numbers]
    assert (await place.post(events, "?confirm=true"))[0] == 200


async def fetch(place: HttpPlace, name: str, **query: Any) -> list[dict[str, Any]]:
    status, told = await place.ask("GET", f"/v1/sessions/{name}/events", params=query)
    assert status == 200, told
    found: list[dict[str, Any]] = told["events"]
    return found


async def acknowledge(place: HttpPlace, name: str, **body: Any) -> tuple[int, Any]:
    return await place.post(body, path=f"/v1/sessions/{name}/acknowledgements")


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [each["attributes"]["n"] for each in events]


async def state(place: HttpPlace, name: str) -> Any:
    return (await place.ask("GET", f"/v1/sessions/{name}"))[1]


# --- sessions ------------------------------------------------------------------------------------


async def test_a_session_is_made_changed_and_ended(place: HttpPlace) -> None:
    name = await made(place, expiry_s=100)
    told = await state(place, name)
    assert (told["name"], told["home"], told["options"]["expiry_s"]) == (name, "b1", 100)
    assert [each["filter"] for each in told["subscriptions"]] == [f"name = '{name}'"]
    status, told = await place.ask("PUT", f"/v1/sessions/{name}", json={"max_events": 7})
    assert (status, told["options"]) == (200, {"expiry_s": 100.0, "max_events": 7})
    listed = (await place.ask("GET", "/v1/sessions"))[1]["sessions"]
    assert name in [each["name"] for each in listed]
    assert await place.ask("DELETE", f"/v1/sessions/{name}") == (204, None)
    status, problem = await place.ask("GET", f"/v1/sessions/{name}")
    assert (status, problem["type"]) == (404, "urn:reefcast:problem:gone")


async def test_a_name_with_a_slash(place: HttpPlace) -> None:
    status, told = await place.ask("PUT", "/v1/sessions/a%2Fb%20c")
    assert (status, told["name"]) == (200, "a/b c")
    assert (await place.ask("GET", "/v1/sessions/a/b"))[0] == 404


async def test_subscriptions_come_and_go(place: HttpPlace) -> None:
    name = await made(place)
    path = f"/v1/sessions/{name}/subscriptions"
    async with place.web.post(place.url + path, json={"filter": "n > 5"}) as response:
        told = await response.json()
        assert (response.status, told["filter"]) == (201, "n > 5")
        where = response.headers["Location"]
    assert where == f"{path}/{told['id']}"
    assert len((await state(place, name))["subscriptions"]) == 2
    assert (await place.ask("DELETE", where))[0] == 204
    assert (await place.ask("DELETE", where))[0] == 404
    assert len((await state(place, name))["subscriptions"]) == 1
    status, problem = await place.post({"filter": "n >"}, path=path)
    assert (status, problem["column"]) == (400, 4)


HUGE = {"max_events": 10**30}
"""More than a message between brokers can say."""


async def test_wishes_that_cannot_be(place: HttpPlace) -> None:
    for wish in ({"expiry_s": -1}, {"other": 1}, {"max_events": "x"}, {"filters": ["n >"]}, HUGE):
        status, problem = await place.ask("PUT", f"/v1/sessions/{fresh('s')}", json=wish)
        assert status in (400, 403), (wish, problem)
    status, _ = await place.ask("PUT", f"/v1/sessions/{'x' * 201}", json={})
    assert status == 400


async def test_a_session_that_comes_later_or_again(place: HttpPlace) -> None:
    name = fresh("s")
    for method, path, body in (
        ("GET", "events", None),
        ("POST", "acknowledgements", {"positions": [1]}),
        ("POST", "subscriptions", {"filter": "TRUE"}),
        ("DELETE", "subscriptions/1", None),
    ):
        status, problem = await place.ask(method, f"/v1/sessions/{name}/{path}", json=body)
        assert (status, problem["type"]) == (404, "urn:reefcast:problem:gone"), path
    for n in range(2):
        await place.ask("PUT", f"/v1/sessions/{name}", json={"filters": [f"name = '{name}'"]})
        await publish(place, name, n)
        assert numbers(await fetch(place, name, wait_s=30)) == [n]
        await place.client.session(name).close()
        while (await place.ask("GET", f"/v1/sessions/{name}"))[0] != 404:
            pass


# --- fetching ------------------------------------------------------------------------------------


async def test_fetched_events_are_owed_until_they_are_acknowledged(place: HttpPlace) -> None:
    name = await made(place, 5)
    first = await fetch(place, name, max=2)
    assert (numbers(first), [each["position"] for each in first]) == ([0, 1], [1, 2])
    second = await fetch(place, name, max=2)
    assert numbers(second) == [2, 3]
    status, told = await acknowledge(place, name, positions=[3], up_to=2)
    assert (status, told) == (200, {"acknowledged": 3, "rejected": 0})
    assert (await state(place, name))["events"] == 2
    assert await acknowledge(place, name, reject=[{"position": 4}]) == (
        *(200,),
        {"acknowledged": 0, "rejected": 1},
    )
    again = await fetch(place, name, max=10, wait_s=20)
    if numbers(again) == [4]:  # it came before what was given back
        again += await fetch(place, name, max=10, wait_s=20)
    assert sorted(numbers(again)) == [3, 4]
    assert {each["position"]: each["deliveries"] for each in again} == {4: 2, 5: 1}
    status, problem = await acknowledge(place, name, reject=[{"position": 1}])
    assert (status, problem["type"]) == (409, "urn:reefcast:problem:not-in-hand")


async def test_a_fetch_waits_for_the_first_event(place: HttpPlace) -> None:
    name = await made(place)
    assert await fetch(place, name) == []
    waiting = asyncio.create_task(fetch(place, name, wait_s=60, max=5))
    while not (await state(place, name))["consumers"]:  # noqa: ASYNC110 (only an answer says it)
        await asyncio.sleep(0.002)
    await publish(place, name, 7)
    assert numbers(await waiting) == [7]


async def test_a_fetch_that_waits_keeps_its_consumer(place: HttpPlace) -> None:
    name = await made(place)
    waiting = asyncio.create_task(fetch(place, name, wait_s=60))
    while not (await state(place, name))["consumers"]:  # noqa: ASYNC110 (only an answer says it)
        await asyncio.sleep(0.002)
    listeners = place.node.http
    assert listeners is not None
    listeners.consumers.tick(asyncio.get_running_loop().time() + LEASE_S + 1)
    await publish(place, name, 1)
    assert [each["deliveries"] for each in await waiting] == [1]


async def test_nothing_waits_where_nobody_fetches(place: HttpPlace) -> None:
    name = await made(place, 3)
    (first,) = await fetch(place, name, max=1)
    await acknowledge(place, name, positions=[first["position"]])
    async with place.client.session(name) as session:
        assert [(await anext(session))["n"] for _ in range(2)] == [1, 2]


# --- streams -------------------------------------------------------------------------------------


async def test_a_stream_resumes_after_the_last_id(place: HttpPlace) -> None:
    name = await made(place, 4)
    async with place.stream(session=name) as stream:
        events = [await stream.message() for _ in range(3)]
        assert [each["position"] for each in events] == [1, 2, 3]
        life, _, seen = stream.last_id.partition(":")
        assert (int(life), seen) == (round((await state(place, name))["created_s"] * 1e6), "1-3")
    await until_gone(place, name)
    async with place.stream(last_id=f"{life}:1-2", session=name) as stream:
        events = [await stream.message() for _ in range(2)]
        assert [(each["position"], each["deliveries"]) for each in events] == [(3, 2), (4, 2)]
        assert stream.last_id == f"{life}:3-4"
    assert (await state(place, name))["events"] == 2


async def test_an_id_acknowledges_nothing_of_another_session_of_the_name(place: HttpPlace) -> None:
    name = await made(place, 1)
    async with place.stream(session=name) as stream:
        await stream.message()
        last = stream.last_id
    assert (await place.ask("DELETE", f"/v1/sessions/{name}"))[0] == 204
    again = {"filters": [f"name = '{name}'"]}
    assert (await place.ask("PUT", f"/v1/sessions/{name}", json=again))[0] == 200
    await publish(place, name, 1)
    async with place.stream(last_id=last, session=name) as stream:
        assert (await stream.message())["position"] == 1


async def test_sessions_of_subscriptions_are_made_by_subscribing(place: HttpPlace) -> None:
    status, problem = await place.ask("PUT", "/v1/sessions/cloudevents:mine", json={})
    assert (status, problem["type"]) == (403, "urn:reefcast:problem:refused")
    assert "/v1/subscriptions" in problem["detail"]


async def until_gone(place: HttpPlace, name: str) -> None:
    """Wait until nobody consumes a session."""
    while (await state(place, name))["consumers"]:  # noqa: ASYNC110 (only an answer says it)
        await asyncio.sleep(0.01)


async def test_a_full_stream_ends_and_goes_on(place: HttpPlace) -> None:
    """As an EventSource does it, which acknowledges by coming back."""
    name = await made(place, 7)
    got: list[int] = []
    last = ""
    while len(got) < 7:
        async with place.stream(last_id=last, session=name, prefetch=3) as stream:
            while (found := await stream.next())[0] == "message":
                got.append(found[1]["attributes"]["n"])
                if len(got) == 7:
                    break
            last = stream.last_id
    assert got == list(range(7))
    async with place.stream(last_id=last, session=name):
        assert (await state(place, name))["events"] == 0


async def test_acknowledgements_keep_a_stream_going(place: HttpPlace) -> None:
    name = await made(place, 6)
    async with place.stream(session=name, prefetch=2) as stream:
        for n in range(6):
            event = await stream.message()
            assert event["attributes"]["n"] == n
            if n % 2:
                assert (await acknowledge(place, name, up_to=event["position"]))[0] == 200
    assert (await state(place, name))["events"] == 0


@pytest.mark.parametrize("last", ["x", "1-2", "7:3-2", "7:0", "7:1-99999999999", "7:1,,2"])
async def test_ids_that_are_none(place: HttpPlace, last: str) -> None:
    name = await made(place)
    status, problem = await place.ask("GET", f"/v1/events?session={name}&last_event_id={last}")
    assert (status, problem["type"]) == (400, "urn:reefcast:problem:invalid")
