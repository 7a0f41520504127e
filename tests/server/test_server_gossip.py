"""Routing gossip between live brokers of a network file without links."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from live_brokers import Live
from live_mesh import core_has, cut

import reefcast
from live_networks import make_network, until, url_of
from reefcast.cli.network import command as network_command
from reefcast.errors import RefusedError
from reefcast.model.messages import Publish, Send
from reefcast.model.publication import Publication
from reefcast.model.wire import StatusRequest, encode_publication
from reefcast.network.file import NetworkFile, dump_network
from reefcast.routing.gossip.messages import Linked
from reefcast.server.node import Node

NEVER_S = 1e6


def gossip_network(names: str, **options: Any) -> NetworkFile:
    return make_network(names, routing="gossip", options={"contacts": ["a", "b"]} | options)


class Member:
    """A client that keeps what it gets."""

    def __init__(self, client: reefcast.Client, subscription: reefcast.Subscription) -> None:
        self.client = client
        self.got: Counter[int] = Counter()
        self._subscription = subscription
        self.reading = asyncio.create_task(self._read())

    @classmethod
    async def at(cls, network: NetworkFile, name: str, filter: str) -> Member:
        client = await reefcast.connect(url_of(network, name))
        return cls(client, await client.subscribe(filter))

    async def _read(self) -> None:
        async for event in self._subscription:
            self.got[event["n"]] += 1

    async def close(self) -> None:
        await self.client.close()
        await self.reading


async def members(
    stack: AsyncExitStack, network: NetworkFile, names: str, filter: str
) -> dict[str, Member]:
    made = {name: await Member.at(network, name, filter) for name in names}
    for member in made.values():
        stack.push_async_callback(member.close)
    return made


def topic_rows(node: Node) -> dict[str, list[Any]]:
    rows: Any = node.status(StatusRequest())["rows"]
    return {row[0]: row for row in rows["topics"]["rows"]}


async def test_brokers_find_each_other_and_look_at_conditions_at_the_edge(live: Live):
    network = gossip_network("abcde")
    nodes = await live.up(network)
    async with AsyncExitStack() as stack:
        all_of = await members(stack, network, "bcde", "topic = 'fx' AND n > 10")
        other = await members(stack, network, "c", "topic IN ('oil', 'gas')")
        for n in range(1, 31):
            await all_of["bcde"[n % 4]].client.publish(n=n, topics=["fx"])
        await other["c"].client.publish(n=40, topics=["gas", "fx"])
        expected = dict.fromkeys((*range(11, 31), 40), 1)
        await until(lambda: all(member.got == expected for member in all_of.values()))
        await until(lambda: other["c"].got == {40: 1})
        assert all("fx" in topic_rows(nodes[name]) for name in "abcde")
        assert nodes["d"].host.core.router.soft_links
        assert "oil" not in topic_rows(nodes["d"])


async def test_what_it_cannot_carry_is_refused(live: Live):
    network = gossip_network("ab")
    await live.up(network)
    async with reefcast.connect(url_of(network, "b")) as client:
        subscription = client.subscribe("n > 10")
        with pytest.raises(RefusedError, match="write topic = "):
            await subscription.settled()
        await client.publish(n=1)
        with pytest.raises(RefusedError, match="what has a topic"):
            await client.flush()


async def test_control_messages_and_publications_come_in_order(live: Live):
    network = gossip_network("ab", round_s=NEVER_S)
    nodes = await live.up(network)
    async with AsyncExitStack() as stack:
        await members(stack, network, "ab", "topic = 'fx'")
        a, b = nodes["a"], nodes["b"]
        await until(lambda: core_has(a, "b") and core_has(b, "a"))
        came: list[object] = []
        handle, handle_publications = b.host.driver.handle, b.host.driver.handle_publications

        def noted(item: Any, link: str) -> bool:
            came.append(getattr(item, "linked", None))
            return handle(item, link)

        def noted_publications(batch: list[Publish], link: str) -> None:
            came.extend(publish.publication.seq for publish in batch)
            handle_publications(batch, link)

        b.host.driver.handle = noted
        b.host.driver.handle_publications = noted_publications
        sent: list[object] = []
        for number in range(1, 200):
            if number % 3:
                publication = Publication("p", number, 0, {"n": number}, topics=("fx",))
                message: Any = Publish(publication, body=encode_publication(publication))
                sent.append(number)
            else:
                message = Linked(topic="fx", linked=number % 2 == 0)
                sent.append(message.linked)
            a.host.driver._effector.carry_out([Send("b", message)])
        await until(lambda: len(came) == len(sent))
        assert came == sent
        assert not b.host.journal.counters["failures"]


async def test_what_a_broken_connection_had_under_way_comes_over_the_next(live: Live):
    network = gossip_network("abc", round_s=0.1)
    nodes = await live.up(network)
    async with AsyncExitStack() as stack:
        all_of = await members(stack, network, "abc", "topic = 'fx'")
        expected: dict[int, int] = {}
        for number in range(1, 601):
            await all_of["abc"[number % 3]].client.publish(n=number, topics=["fx"])
            expected[number] = 1
            if number % 40 == 0:
                await asyncio.sleep(0.01)
                for link in list(nodes["a"].soft_links.links):
                    cut(nodes["a"], link)
        await until(lambda: all(member.got == expected for member in all_of.values()))


async def test_a_broker_that_crashes_is_forgotten_and_comes_back(live: Live):
    network = gossip_network("abcd", round_s=0.05)
    nodes = await live.up(network)
    async with AsyncExitStack() as stack:
        all_of = await members(stack, network, "abc", "topic = 'fx'")
        doomed = await live.client(nodes["d"], "doomed")
        await doomed.subscribe("topic = 'fx'")
        await until(lambda: any("d" in nodes[name].soft_links.links for name in "abc"))
        await live.crash(nodes["d"])
        await until(lambda: all("d" not in nodes[x].soft_links.links for x in "abc"))
        for number in range(1, 31):
            await all_of["abc"[number % 3]].client.publish(n=number, topics=["fx"])
        expected = dict.fromkeys(range(1, 31), 1)
        await until(lambda: all(member.got == expected for member in all_of.values()))
        await live.node(network, "d")
        late = await members(stack, network, "d", "topic = 'fx'")
        await all_of["a"].client.publish(n=31, topics=["fx"])
        await until(lambda: late["d"].got[31] == 1)


async def test_a_broker_whose_clients_want_nothing_more_closes_its_connections(live: Live):
    network = gossip_network("abcd", round_s=0.05)
    nodes = await live.up(network)
    member = await Member.at(network, "d", "topic = 'fx'")
    await until(lambda: nodes["d"].soft_links.links)
    await member.close()
    await until(lambda: not nodes["d"].host.core.router.soft_links)
    assert "fx" not in topic_rows(nodes["d"])
    await until(lambda: all("d" not in topic_rows(nodes[x])["fx"][4].split(", ") for x in "ab"))


async def test_network_status_shows_topics_and_connections(live: Live, tmp_path: Path):
    network = gossip_network("abc")
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    await live.up(network)
    async with AsyncExitStack() as stack:
        await members(stack, network, "abc", "topic IN ('fx', 'oil')")
        shown, told = [
            await asyncio.to_thread(
                CliRunner().invoke, network_command, ["status", str(file), *extra]
            )
            for extra in ([], ["--json"])
        ]
    assert shown.exit_code == told.exit_code == 0
    assert "links" in shown.output.splitlines()[2]
    assert "topics" in [line.strip() for line in shown.output.splitlines()]
    for answer in json.loads(told.output).values():
        assert [row[0] for row in answer["rows"]["topics"]["rows"]] == ["fx", "oil"]
        assert {link["state"] for link in answer["links"]} == {"up"}
