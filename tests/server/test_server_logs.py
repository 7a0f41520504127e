"""What live brokers log as JSON, whatever clients send; and that no secret is in it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from secured_brokers import ANNA, broker, url

import reefcast
from driving_sessions import publication, publish
from live_networks import make_network, until, url_of
from log_lines import FORGED, log_stream, objects
from reefcast.logs import PARTS, Settings, set_up
from reefcast.model.messages import SessionNews
from reefcast.model.wire import Close, FrameKind, Role
from secured import KEY, OTHER_PASSWORD, PASSWORD, TOKEN_SECRET, token

LOUD = Settings("json", "debug")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    with log_stream() as stream:
        set_up(LOUD, stream)
        yield stream


def of_kind(stream: io.StringIO, kind: str) -> list[dict[str, Any]]:
    return [each for each in objects(stream.getvalue()) if each.get("kind") == kind]


async def test_each_line_is_an_object_whatever_clients_send(
    live: Live, stream: io.StringIO
) -> None:
    node = await live.node(make_network("b"), "b")
    counters = node.host.journal.counters
    client = await live.client(node, f"c{FORGED}")
    client.send(FrameKind.CLOSE, Close(FORGED))
    await until(lambda: counters["peers_closed"])
    stranger = await live.dial(node, "s")
    stranger.say_hello(role=Role.CLIENT, network=FORGED)
    assert "belongs to the network" in await stranger.reason()
    for garbage in (b"\x00" * 50, b"GET / HTTP/1.1\r\n\r\n", FORGED.encode() * 40):
        other = await live.dial(node, "g")
        other.writer.write(garbage)
    await until(lambda: counters["turned_away"] == 4)
    [closed] = of_kind(stream, "peers_closed")
    assert (closed["reason"], closed["client"]) == (FORGED, f"c{FORGED}")
    [connected] = of_kind(stream, "connected")
    at = connected["connection"]
    assert (connected["client"], connected["broker"], connected["role"]) == (
        f"c{FORGED}",
        "b",
        "client",
    )
    assert at.startswith("127.0.0.1:")
    refused = of_kind(stream, "turned_away")
    assert any("belongs to the network" in each["reason"] for each in refused)
    assert {each["part"] for each in refused} == {"connections"}
    assert "\x1b" not in stream.getvalue()


async def test_routing_says_what_control_messages_lead_to(live: Live, stream: io.StringIO) -> None:
    network = make_network(["a", "b"], [("a", "b")])
    await live.up(network)
    async with reefcast.connect(url_of(network, "a"), name="writer") as client:
        await (await client.advertise("x > 0")).settled()
        said = [each for each in objects(stream.getvalue()) if each["part"] == "routing"]
    own = [each for each in said if each.get("link") == client.id and each["broker"] == "a"]
    assert any("Advertise to b" in str(each["message"]) for each in own), said


async def test_what_is_lost_names_the_link_and_the_session(live: Live, stream: io.StringIO) -> None:
    node = await live.node(make_network("b"), "b")
    lost, news = publish(publication("p", 7)), SessionNews("dropped", "anna", FORGED, 3, "full")
    node.host.journal.lost(lost, "link_lost", "south")
    node.host.journal.happened_to_session(news)
    [line] = of_kind(stream, "link_lost")
    assert (line["part"], line["link"], line["client"]) == ("links", "south", "p")
    [line] = of_kind(stream, "session_news")
    assert (line["part"], line["session"], line["user"]) == ("sessions", FORGED, "anna")
    assert (line["reason"], line["broker"]) == ("full", "b")


async def test_no_secret_is_logged(live: Live, tmp_path: Path, stream: io.StringIO) -> None:
    node = await broker(live, tmp_path)
    good = token()
    async with reefcast.connect(url(node), **ANNA) as client:
        await client.publish(secret="an attribute of an event", x=1)
        await client.flush()
    async with reefcast.connect(url(node), token=good):
        pass
    for wrong in ({"user": "anna", "password": OTHER_PASSWORD}, {"token": good[:-3] + "abc"}):
        with pytest.raises(reefcast.RefusedError):
            await reefcast.connect(url(node), **wrong)
    text = stream.getvalue()
    found = objects(text)
    assert [each for each in found if each.get("user") == "anna"]
    assert {str(each["part"]) for each in found} <= {*PARTS, "asyncio"}
    for secret in (PASSWORD, OTHER_PASSWORD, good, KEY, TOKEN_SECRET, "an attribute of an event"):
        for form in (secret, json.dumps(secret)[1:-1], base64.b64encode(secret.encode()).decode()):
            assert form not in text
