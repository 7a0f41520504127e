"""Schemas out of advertisements, against real brokers; without Spark and storages."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner

import reefcast
from live_networks import make_network, running
from reefcast.cli.main import group
from reefcast.errors import ConnectionLostError, RefusedError
from reefcast.model.attribute_ranges import AttributeRange, AttributeRanges
from reefcast.model.filters import parse_filter
from reefcast.model.values import Kind
from reefcast.network.sections import RoleEntry
from reefcast.pipeline.connector.advertised import advertised, comments_of, types_of
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.greeting import LOCAL, Anonymous, Greeting

ADVERTISED = (
    "topic = 'fx' AND symbol IN ('IBM', 'SAP') AND price BETWEEN 0 AND 1000 AND firm = TRUE",
    "topic = 'fx' AND symbol = 'IBM' AND price > 5 AND size IN (10, 20) AND secret IS NOT NULL",
    "topic = 'fx' AND symbol = 'SAP' AND margin > 0.5 OR topic = 'hr' AND salary > 0",
    "topic = 'hr' AND salary < 9000",
)
ASKED = "topic = 'fx'"


async def ask(url: str, filter: str) -> list[AttributeRange]:
    return await asyncio.to_thread(advertised, url, {"name": "test"}, filter)


@pytest.mark.parametrize("routing", ["acyclic", "flooding"])
async def test_attributes_that_are_advertised_make_a_schema(
    monkeypatch: pytest.MonkeyPatch, routing: str
) -> None:
    """Routing by advertisements tells every broker; with another, a client asks the broker of the
    publishers."""
    network = make_network(("b1", "b2"), [("b1", "b2")], routing=routing)
    network.role = [
        RoleEntry(name="ibm", subscribe="topic = 'fx' AND symbol = 'IBM' AND price < 90")
    ]
    user = Principal("anna", frozenset({UserRole.CLIENT}), "test", ("ibm",))
    is_anna = False

    def prove(self: Anonymous, greeting: Greeting) -> Principal:
        return user if is_anna else LOCAL

    monkeypatch.setattr(Anonymous, "prove", prove)
    async with running(network, Anonymous()) as urls, reefcast.connect(urls[1]) as client:
        for filter in ADVERTISED:
            await client.advertise(filter).settled()
        url = urls[0] if routing == "acyclic" else urls[1]
        ranges = await ask(url, ASKED)
        assert types_of(ranges) == {
            "firm": "BOOLEAN",
            "margin": "DOUBLE",
            "price": "DOUBLE",
            "size": "BIGINT",
            "symbol": "STRING",
        }
        assert comments_of(ranges) == {
            "firm": "one of TRUE",
            "margin": "from 0.5",
            "price": "from 0",
            "size": "one of 10, 20",
            "symbol": "one of IBM, SAP",
        }
        is_anna = True
        seen = {each.name: each for each in await ask(url, f"{ASKED} OR topic = 'hr'")}
        assert set(seen) == {"symbol", "price", "size", "firm"}
        assert seen["symbol"].members == ("IBM",) and (seen["price"].low, seen["price"].high) == (
            0,
            90,
        )
        assert await ask(url, "topic = 'hr'") == []
        words = ["dataset", "schema", "--advertisements", f"reefcast://127.0.0.1:1,{url}", ASKED]
        printed = await asyncio.to_thread(CliRunner().invoke, group, words)
        assert printed.stdout == (
            "firm BOOLEAN COMMENT 'one of TRUE', price DOUBLE COMMENT 'from 0 to 90', "
            "size BIGINT COMMENT 'one of 10, 20', symbol STRING COMMENT 'one of IBM'\n"
        ), printed.output
        as_json = await asyncio.to_thread(CliRunner().invoke, group, [*words, "--json"])
        assert list(json.loads(as_json.stdout)) == ["firm", "price", "size", "symbol"]


async def test_who_may_see_nothing_is_refused_and_a_broker_must_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = make_network("b")
    network.role = [RoleEntry(name="mute", publish="TRUE")]
    user = Principal("max", frozenset({UserRole.CLIENT}), "test", ("mute",))
    monkeypatch.setattr(Anonymous, "prove", lambda self, greeting: user)
    async with running(network, Anonymous()) as [url]:
        with pytest.raises(RefusedError, match="user 'max' may see nothing"):
            await ask(url, ASKED)
    with pytest.raises(ConnectionLostError, match="cannot be reached"):
        await ask("reefcast://127.0.0.1:1", ASKED)


def ranges(asked: str, *filters: str) -> list[AttributeRange]:
    found = AttributeRanges(parse_filter(asked))
    for each in filters:
        found.add(parse_filter(each))
    return found.found()


def test_ranges_are_those_of_all_filters() -> None:
    assert ranges("TRUE", "a > 1 AND a < 5", "a = 9", "a = 'x'", "a IS NULL OR b <> 'y'") == [
        AttributeRange("a", Kind.NUMBER, 2, 1, 9, None),
        AttributeRange("a", Kind.STRING, 1, "x", "x", ("x",)),
        AttributeRange("b", Kind.STRING, 1, None, None, None),
    ]
    assert ranges("a > 3", "a BETWEEN 1 AND 2 AND b = 1", "TRUE") == []
    many = ", ".join(f"{n}" for n in range(30))
    assert ranges("a < 25", f"a IN ({many})") == [AttributeRange("a", Kind.NUMBER, 1, 0, 24, None)]
    long = "x" * 1000
    assert ranges("TRUE", f"a = '{long}'") == [
        AttributeRange("a", Kind.STRING, 1, None, None, None)
    ]


def test_ranges_travel() -> None:
    made = AttributeRange("a", Kind.NUMBER, 2, 1, 2.5, (1, 2.5))
    assert AttributeRange.of_plain(json.loads(json.dumps(made.to_plain()))) == made
    for wrong in (None, [], ["a", 77, 1, None, None, None], ["a", 1, 1, [], None, None]):
        with pytest.raises(ValueError, match="no range of an attribute"):
            AttributeRange.of_plain(wrong)
