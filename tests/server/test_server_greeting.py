"""The greeting: who is let in as what, and what happens to a connection while that is found out."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Coroutine
from typing import Any

import pytest
from authenticators import HELLO, Granting, Noting, Stepping, Transport, anna, connected
from hypothesis import given
from hypothesis import strategies as st
from live_brokers import Live
from raw_client import Closed, RawClient

import reefcast
from live_networks import (
    PATIENCE_S,
    has_traceback,
    linked,
    make_network,
    path_network,
    until,
    url_of,
)
from reefcast.errors import InternalError, ProtocolError
from reefcast.history.messages import End as EndOfAnswer
from reefcast.history.messages import Items, Stores
from reefcast.model import wire
from reefcast.model.messages import MoveLink, Publish, Unsubscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Hello, Role, StatusRequest
from reefcast.protocol.principal import ALL_ROLES, NOBODY, Principal, UserRole
from reefcast.protocol.privacy import Shown
from reefcast.protocol.proofs import Respondent
from reefcast.protocol.states import State
from reefcast.server.admin import admin_connection, ask_status
from reefcast.server.connection import Connection
from reefcast.server.greeting import (
    LOCAL,
    STRANGER,
    UNPROVED,
    Anonymous,
    Authenticator,
    Greeting,
    role_wanted,
)
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports

PROOF = FrameKind.PROOF


def proof(payload: bytes = b"") -> bytes:
    return wire.frame(PROOF, payload)


def control(token: int) -> bytes:
    return wire.encode(FrameKind.CONTROL, Unsubscribe(("c", 1), token))


def publication(seq: int, **attributes: Any) -> bytes:
    made = Publication("c", seq, 0, attributes)
    return wire.encode_publish(Publish(made, body=wire.encode_publication(made)))


@pytest.fixture
def endless_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no connection lose its turn, however slow the machine is."""
    monkeypatch.setattr("reefcast.server.connection.SLICE_S", math.inf)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# --- what is granted ------------------------------------------------------------------------------


def greeting(host: Any, role: Role = Role.CLIENT, name: str = "c") -> Greeting:
    return Greeting(
        wire.hello(role, name, "", "s"),
        shown={"peername": (host, 1) if host else None}.get,
        write=lambda frame: None,
        go_on=lambda: None,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1"])
def test_without_configuration_everything_on_loopback_is_granted(host: str) -> None:
    for everywhere in (False, True):
        assert Anonymous(everywhere=everywhere).prove(greeting(host)) == LOCAL
    assert LOCAL.roles == frozenset(UserRole) and LOCAL.proof == "loopback"


@pytest.mark.parametrize("host", ["10.0.0.1", "2001:db8::1", "", "loopback"])
def test_elsewhere_nothing_is_granted_unless_the_network_is_insecure(host: str) -> None:
    assert Anonymous().prove(greeting(host)) == STRANGER
    assert STRANGER.roles == NOBODY.roles == frozenset()
    assert Anonymous(everywhere=True).prove(greeting(host)) == UNPROVED
    assert UNPROVED.roles == ALL_ROLES and UNPROVED.proof == "nothing"


@pytest.mark.parametrize("insecure", [False, True])
async def test_a_network_file_says_what_is_granted_elsewhere(insecure: bool) -> None:
    network = path_network(1)
    network.network.insecure = insecure
    authenticator = Node(network, "b1").authenticator
    assert authenticator.prove(greeting("10.0.0.1")) == (UNPROVED if insecure else STRANGER)


WANTED = [
    (Role.CLIENT, "c", UserRole.CLIENT),
    (Role.CLIENT, "b1", UserRole.CLIENT),
    (Role.ADMIN, "b1", None),
    (Role.BROKER, "b1", UserRole.BROKER),
    (Role.SOFT, "b1", UserRole.BROKER),
    (Role.BROKER, "127.0.0.1:7", UserRole.PEER),
    (Role.SOFT, "127.0.0.1:7", UserRole.PEER),
]


@pytest.mark.parametrize(("role", "name", "wanted"), WANTED)
async def test_what_a_hello_asks_for_must_be_granted(
    role: Role, name: str, wanted: UserRole | None
) -> None:
    """Nothing else needs to be granted."""
    hello = wire.hello(role, name, "", "s")
    assert role_wanted(hello, {"b1"}) is wanted
    others = ALL_ROLES - {wanted}
    for roles, refused in ((others, wanted is not None), (ALL_ROLES - others, False)):
        connection, transport, end = connected(Granting(*roles))
        connection._shared = connection._shared._replace(brokers=("b1",))
        connection.data_received(wire.encode(FrameKind.HELLO, hello))
        assert (connection.end is end) is (not refused)
        if refused:
            ((kind, payload),) = transport.frames()
            assert kind == FrameKind.CLOSE
            assert wire.decode_close(payload).reason == (
                f"user 'anna' is not granted the role {str(wanted)!r} here"
            )
            assert connection.principal == NOBODY
        else:
            assert connection.principal == anna(*roles)
        connection.connection_lost(None)


FROM_STORAGES = [
    Stores(topics=("x",), name="s1"),
    Items(id=("d", 1), path=("d", "a", "c"), at=1, before=0, bodies=()),
    EndOfAnswer(id=("d", 1), path=("d", "a", "c"), at=1),
]


@pytest.mark.parametrize("said", FROM_STORAGES, ids=lambda said: type(said).__name__)
async def test_only_a_storage_says_what_storages_say(live: Live, said: Any) -> None:
    for roles in ((UserRole.CLIENT,), (UserRole.CLIENT, UserRole.STORAGE)):
        node = await live.node(make_network("a"), "a", authenticator=Granting(*roles))
        client = await live.client(node, "c")
        client.send(FrameKind.CONTROL, said)
        if UserRole.STORAGE in roles:
            await client.subscribe("TRUE")
        else:
            sentence = "user 'anna' is not granted the role 'storage' here"
            assert await client.reason() == sentence
        asked = StatusRequest(tables=("storages",))
        told = (await ask_status(*node.network.address("a"), asked))["rows"].get("storages")
        stores = UserRole.STORAGE in roles and isinstance(said, Stores)
        assert (told and told["rows"]) == ([["x", "c", 0, "c", "s1"]] if stores else None)


async def test_only_administrators_move_links_and_all_may_look(live: Live) -> None:
    roles = ALL_ROLES - {UserRole.ADMINISTRATOR}
    node = await live.node(path_network(1), "b1", authenticator=Granting(*roles))
    address = node.network.address("b1")
    assert (await ask_status(*address))["broker"] == "b1"
    async with admin_connection(*address) as broker:
        with pytest.raises(reefcast.RefusedError, match=r"'anna' is not granted .*'administrator'"):
            await broker.move("b2", "b3")


async def test_an_administrator_is_told_why_a_link_cannot_be_moved(live: Live) -> None:
    authenticator = Granting(UserRole.ADMINISTRATOR)
    node = await live.node(path_network(1), "b1", authenticator=authenticator)
    client = await live.dial(node, "o")
    client.say_hello(role=Role.ADMIN)
    client.send(FrameKind.WISH, MoveLink("b2", "b3"))
    assert "granted" not in await client.reason()


@pytest.mark.parametrize("who", ["b1", "b2"])
async def test_neighbours_are_granted_to_be_brokers_by_both_ends(
    live: Live, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    """b1 dials. The end that does not grant the role says so, and there is no link."""
    caplog.set_level(logging.INFO)
    network = path_network(2)
    others = ALL_ROLES - {UserRole.BROKER}
    for name in network.names:
        strict = Granting(*others) if name == who else None
        await live.node(network, name, authenticator=strict)
    await until(lambda: "'anna' is not granted the role 'broker'" in caplog.text)
    (link,) = live.nodes[who].links.values()
    assert (link.state, link.principal, link.user) == ("away", None, "")


@pytest.mark.parametrize("who", ["a", "b"])
async def test_soft_links_are_for_brokers_that_are_granted_to_be_one(
    live: Live, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker a dials."""
    caplog.set_level(logging.INFO)
    network = make_network("ab", routing="gossip", options={"contacts": ["b"], "round_s": 0.05})
    strict = Granting(*(ALL_ROLES - {UserRole.BROKER}))
    for name in network.names:
        await live.node(network, name, authenticator=strict if name == who else None)
    dialling = live.nodes["a"]
    dialling.soft_links.open("b")
    await until(lambda: "no soft link to b" in caplog.text)
    assert "user 'anna' is not granted the role 'broker'" in caplog.text
    assert not dialling.soft_links.links


async def test_a_peer_must_be_granted_to_be_one(live: Live) -> None:
    network = make_network("a", routing="gossip", options={"contacts": ["a"]})
    authenticator = Granting(*(ALL_ROLES - {UserRole.PEER}))
    node = await live.node(network, "a", authenticator=authenticator)
    peer = await live.dial(node, f"127.0.0.1:{free_ports(1)[0]}")
    peer.say_hello(role=Role.SOFT, network="test")
    assert await peer.reason() == "user 'anna' is not granted the role 'peer' here"


async def test_the_status_tells_the_user_of_each_link_and_client(live: Live) -> None:
    network = path_network(2)
    for name in network.names:
        await live.node(network, name, authenticator=Granting(*ALL_ROLES))
    node = live.nodes["b1"]
    await until(lambda: node.links["b2"].state == "up")
    await live.client(node, "c")
    assert node.clients.sessions["c"].principal == node.links["b2"].principal == anna(*ALL_ROLES)
    status = await ask_status(*network.address("b1"))
    for told in ("links", "clients"):
        (each,) = status[told]
        assert each["user"] == "anna"


async def test_the_status_tells_the_user_of_each_soft_link(live: Live) -> None:
    options = {"contacts": ["a", "b"], "round_s": 0.05}
    network = make_network("ab", routing="gossip", options=options)
    for name in network.names:
        node = await live.node(network, name, authenticator=Granting(*ALL_ROLES))
        await (await live.client(node, name + name)).subscribe("topic = 'fx'")
    for name in network.names:
        soft = live.nodes[name].soft_links
        await until(lambda soft=soft: [link.state for link in soft.links.values()] == ["up"])
        (link,) = (await ask_status(*network.address(name)))["links"]
        assert link["user"] == "anna"


# --- at once --------------------------------------------------------------------------------------


async def test_who_is_known_at_once_loses_no_turn(endless_turns: None) -> None:
    connection, _, end = connected(Granting(UserRole.CLIENT))
    connection.data_received(HELLO + control(1) + publication(1))
    assert end.heard == ["control 1", 1]
    connection.connection_lost(None)


async def test_an_authenticator_that_refuses_at_once() -> None:
    class Refusing(Authenticator):
        def prove(self, greeting: Greeting) -> Principal:
            raise ProtocolError("nobody is called c")

    connection, transport, end = connected(Refusing())
    connection.data_received(HELLO + control(1))
    assert [kind for kind, _ in transport.frames()] == [FrameKind.CLOSE]
    assert b"nobody is called c" in transport.written
    assert end.heard == []
    connection.connection_lost(None)


# --- in several steps -----------------------------------------------------------------------------


async def challenge(greeting: Greeting) -> Principal:
    """Ask two questions, with a look-up in between."""
    await asyncio.sleep(0)
    greeting.send(b"name")
    name = (await greeting.receive()).decode()
    await asyncio.sleep(0.01)
    greeting.send(b"double 21")
    if await greeting.receive() != b"42":
        raise ProtocolError(f"{name} does not know the answer")
    greeting.send(b"well done")
    return Principal(name, frozenset({UserRole.CLIENT}), "sums")


async def test_questions_are_asked_before_anybody_is_let_in(live: Live) -> None:
    node = await live.node(path_network(1), "b1", authenticator=Stepping(challenge))
    client = await live.dial(node)
    client.say_hello()
    assert await client.next(PROOF) == b"name"
    client.writer.write(proof(b"bert"))
    assert await client.next(PROOF) == b"double 21"
    assert not node.clients.sessions and client.inbox == []
    client.writer.write(proof(b"42"))
    assert await client.next(PROOF) == b"well done"
    await client.next(FrameKind.HELLO)
    session = node.clients.sessions["c"]
    assert session.principal == Principal("bert", frozenset({UserRole.CLIENT}), "sums")
    await client.subscribe("TRUE")
    client.writer.write(proof(b"more"))
    assert "kind 24, which has no place here" in await client.reason()


async def test_who_answers_wrongly_is_told_so(live: Live) -> None:
    node = await live.node(path_network(1), "b1", authenticator=Stepping(challenge))
    client = await live.dial(node)
    client.say_hello()
    client.writer.write(proof(b"bert") + proof(b"41"))
    assert await client.reason() == "bert does not know the answer"
    assert not node.clients.sessions


async def test_what_is_found_out_later_grants_no_more(live: Live) -> None:
    async def steps(greeting: Greeting) -> Principal:
        await asyncio.sleep(0)
        return anna(UserRole.PEER)

    node = await live.node(path_network(1), "b1", authenticator=Stepping(steps))
    client = await live.dial(node)
    client.say_hello()
    assert await client.reason() == "user 'anna' is not granted the role 'client' here"


async def test_what_is_no_proof_is_out_of_place_where_one_is_awaited(live: Live) -> None:
    authenticator = Stepping(challenge)
    node = await live.node(path_network(1), "b1", authenticator=authenticator)
    for said in (control(1), publication(1), HELLO):
        client = await live.dial(node)
        client.say_hello()
        await client.next(PROOF)
        client.writer.write(said)
        assert "came where only PROOF is allowed" in await client.reason()
    await until(lambda: authenticator.ended == 3)


async def test_an_authenticator_that_fails_is_the_brokers_fault(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(greeting: Greeting) -> Principal:
        await asyncio.sleep(0)
        raise KeyError(greeting.hello.name)

    node = await live.node(path_network(1), "b1", authenticator=Stepping(steps))
    client = await live.dial(node)
    client.say_hello()
    assert await client.reason() == "the broker failed on this input; its log says how"
    assert has_traceback(caplog)


async def test_an_authenticator_that_gives_up_by_itself() -> None:
    async def steps(greeting: Greeting) -> Principal:
        raise asyncio.CancelledError

    connection, transport, _ = connected(Stepping(steps))
    connection.data_received(HELLO)
    await turns(3)
    assert [kind for kind, _ in transport.frames()] == [FrameKind.CLOSE]
    connection.connection_lost(None)


async def test_who_dialled_asks_nothing() -> None:
    """The other end may have let it in already."""
    asked = Greeting(
        wire.hello(Role.BROKER, "b", "", "s"),
        respondent=Saying(b""),
        shown=lambda name: None,
        write=lambda frame: pytest.fail("something was sent"),
        go_on=lambda: None,
    )
    with pytest.raises(InternalError):
        asked.send(b"who?")


async def test_links_come_up_where_both_ends_take_their_time(live: Live) -> None:
    """Frames that the quicker end sends early wait for the other end, too."""

    async def steps(greeting: Greeting) -> Principal:
        await asyncio.sleep(0.05 if greeting.dialled else 0.01)
        return anna(*ALL_ROLES)

    network = path_network(3)
    for name in network.names:
        await live.node(network, name, authenticator=Stepping(steps))
    first, *_, last = (url_of(network, name) for name in network.names)
    async with reefcast.connect(last) as subscriber, reefcast.connect(first) as publisher:
        subscription = await subscriber.subscribe("x > 0")
        await publisher.publish(x=1)
        assert (await anext(subscription))["x"] == 1


class Saying(Respondent):
    """Says a word behind each question."""

    def __init__(self, word: bytes) -> None:
        self._word = word

    def respond(self, payload: bytes) -> bytes:
        return payload + self._word


class Sworn(Authenticator):
    """An authenticator of brokers that know the word; the dialling end asks nothing."""

    def __init__(self, word: bytes) -> None:
        self._word = word

    def prove(self, greeting: Greeting) -> Principal | Coroutine[Any, Any, Principal]:
        return anna(*ALL_ROLES) if greeting.dialled else self._ask(greeting)

    async def _ask(self, greeting: Greeting) -> Principal:
        for question in (b"1", b"2"):
            greeting.send(question)
            if await greeting.receive() != question + self._word:
                raise ProtocolError(f"{greeting.hello.name} does not know the word")
        return Principal(greeting.hello.name, ALL_ROLES, "the word")

    def respond(self, hello: Hello, shown: Shown, to: str) -> Respondent:
        return Saying(self._word)


async def test_brokers_prove_to_each_other_who_they_are(live: Live) -> None:
    network = path_network(3)
    for name in network.names:
        await live.node(network, name, authenticator=Sworn(b"lamp"))
    await linked(live.nodes.values())
    users = {
        (node.name, name): link.user
        for node in live.nodes.values()
        for name, link in node.links.items()
    }
    assert users == {
        ("b1", "b2"): "anna",
        ("b2", "b1"): "b1",
        ("b2", "b3"): "anna",
        ("b3", "b2"): "b2",
    }


@pytest.mark.parametrize(
    ("dialling", "says"),
    [
        (Sworn(b"lantern"), "closed the connection to .* b1 does not know the word"),
        (None, "closed the connection to .* malformed question for a proof"),
    ],
)
async def test_a_broker_that_proves_nothing_gets_no_link(
    live: Live, caplog: pytest.LogCaptureFixture, dialling: Authenticator | None, says: str
) -> None:
    caplog.set_level(logging.INFO)
    network = path_network(2)
    await live.node(network, "b1", authenticator=dialling)
    await live.node(network, "b2", authenticator=Sworn(b"lamp"))
    await until(lambda: re.search(says, caplog.text))
    assert [link.state for node in live.nodes.values() for link in node.links.values()] == 2 * [
        "away"
    ]


# --- what comes meanwhile -------------------------------------------------------------------------


class Waiting:
    """The steps of an authenticator that goes on when `go` is set, and reads `count` frames of
    PROOF."""

    def __init__(self, count: int = 0) -> None:
        self.go = asyncio.Event()
        self.heard: list[bytes] = []
        self._count = count

    async def __call__(self, greeting: Greeting) -> Principal:
        await self.go.wait()
        for _ in range(self._count):
            self.heard.append(await greeting.receive())
        return anna(UserRole.CLIENT)


async def greeted(count: int = 0) -> tuple[Waiting, Connection, Transport, Noting]:
    waiting = Waiting(count)
    return waiting, *connected(Stepping(waiting))


async def test_frames_behind_the_hello_wait_and_keep_their_order() -> None:
    waiting, connection, transport, end = await greeted()
    behind = control(1) + publication(1) + publication(2) + control(2) + publication(3)
    connection.data_received(HELLO + behind + control(3)[:7])
    await turns(5)
    assert (end.heard, transport.reading, transport.written) == ([], False, b"")
    assert connection.link.state is State.GREETING
    waiting.go.set()
    await turns(5)
    assert end.heard == ["control 1", 1, 2, "control 2", 3]
    assert transport.reading
    connection.data_received(control(3)[7:])
    assert end.heard[-1] == "control 3"
    assert connection.received == 6
    connection.connection_lost(None)


async def test_a_long_frame_behind_the_hello_is_cut_when_it_may_come() -> None:
    waiting, connection, transport, end = await greeted()
    connection.data_received(HELLO + control(1) + publication(1, text="x" * 100_000))
    waiting.go.set()
    await turns(5)
    assert (end.heard, transport.reading) == (["control 1", 1], True)
    connection.connection_lost(None)


async def test_it_is_read_as_long_as_nothing_waits(endless_turns: None) -> None:
    """This is how the end of the connection is noticed."""
    _, connection, transport, _ = await greeted()
    connection.data_received(HELLO)
    assert transport.reading
    connection.data_received(proof())
    assert not transport.reading
    connection.connection_lost(None)


async def test_a_close_is_heard_at_any_time() -> None:
    authenticator = Stepping(Waiting())
    connection, transport, _ = connected(authenticator)
    connection.data_received(HELLO)
    await turns(2)
    connection.data_received(wire.encode(FrameKind.CLOSE, wire.Close("never mind")))
    assert connection.refusal == "never mind"
    assert transport.closed
    await turns(2)
    assert authenticator.ended == 1
    connection.connection_lost(None)


@given(st.integers(0, 6), st.lists(st.integers(1, 40), max_size=12), st.booleans())
def test_proofs_are_taken_one_by_one_however_they_come(
    count: int, cuts: list[int], early: bool
) -> None:
    """What is behind the proofs is handled after them; nothing is read while a frame waits."""

    async def run() -> None:
        waiting, connection, transport, end = await greeted(count)
        if early:
            waiting.go.set()
        data = HELLO + b"".join(proof(b"%d" % n) for n in range(count)) + control(1) + control(2)
        for cut in cuts:
            while not transport.reading and early:
                await turns(1)
            if transport.reading:
                connection.data_received(data[:cut])
                data = data[cut:]
            await turns(1)
        waiting.go.set()
        while data or len(end.heard) < 2 or not transport.reading:
            if data and transport.reading:
                connection.data_received(data[:50])
                data = data[50:]
            await turns(1)
        assert waiting.heard == [b"%d" % n for n in range(count)]
        assert end.heard == ["control 1", "control 2"]
        connection.connection_lost(None)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


async def test_very_many_proofs_in_one_read() -> None:
    count = 20_000
    waiting, connection, _, end = await greeted(count)
    waiting.go.set()
    connection.data_received(HELLO + proof() * count + control(1))
    await until(lambda: end.heard)
    assert len(waiting.heard) == count
    connection.connection_lost(None)


async def test_a_flood_while_greeting_stays_outside(live: Live) -> None:
    """The buffers of the sockets fill up; those of the broker do not."""
    waiting = Waiting()
    node = await live.node(path_network(1), "b1", authenticator=Stepping(waiting))
    client = await live.dial(node)
    client.say_hello()
    flood = control(1) * 1_000_000
    client.writer.write(flood)
    (connection,) = node.shared.all
    await until(lambda: connection._frames is not None)
    await asyncio.sleep(1)
    assert client.writer.transport.get_write_buffer_size() > len(flood) / 2
    assert sum(map(len, connection.link._reader._chunks)) < 1 << 20


# --- the end of a greeting ------------------------------------------------------------------------


async def test_all_steps_together_have_the_time_of_a_hello(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.server.connection.HELLO_S", 0.3)

    async def steps(greeting: Greeting) -> Principal:
        while True:
            greeting.send(b"again")
            await greeting.receive()

    authenticator = Stepping(steps)
    node = await live.node(path_network(1), "b1", authenticator=authenticator)
    client = await live.dial(node)
    client.say_hello()

    async def answer() -> None:
        while True:
            await client.next(PROOF)
            client.writer.write(proof(b"here"))
            await asyncio.sleep(0.01)

    with pytest.raises(Closed):
        await answer()
    assert client.close_frame is not None
    assert client.close_frame.reason == "no end of the greeting within 0.3 s"
    await until(lambda: authenticator.ended == 1)


async def test_a_connection_that_is_lost_ends_its_greeting(live: Live) -> None:
    waiting = Waiting(1)
    authenticator = Stepping(waiting)
    node = await live.node(path_network(1), "b1", authenticator=authenticator)
    for before in range(2):
        client = await live.dial(node)
        client.say_hello()
        await until(lambda: len(authenticator.greetings) > authenticator.ended)
        assert authenticator.ended == before
        client.writer.transport.abort()
        await until(lambda: not node.shared.all)
        await until(lambda: len(authenticator.greetings) == authenticator.ended)
        waiting.go.set()
    assert not node.clients.sessions


async def test_a_greeting_that_never_began_its_steps_is_ended_too() -> None:
    """The connection is lost in the turn in which its hello came."""
    _, connection, _, end = await greeted()
    connection.data_received(HELLO)
    proving = connection._proving
    connection.connection_lost(None)
    await turns(3)
    assert proving is not None and proving.cancelled()
    assert end.heard == []


async def test_an_authenticator_that_does_not_let_go_lets_nobody_in() -> None:
    """It is cancelled, and returns a principal all the same, or fails."""
    for fails in (False, True):

        async def steps(greeting: Greeting, fails: bool = fails) -> Principal:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                if fails:
                    raise KeyError from None
            return anna(UserRole.CLIENT)

        connection, _, end = connected(Stepping(steps))
        connection.data_received(HELLO)
        await turns(2)
        connection.connection_lost(None)
        await turns(3)
        assert (connection.greeted, end.heard, connection.principal) == (False, [], NOBODY)


async def test_a_broker_that_stops_waits_for_no_greeting(live: Live) -> None:
    authenticator = Stepping(Waiting())
    node = await live.node(path_network(1), "b1", authenticator=authenticator)
    client = await live.dial(node)
    client.say_hello()
    await until(lambda: authenticator.greetings)
    async with asyncio.timeout(10):
        await node.stop()
    assert "was told to stop" in await client.reason()
    assert authenticator.ended == 1


# --- two at once ----------------------------------------------------------------------------------


class Named(Stepping):
    """An authenticator that lets in first who proves first, whoever said hello first."""

    def __init__(self) -> None:
        async def steps(greeting: Greeting) -> Principal:
            name = (await greeting.receive()).decode()
            return Principal(name, frozenset({UserRole.CLIENT}), "its word")

        super().__init__(steps)


async def two(live: Live) -> tuple[Node, RawClient, RawClient]:
    """Connect two clients that have both said hello as c and are being greeted."""
    authenticator = Named()
    node = await live.node(path_network(1), "b1", authenticator=authenticator)
    first, second = await live.dial(node, "c"), await live.dial(node, "c")
    first.say_hello(session="s1")
    second.say_hello(session="s2")
    await until(lambda: len(authenticator.greetings) == 2)
    assert not node.clients.sessions
    return node, first, second


async def test_of_two_that_are_greeted_at_once_the_one_let_in_last_takes_over(live: Live) -> None:
    node, first, second = await two(live)
    second.writer.write(proof(b"anna"))
    await second.next(FrameKind.HELLO)
    assert node.clients.sessions["c"].key == "s2"
    first.writer.write(proof(b"anna"))
    await first.next(FrameKind.HELLO)
    assert await second.reason() == "another connection with this client's id took over"
    assert node.clients.sessions["c"].key == "s1"
    await first.subscribe("TRUE")


async def test_nobody_takes_over_the_client_of_another_user(live: Live) -> None:
    node, first, second = await two(live)
    second.writer.write(proof(b"anna"))
    await second.next(FrameKind.HELLO)
    first.writer.write(proof(b"bert"))
    assert await first.reason() == "the client id 'c' is in use by another user"
    assert node.clients.sessions["c"].principal.user == "anna"
    await second.subscribe("TRUE")
