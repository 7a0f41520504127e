"""Ids of clients where there are several users: nobody publishes under the id of another, at
whatever broker, and so nobody makes brokers take another's events for copies."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from live_brokers import Live
from raw_client import OWN, Closed, RawClient
from secured_brokers import ANNA, broker, lines, url

import reefcast
from live_networks import has_traceback, until
from reefcast.client.address import Address
from reefcast.client.client import Client
from reefcast.client.outbox_file import OutboxFile
from reefcast.client.settings import complete
from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast.network.sections import SessionsSection
from reefcast.protocol.client_ids import Identity, identity_of
from reefcast.server.node import Node
from secured import secured, token

REFUSED = "does not follow from the secret that is shown with it"


async def as_mallory(live: Live, node: Node, who: Identity) -> RawClient:
    """Connect as another user. Raises `Closed`."""
    client = await live.dial(node, who)
    await client.prove(token("mallory"))
    return client


async def up(live: Live, folder: Path, routing: str) -> dict[str, Node]:
    """Start brokers b1 - b2 - b3, which ask who connects, and have disks."""
    network = secured(folder, 3)
    network.network.routing = routing
    network.sessions = SessionsSection(directory=str(folder / "sessions"))
    return await live.up(network.validate())


async def rob(live: Live, node: Node, publisher: str, seqs: range) -> str:
    """Publish these numbers as another user at `node` under the id of `publisher`, with a secret
    that is not its own. Return why that was refused, "" if it was not."""
    try:
        mallory = await as_mallory(live, node, Identity(publisher, "mallory's own secret"))
    except Closed as closed:
        assert closed.close_frame is not None
        return closed.close_frame.reason
    mallory.seqs = itertools.count(seqs.start)
    mallory.publish(len(seqs), of="mallory")
    await mallory.until_acknowledged(len(seqs))
    return ""


async def what_comes(
    live: Live,
    nodes: dict[str, Node],
    events: AsyncIterator[reefcast.Event],
    *,
    confirm: bool,
) -> tuple[list[int], str]:
    """Have anna publish the numbers 1 to 3, and then, after mallory at another broker has tried to
    use 4 to 6 under the same id, 4 to 7. Return which of anna's events come, and why mallory was
    refused."""
    found = []
    async with reefcast.connect(url(nodes["b1"]), name="anna", **ANNA) as anna:
        for n in range(1, 4):
            await anna.publish(n=n, of="anna", confirm=confirm)
        while len(found) < 3:
            found.append((await anext(events))["n"])
        why = await rob(live, nodes["b2"], anna.id, range(4, 7))
        for _ in range(0 if why else 3):  # what he published is there before anna's
            assert (await anext(events))["of"] == "mallory"
        for n in range(4, 8):
            await anna.publish(n=n, of="anna", confirm=confirm)
        while found[-1] != 7:
            found.append((await anext(events))["n"])
    return found, why


@pytest.fixture(params=[True, False], ids=["checked", "not checked"])
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether brokers check ids."""
    if not request.param:
        monkeypatch.setattr("reefcast.server.clients.is_own", lambda identity: True)
    return bool(request.param)


async def test_copies_are_not_made_of_the_events_of_another(
    live: Live, tmp_path: Path, checked: bool
) -> None:
    """On flooding. If brokers did not check ids, anna's events would be dropped as copies."""
    nodes = await up(live, tmp_path, "flooding")
    async with reefcast.connect(url(nodes["b3"]), **ANNA) as bert:
        events = await bert.subscribe("n > 0")
        found, why = await what_comes(live, nodes, events, confirm=False)
    assert found == ([1, 2, 3, 4, 5, 6, 7] if checked else [1, 2, 3, 7])
    assert REFUSED in why if checked else not why
    if checked:
        (line,) = [each for each in lines(tmp_path, "b2") if each["event"] == "refused"]
        assert line["user"] == "mallory" and REFUSED in line["reason"]


async def test_a_durable_session_gets_what_was_confirmed(
    live: Live, tmp_path: Path, checked: bool
) -> None:
    """If brokers did not check ids, events would be confirmed, and not be in the session."""
    nodes = await up(live, tmp_path, "acyclic")
    async with (
        reefcast.connect(url(nodes["b3"]), **ANNA) as bert,
        bert.session("orders", here=True) as session,
    ):
        await session.subscribe("n > 0")
        found, why = await what_comes(live, nodes, aiter(session), confirm=True)
    assert found == ([1, 2, 3, 4, 5, 6, 7] if checked else [1, 2, 3, 7])
    assert REFUSED in why if checked else not why


async def test_an_id_without_its_own_secret_is_refused(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    for wrong in (
        Identity("c"),
        Identity("c", "a secret of the tests"),
        Identity(OWN.id),
        Identity(OWN.id, OWN.secret[:-1]),
        Identity(OWN.id[1:], OWN.secret),
        Identity(f"c{OWN.id}", OWN.secret),
        Identity(OWN.id[:-1], OWN.secret),
        Identity(OWN.id.swapcase(), OWN.secret),
    ):
        with pytest.raises(Closed) as raised:
            await as_mallory(live, node, wrong)
        close = raised.value.close_frame
        assert close is not None and not close.retry
        assert f"the client id {wrong.id!r} {REFUSED}" in close.reason
    await as_mallory(live, node, OWN)


async def test_a_client_keeps_its_id_at_another_broker(live: Live, tmp_path: Path) -> None:
    """And nobody who has seen the id can take it, while it is away, at either of them."""
    nodes = await up(live, tmp_path, "acyclic")
    async with (
        reefcast.connect(url(nodes["b3"]), **ANNA) as bert,
        reefcast.connect([url(nodes["b1"]), url(nodes["b2"])], **ANNA) as anna,
    ):
        events = await bert.subscribe("n > 0")
        first = await anna.publish(n=1)
        assert (await anext(events)).id == first
        await live.crash(nodes["b1"])
        await until(lambda: anna.id in nodes["b2"].clients.sessions)
        for name in ("b2", "b3"):
            assert REFUSED in await rob(live, nodes[name], anna.id, range(2, 3))
        second = await anna.publish(n=2)
        assert (await anext(events)).id == second == (first[0], first[1] + 1)


async def test_an_outbox_keeps_its_id_at_another_broker(live: Live, tmp_path: Path) -> None:
    nodes, path = await up(live, tmp_path, "acyclic"), str(tmp_path / "a.outbox")
    ids = []
    for name in ("b1", "b2"):
        async with reefcast.connect(url(nodes[name]), outbox=path, **ANNA) as anna:
            ids.append(await anna.publish(n=1, confirm=True))
    assert ids == [(ids[0][0], 1), (ids[0][0], 2)]


async def test_an_outbox_of_an_older_version_is_refused_until_it_is_empty(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node, path = await broker(live, tmp_path), tmp_path / "a.outbox"
    file = OutboxFile(path, Identity("old"))
    event = wire.encode_publication(Publication("old", 1, 0, {"n": 1}))
    file.commit(1, [wire.encode_published(event)], [])
    file.close()
    with pytest.raises(reefcast.RefusedError, match=f"the client id 'old' {REFUSED}"):
        await reefcast.connect(url(node), outbox=str(path), **ANNA)
    assert f"{path} is of an older version" in caplog.text
    file = OutboxFile(path, Identity("not needed"))
    file.commit(2, [], [1])
    file.close()
    async with reefcast.connect(url(node), outbox=str(path), **ANNA) as anna:
        assert await anna.publish(n=2) == (anna.id, 2)


@pytest.mark.parametrize("routing", ["acyclic", "flooding"])
async def test_a_program_that_is_connected_twice_harms_nobody_else(
    live: Live, tmp_path: Path, routing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Under one id and secret at two brokers: it loses events of its own, since they look like
    copies, and nobody else does; no broker fails, and no link."""
    caplog.set_level(logging.INFO)
    nodes = await up(live, tmp_path, routing)
    who = identity_of("twice", "a secret of its own")

    async def twin(name: str) -> Client:
        address = Address(*nodes[name].network.address(name))
        return await Client([address], complete({**ANNA}), who)._open()

    async with (
        reefcast.connect(url(nodes["b2"]), **ANNA) as anna,
        reefcast.connect(url(nodes["b3"]), **ANNA) as bert,
    ):
        events = await bert.subscribe("n > 0")
        twins = [await twin("b1"), await twin("b3")]
        assert twins[0].id == twins[1].id and all(each.connected for each in twins)
        for each, filter in zip(twins, ("n < 5", "n > 5"), strict=True):
            await each.advertise(filter)
            subscription = await each.subscribe(filter)
            await each.publish(n=1 if each is twins[0] else 9)
            await each.flush()
            await subscription.cancel()
        for each in twins:
            await each.close()
        await anna.publish(n=100)
        while (await anext(events))["n"] != 100:
            pass
    for node in nodes.values():
        assert {link.state for link in node.links.values()} == {"up"}
        assert not node.host.journal.counters["failures"]
    assert not has_traceback(caplog)
