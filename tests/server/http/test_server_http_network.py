"""HTTP clients at several brokers: they see each other's events, and go on with a durable session
at another broker."""

from __future__ import annotations

import asyncio

from http_places import http_network


async def test_a_session_goes_on_at_another_broker() -> None:
    async with http_network("a - b") as places:
        a, b = places["a"], places["b"]
        path = "/v1/sessions/s"
        status, told = await a.ask("PUT", path, json={"filters": ["n >= 0"]})
        assert (status, told["home"]) == (200, "a")
        assert (await b.ask("PUT", path, json={}))[1]["home"] == "a"
        async with b.stream(filter="n = 4") as seen:
            status, told = await b.post([{"n": n} for n in range(5)], "?confirm=true")
            assert (status, told["accepted"]) == (200, 5)
            assert (await seen.message())["attributes"]["n"] == 4
        async with a.stream(session="s") as stream:
            got = [(await stream.message())["position"] for _ in range(3)]
            last = stream.last_id
        while (await a.ask("GET", path))[1]["consumers"]:  # noqa: ASYNC110 (only an answer says it)
            await asyncio.sleep(0.01)
        async with b.stream(last_id=last, session="s", prefetch=1) as stream:
            event = await stream.message()
            life = last.partition(":")[0]
            assert (got, event["position"]) == ([1, 2, 3], 4)
            assert stream.last_id == f"{life}:4"
        _, told = await b.post({"positions": [4]}, path=f"{path}/acknowledgements")
        assert told == {"acknowledged": 1, "rejected": 0}
        status, told = await b.ask("GET", f"{path}/events?wait_s=30")
        assert [each["position"] for each in told["events"]] == [5]
        assert (await b.ask("GET", path))[1]["events"] == 1


async def test_short_requests_register_nothing_in_the_network() -> None:
    """However many there are: what neighbours know of a broker's clients stays as it is."""
    async with http_network("a - b") as places:
        a, b = places["a"], places["b"]
        await a.post({"n": 0}, "?confirm=true")
        before = b.node.host.core.tables()
        answers = [await a.post({"n": n}, "?confirm=true") for n in range(20)]
        assert len({told["events"][0]["id"].partition(":")[0] for _, told in answers}) == 1
        assert len(a.node.host.core.clients) == 2, "the storage, and one for the user"
        assert b.node.host.core.tables() == before
