"""What users may do by their roles: refused, narrowed and changed while they are connected. Live
brokers and clients in simulated time (`granted_network`), and one network on sockets."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from msgspec.structs import replace
from secured_brokers import ANNA, lines, url

import reefcast
from granted_network import WHOLE, ByName, Granted, User
from live_networks import make_network, until
from live_storages import storing
from reefcast import connect
from reefcast.client.address import Address
from reefcast.client.client import Client, session_of
from reefcast.client.durable import answer_to
from reefcast.client.handles import inbox_of
from reefcast.client.settings import complete
from reefcast.errors import ConfigurationError, ConnectionLostError, RefusedError
from reefcast.history.messages import Stores
from reefcast.model.grants import Right
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication
from reefcast.network.file import dump_network
from reefcast.network.sections import RoleEntry, SessionsSection
from reefcast.protocol.client_ids import Identity
from reefcast.server.admin import ask_status
from reefcast.server.following import follow_users
from reefcast.server.node import Node
from reefcast.sessions.messages import Deposit, Done, Note, ReadNotes
from secured import secured

FX = RoleEntry(name="fx", publish="desk = 'fx' AND price > 0", subscribe="secret IS NULL")
OWN = RoleEntry(name="own", publish="owner = ${user}", subscribe="owner = ${user}")
DESK = RoleEntry(name="desk", publish="TRUE", subscribe="desk = ${claims.desk}")
ROLES = [FX, OWN, DESK]
FREE = {WHOLE: User()}
SETTLED_S = 3.0
ADVISORIES = "topic LIKE '$reefcast/%'"


def numbers(subscription: Any) -> list[int]:
    return [event["n"] for event in inbox_of(subscription).pop_all()]


class Refusals:
    """Notes which publications were refused."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, id: Any, reason: str) -> None:
        self.reasons.append(reason)


# --- publishing ----------------------------------------------------------------------------------


def test_a_publication_outside_is_refused_with_a_sentence() -> None:
    refused = Refusals()

    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a", on_refused=refused)
        listener = await (await net.client(f"{WHOLE}-1", "b")).subscribe("TRUE")
        await client.publish(n=1, desk="fx", price=1)
        await client.publish(n=2, desk="fx", price=0)
        await client.publish(n=3, desk="hr", price=1)
        await asyncio.sleep(SETTLED_S)
        assert numbers(listener) == [1]
        # An advertisement that is narrower stays; one of which nothing may be published does not.
        await client.advertise("desk = 'fx' AND price > 5")
        await client.publish(n=4, desk="fx", price=3)
        await client.publish(n=5, desk="fx", price=6)
        with pytest.raises(RefusedError, match=r"all of .* lies outside what user"):
            await client.advertise("desk = 'hr'")
        await client.advertise("desk IN ('fx', 'hr')")
        await client.publish(n=6, desk="hr", price=6)
        await asyncio.sleep(SETTLED_S)
        assert numbers(listener) == [5]

    Granted(ROLES, FREE | {"anna": User(("fx",))}).run(scenario)
    outside = "lies outside what user 'anna' may publish: desk = 'fx' AND price > 0"
    assert [reason for reason in refused.reasons if outside in reason] == [f"it {outside}"] * 3
    assert "lies outside what this client advertised" in refused.reasons[2]


def test_who_may_publish_nothing_advertises_nothing() -> None:
    refused = Refusals()

    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a", on_refused=refused)
        await client.publish(n=1)
        await asyncio.sleep(SETTLED_S)
        assert net.nodes["b"].host.core.tables()["SRT"] == 0

    reader = RoleEntry(name="reader", subscribe="TRUE")
    Granted([reader], FREE | {"anna": User(("reader",))}).run(scenario)
    assert "user 'anna' may publish nothing" in refused.reasons[0]


def test_each_topic_of_a_publication_must_be_granted() -> None:
    refused = Refusals()

    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a", on_refused=refused)
        listener = await (await net.client(f"{WHOLE}-1", "b")).subscribe("topic = 'pay'")
        await client.publish(n=1, topics=["fx/a", "pay"])
        await client.publish(n=2, topics=["fx/a", "fx/b"])
        await asyncio.sleep(SETTLED_S)
        assert not numbers(listener)

    topical = RoleEntry(name="topical", publish="topic MATCHES 'fx/#'")
    Granted([topical], FREE | {"anna": User(("topical",))}).run(scenario)
    assert len(refused.reasons) == 1


def test_the_compiled_path_grants_what_the_readable_one_does() -> None:
    async def scenario(net: Granted) -> None:
        counts = {}
        for id in ("anna-1", "anna-2"):
            refused = Refusals()
            client = await net.client(id, "a", on_refused=refused)
            listener = await (await net.client(f"{WHOLE}-{id}", "b")).subscribe(
                f"publisher = '{id}'"
            )
            if id == "anna-2":
                await client.advertise("desk <> 'none'")
            for n in range(50):
                values = {"n": n, "desk": "fx" if n % 3 else "hr", "price": n % 5}
                await client.publish({**values, "publisher": id}, topics=["t"] if n % 7 else [])
            await asyncio.sleep(SETTLED_S)
            counts[id] = (numbers(listener), len(refused.reasons))
        expected = [n for n in range(50) if n % 3 and n % 5]
        assert counts == dict.fromkeys(counts, (expected, 50 - len(expected)))

    Granted(ROLES, FREE | {"anna": User(("fx",))}).run(scenario)


# --- seeing --------------------------------------------------------------------------------------


def test_what_lacks_a_claim_grants_nothing_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a")
        with pytest.raises(RefusedError, match=r"may see nothing; role 'desk' .*\$\{claims.desk\}"):
            await client.subscribe("TRUE")
        told = net.nodes["a"].clients.sessions["anna-1"].status()["grant"]
        assert isinstance(told, dict) and "claims.desk" in told["missing"][0]

    with caplog.at_level(logging.WARNING):
        Granted(ROLES, FREE | {"anna": User(("desk",))}).run(scenario)
    assert any("${claims.desk} has no value" in record.message for record in caplog.records)


def test_a_value_is_a_value_and_no_part_of_the_filter() -> None:
    name = "x' OR TRUE OR owner = 'x"

    async def scenario(net: Granted) -> None:
        client = await net.client(f"{name}-1", "a")
        subscription = await client.subscribe("TRUE")
        free = await net.client(f"{WHOLE}-1", "b")
        await free.publish(n=1, owner="x")
        await free.publish(n=2, owner=name)
        await asyncio.sleep(SETTLED_S)
        assert numbers(subscription) == [2]

    Granted(ROLES, FREE | {name: User(("own",))}).run(scenario)


def test_other_brokers_have_the_narrowed_row_and_the_client_its_own_filter() -> None:
    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a")
        free = await net.client(f"{WHOLE}-1", "b")
        await free.advertise("TRUE")
        subscription = await client.subscribe("price > 5")
        rows = list(net.nodes["b"].host.core.router.prt)
        assert [row.filter.text for row in rows] == ["secret IS NULL AND price > 5"] or [
            row.filter.text for row in rows
        ] == ['"secret" IS NULL AND "price" > 5']
        assert subscription.filters == ("price > 5",)

    Granted(ROLES, FREE | {"anna": User(("fx",))}).run(scenario)


def test_retained_values_are_narrowed_and_cleared_only_within_the_grant() -> None:
    async def scenario(net: Granted) -> None:
        free = await net.client(f"{WHOLE}-1", "b")
        for n, owner in enumerate(("anna", "bert", "anna")):
            await free.publish(n=n, owner=owner, key=f"k{n}", retain="key")
        client = await net.client("anna-1", "a")
        await asyncio.sleep(1.0)
        assert sorted(event["n"] for event in await client.retained()) == [0, 2]
        with pytest.raises(RefusedError, match="not yours to clear"):
            await client.clear_retained(attributes={"key": "k1"})
        # Nor may it go by a value of one's own, to be cleared in the next step.
        with pytest.raises(RefusedError, match="not yours to replace"):
            await client.publish(n=8, owner="anna", key="k1", retain="key")
        assert sorted(event["n"] for event in await free.retained()) == [0, 1, 2]
        await client.clear_retained(attributes={"key": "k2"})
        with pytest.raises(RefusedError, match="lies outside what user 'anna' may publish"):
            await client.publish(n=9, owner="bert", key="k1", retain="key")
        values = await client.subscribe("n >= 0", retained=True)
        assert (await anext(values))["n"] == 0
        await free.publish(n=5, owner="bert", key="k5", retain="key")
        await free.publish(n=6, owner="anna", key="k6", retain="key")
        assert (await anext(values))["n"] == 6
        # Narrowed while the question watches, and widened.
        net.regrant([RoleEntry(name="own", subscribe="n >= 10")])
        await free.publish(n=7, owner="anna", key="k7", retain="key")
        await free.publish(n=11, owner="bert", key="k11", retain="key")
        assert (await anext(values))["n"] == 11
        assert sorted(event["n"] for event in await client.retained()) == [11]

    Granted(ROLES, FREE | {"anna": User(("own",))}).run(scenario)


def test_replies_reach_who_asked_and_nobody_else() -> None:
    service = RoleEntry(name="service", publish="reply.for IS NOT NULL", subscribe="kind = 'price'")
    asker = RoleEntry(name="asker", publish="kind = 'price'", subscribe="kind = 'price'")

    async def scenario(net: Granted) -> None:
        serving = await net.client("bert-1", "c")
        asking = await net.client("anna-1", "a")
        spying = await net.client("anna-spy", "b")
        requests = await serving.subscribe("kind = 'price'")
        seen = await spying.subscribe("kind = 'price'")

        async def serve() -> None:
            async for request in requests:
                await request.reply(price=5)

        asyncio.get_running_loop().create_task(serve())
        for _ in range(2):
            reply = await net.on("anna-1", asking.request(kind="price"))
            assert reply["price"] == 5
        address = inbox_of(seen).pop_all()[0].reply_to
        spied = await spying.subscribe(f"reply.for = '{address}'")
        await net.on("anna-1", asking.request(kind="price"))
        await asyncio.sleep(SETTLED_S)
        assert not inbox_of(spied).pop_all()
        # Who is no service may not reply.
        with pytest.raises(RefusedError, match="lies outside"):
            await spying.publish({"reply.for": address, "reply.number": 1}, confirm=True)

    users = {"anna": User(("asker",)), "bert": User(("service",))}
    Granted([service, asker], FREE | users).run(scenario)


# --- changes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("routing", ["acyclic", "flooding", "mesh", "tid-d"])
def test_what_both_grants_allow_is_neither_lost_nor_doubled(routing: str) -> None:
    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a")
        subscription = await client.subscribe("n >= 0")
        free = await net.client(f"{WHOLE}-1", "c")
        bounds = ["n % 1", "n < 200", "n >= 0", "n < 200 AND n >= 0", "TRUE"]
        for n in range(200):
            if n % 40 == 20:
                net.regrant([RoleEntry(name="r", subscribe=bounds[1 + (n // 40) % 4])])
            await free.publish(n=n)
            await asyncio.sleep(0.002)
        await asyncio.sleep(SETTLED_S)
        assert numbers(subscription) == list(range(200))
        # Narrowed at once, and what is still under way, too.
        await free.publish(n=201)
        net.regrant([RoleEntry(name="r", subscribe="n < 200")])
        await free.publish(n=202)
        await free.publish(n=5)
        await asyncio.sleep(SETTLED_S)
        assert numbers(subscription) == [5]
        await subscription.cancel()
        await asyncio.sleep(SETTLED_S)
        prt = net.nodes["a"].host.core.router.prt
        assert not prt.from_hop("anna-1")

    roles = [RoleEntry(name="r", subscribe="TRUE")]
    Granted(roles, FREE | {"anna": User(("r",))}, routing=routing).run(scenario)


@pytest.mark.parametrize("written", [False, True])
def test_what_waits_for_a_client_is_not_sent_once_it_is_outside(*, written: bool) -> None:
    """`written`: it was, but the client has not read it; it would be sent again."""

    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a")
        subscription = await client.subscribe("n >= 0")
        free = await net.client(f"{WHOLE}-1", "a")
        if written:
            net.loop.freeze(net.machines["anna-1"], net.loop.time() + 2.0)
        else:
            net.sever("anna-1", "a")
        for n in range(6):
            await free.publish(n=n)
        await asyncio.sleep(0.01)
        port = net.nodes["a"].clients.sessions["anna-1"].port
        assert port.kept == 6 and (port.queue_len == 0) is written
        net.regrant([RoleEntry(name="r", subscribe="n < 3")])
        net.sever("anna-1", "a")
        await free.publish(n=7)
        await free.publish(n=2, again=True)
        await asyncio.sleep(SETTLED_S)
        assert numbers(subscription) == [0, 1, 2, 2]
        assert client.connected and not subscription.dropped

    roles = [RoleEntry(name="r", subscribe="TRUE")]
    Granted(roles, FREE | {"anna": User(("r",))}).run(scenario)


def test_a_client_that_comes_back_with_other_roles_is_narrowed() -> None:
    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a")
        subscription = await client.subscribe("n >= 0")
        free = await net.client(f"{WHOLE}-1", "a")
        net.authenticator.users["anna"] = User(("low",))
        net.sever("anna-1", "a")
        for n in range(6):
            await free.publish(n=n)
        await asyncio.sleep(SETTLED_S)
        assert numbers(subscription) == [0, 1, 2]

    roles = [RoleEntry(name="r", subscribe="TRUE"), RoleEntry(name="low", subscribe="n < 3")]
    Granted(roles, FREE | {"anna": User(("r",))}).run(scenario)


def test_a_request_about_the_past_goes_on_within_the_new_grant() -> None:
    async def scenario(net: Granted) -> None:
        await net.storage("c")
        free = await net.client(f"{WHOLE}-1", "b")
        for n in range(9000):
            await free.publish(n=n, topics=["t0"])
        await asyncio.sleep(SETTLED_S)
        client = await net.client("anna-1", "a")

        async def read() -> list[int]:
            found = []
            async for event in client.history("topic = 't0'"):
                found.append(event["n"])
                if len(found) == 100:
                    net.regrant([RoleEntry(name="r", subscribe="n >= 8500 OR n = 50")])
                    await asyncio.sleep(1.0)
            return found

        found = await net.on("anna-1", read())
        # What had arrived before is the program's; then only what is inside.
        first = [n for n in found if n < 8500]
        assert first == list(range(len(first))) and 100 <= len(first) <= 4096
        assert found[len(first) :] == list(range(8500, 9000))

    roles = [RoleEntry(name="r", subscribe="TRUE")]
    Granted(roles, FREE | {"anna": User(("r",))}).run(scenario)


def test_a_user_that_is_no_more_is_disconnected() -> None:
    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a")
        subscription = await client.subscribe("TRUE")
        node = net.nodes["a"]
        net.machines["a"].context.run(
            node.regrant, None, lambda subject: None if subject.user == "anna" else subject
        )
        with pytest.raises((RefusedError, ConnectionLostError), match="no user 'anna' any more"):
            await anext(subscription)

    Granted(ROLES, FREE | {"anna": User(("fx",))}).run(scenario)


# --- durable sessions ----------------------------------------------------------------------------


def test_a_home_that_restarts_narrows_as_before() -> None:
    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "b")
        session = await client.session("s")
        await session.subscribe("n >= 0")
        await client.close()
        await net.nodes["b"].stop()
        await net.on("b", net._start("b"))
        free = await net.client(f"{WHOLE}-1", "c")
        await asyncio.sleep(SETTLED_S)
        await free.publish(n=1, owner="bert", confirm=True)
        await free.publish(n=2, owner="anna", confirm=True)
        assert (await free.sessions("*")) == []  # it is at another broker
        consumer = await net.client("anna-2", "a")
        session = consumer.session("s")
        assert (await anext(session))["n"] == 2
        row = await session.status()
        assert row.subscriptions == {1: "n >= 0"} and row.events == 1

    Granted(ROLES, FREE | {"anna": User(("own",))}).run(scenario)


def test_a_role_may_ask_for_another_claim_of_a_sessions_owner_later() -> None:
    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "b")
        session = await client.session("s")
        await session.subscribe("n >= 0")
        await client.close()
        net.regrant([RoleEntry(name="r", subscribe="desk = ${claims.desk}")])
        await asyncio.sleep(SETTLED_S)
        free = await net.client(f"{WHOLE}-1", "c")
        for n, desk in enumerate(("fx", "hr")):
            await free.publish(n=n, desk=desk, confirm=True)
        consumer = await net.client("anna-2", "a")
        assert [each.event["n"] for each in await consumer.session("s").look()] == [0]

    roles = [RoleEntry(name="r", subscribe="TRUE")]
    Granted(roles, FREE | {"anna": User(("r",), {"desk": "fx"})}).run(scenario)


def test_two_tokens_of_one_user_see_what_theirs_allow() -> None:
    async def scenario(net: Granted) -> None:
        fx = await net.client("anna-fx", "a")
        session = await fx.session("s")
        await session.subscribe("n >= 0")
        free = await net.client(f"{WHOLE}-1", "c")
        for n, desk in enumerate(("fx", "hr", "fx")):
            await free.publish(n=n, desk=desk, confirm=True)
        net.authenticator.users["anna"] = User(("desk",), {"desk": "hr"})
        hr = await net.client("anna-hr", "b")
        assert await hr.session("s").look() == []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SETTLED_S):
                await anext(hr.session("s"))
        assert [each.event["n"] for each in await session.look()] == [0, 2]
        # The owner subscribes with the other token: what it allows comes from now on.
        await hr.session("s").subscribe("n >= 0")
        for n, desk in enumerate(("fx", "hr"), start=3):
            await free.publish(n=n, desk=desk, confirm=True)
        assert [each.event["n"] for each in await hr.session("s").look()] == [4]
        assert (await anext(session))["n"] == 0

    Granted(ROLES, FREE | {"anna": User(("desk",), {"desk": "fx"})}).run(scenario)


# --- rights --------------------------------------------------------------------------------------


def test_sessions_of_others_need_a_right() -> None:
    lister = RoleEntry(name="lister", subscribe="n < 2", rights=["status"])
    drainer = RoleEntry(name="drainer", subscribe="n < 2", rights=["drain"])

    async def scenario(net: Granted) -> None:
        owner = await net.client("anna-1", "b")
        session = await owner.session("s")
        await session.subscribe("TRUE")
        free = await net.client(f"{WHOLE}-1", "c")
        for n in range(4):
            await free.publish(n=n, owner="anna", confirm=True)
        lists, drains = await net.client("bert-1", "b"), await net.client("cora-1", "a")
        assert [row.name for row in await lists.sessions("*")] == ["s"]
        for client in (lists, await net.client("anna-2", "a")):
            other = "anna" if client is lists else "bert"
            with pytest.raises(RefusedError, match="no right to 'drain'"):
                await client.session("s", owner=other).look()
        with pytest.raises(RefusedError, match="no right to 'status'"):
            await drains.sessions("*")
        # Who may drain sees of the events what his own roles allow.
        theirs = drains.session("s", owner="anna")
        assert [each.event["n"] for each in await theirs.look()] == [0, 1]
        assert await theirs.drain() == 4
        # Nor may he make up what he may not publish.
        forged = encode_publication(Publication("boss", 7, 1, {"n": 0, "owner": "anna"}))
        deposit = Deposit(
            token=session_of(drains).consuming.next_token(),
            owner="anna",
            session="s",
            number=1,
            bodies=(forged,),
        )
        with pytest.raises(RefusedError, match="only their own user puts past events"):
            await answer_to(session_of(drains), deposit, Done)
        assert await session.look() == []
        # Notes hold secrets: nobody else has them, whatever his rights.
        for client in (drains, free):
            token = session_of(client).consuming.next_token()
            for asked in (
                Note(token=token, owner="anna", session="s", notes={"key": "text"}),
                ReadNotes(token=token, owner="anna", session="s"),
            ):
                with pytest.raises(RefusedError, match="only its own user leaves notes"):
                    await answer_to(session_of(client), asked, Done)
        token = session_of(owner).consuming.next_token()
        note = Note(token=token, session="s", notes={"key": "text"})
        assert await answer_to(session_of(owner), note, Done) == Done(token=token)

    users = {"anna": User(("own",)), "bert": User(("lister",)), "cora": User(("drainer",))}
    Granted([*ROLES, lister, drainer], FREE | users).run(scenario)


def test_advisory_events_end_with_the_right_to_them(tmp_path: Path) -> None:
    """What comes to a running subscription, and what waits in a durable session."""
    watcher = RoleEntry(name="watcher", subscribe="TRUE", rights=["status"])

    async def scenario(net: Granted) -> None:
        client = await net.client("anna-1", "a")
        live = await client.subscribe(ADVISORIES)
        kept = await client.session("kept")
        await kept.subscribe(ADVISORIES)
        free = await net.client(f"{WHOLE}-1", "b")
        small = await free.session("small", max_events=1)
        await small.subscribe("n > 0")

        async def overflow() -> None:
            for n in range(1, 4):
                await free.publish(n=n, confirm=True)
            await asyncio.sleep(SETTLED_S)

        await overflow()
        assert inbox_of(live).pop_all() and await kept.look()
        net.regrant([RoleEntry(name="watcher", subscribe="TRUE")])
        await overflow()
        assert not inbox_of(live).pop_all()
        assert await kept.look() == []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SETTLED_S):
                await anext(kept)

    net = Granted([watcher], FREE | {"anna": User(("watcher",))})
    net.network.sessions = SessionsSection(directory=str(tmp_path), advisories=True)
    net.run(scenario)


def test_only_who_has_the_right_is_a_storage() -> None:
    placer = RoleEntry(name="placer", subscribe="TRUE", rights=["place"])

    async def scenario(net: Granted) -> None:
        for id, may in (("bert-1", True), ("anna-1", False)):
            client = await net.client(id, "a")
            session_of(client).say([Stores(topics=("t",))])
            with suppress(RefusedError, ConnectionLostError):
                await client.subscribe("TRUE")
            assert client.connected is may

    users = {"anna": User(("fx",)), "bert": User(("placer",))}
    Granted([*ROLES, placer], FREE | users).run(scenario)


async def test_roles_where_nobody_proves_who_he_is_are_refused() -> None:
    network = make_network("a", [])
    network.role = [FX]
    with pytest.raises(ConfigurationError, match=r"no \[security\]"):
        Node(network, "a")


async def test_a_file_that_has_no_roles_any_more_opens_nothing(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be half written: what comes first of it is a network file, too."""
    network, file = make_network("a", []), tmp_path / "net.toml"
    network.role = [OWN]
    whole = dump_network(network)
    file.write_text(whole)
    node = await live.node(network, "a", authenticator=ByName({"anna": User(("own",))}))
    following = asyncio.create_task(follow_users(node, file))
    live._stack.callback(following.cancel)
    anna = await Client([Address(*network.address("a"))], complete({}), Identity("anna-1"))._open()
    subscription = await anna.subscribe("n > 0")
    file.write_text(whole[: whole.index("[[role]]")])
    await until(lambda: "has no [[role]] any more" in caplog.text)
    async with connect("reefcast://{}:{}".format(*network.address("a")), name="other") as other:
        await other.publish(n=1, owner="bert", confirm=True)
        await other.publish(n=2, owner="anna", confirm=True)
        assert (await anext(subscription))["n"] == 2
    await anna.close()


async def test_on_sockets_and_with_a_file_that_changes(live: Live, tmp_path: Path) -> None:
    operator = RoleEntry(name="op", rights=[Right.STATUS.value])
    network = make_network("ab", [("a", "b")])
    network.role = [*ROLES, operator]
    authenticator = ByName(FREE | {"anna": User(("own",)), "admin": User(("op",))})
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network))
    for name in ("a", "b"):
        await live.node(network, name, authenticator=authenticator)
        following = asyncio.create_task(follow_users(live.nodes[name], file))
        live._stack.callback(following.cancel)

    async with connect("reefcast://{}:{}".format(*network.address("a")), name=WHOLE) as free:
        anna = await Client(
            [Address(*network.address("b"))], complete({}), Identity("anna-1")
        )._open()
        subscription = await anna.subscribe("n > 0")
        await free.publish(n=1, owner="bert")
        await free.publish(n=2, owner="anna")
        assert (await anext(subscription))["n"] == 2
        roles = [RoleEntry(name="own", subscribe="owner = 'bert'"), operator]
        file.write_text(dump_network(replace(network, role=roles)))
        got: list[str] = []

        async def read() -> None:
            async for event in subscription:
                got.append(event["owner"])

        reading = asyncio.create_task(read())
        for n in range(3, 100_000):
            if "bert" in got:
                break
            await free.publish(n=n, owner="bert")
            await free.publish(n=n, owner="anna")
            await asyncio.sleep(0.01)
        changed = got.index("bert")
        assert set(got[:changed]) <= {"anna"} and set(got[changed:]) == {"bert"}
        reading.cancel()
        await anna.close()
        # "admin" is the name of admin connections here; a broker that is asked says what it may.
        assert (await ask_status(*network.address("a")))["broker"] == "a"
        for node in live.nodes.values():
            node.regrant([RoleEntry(name="op")])
        with pytest.raises(Exception, match="user 'admin' has no right to 'status' here"):
            await ask_status(*network.address("a"))
        with pytest.raises(ConfigurationError, match="given twice"):
            live.nodes["a"].regrant([RoleEntry(name="op"), RoleEntry(name="op")])


async def test_what_a_role_does_not_grant_is_in_the_audit_log(live: Live, tmp_path: Path) -> None:
    network = secured(tmp_path)
    network.role = [RoleEntry(name="fx-desk", publish="desk = 'fx'")]
    node = await live.node(network.validate(), "b1")
    async with reefcast.connect(url(node), **ANNA) as client:
        await client.publish({"desk": "fx"})
        with pytest.raises(reefcast.RefusedError, match="may see nothing"):
            await client.subscribe("desk = 'hr'")
        await client.publish({"desk": "hr"})
        with pytest.raises(reefcast.RefusedError, match=r"^publication 2 was refused: it lies"):
            await client.flush()
    told = [line for line in lines(tmp_path) if line["event"] == "request_refused"]
    assert [(line["user"], line["message"]) for line in told] == [("anna", "Refused")] * 2
    assert "may see nothing" in told[0]["reason"]
    assert "lies outside" in told[1]["reason"]


async def test_what_may_not_be_asked_of_the_past_is_in_the_audit_log(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = secured(tmp_path)
    network.role = [RoleEntry(name="fx-desk", publish="desk = 'fx'")]
    node = await live.node(network.validate(), "b1")
    monkeypatch.setenv("REEFCAST_NETWORK_KEY_FILE", str(tmp_path / "network.key"))
    storage = storing(url(node), tmp_path / "history")
    async with storage, reefcast.connect(url(node), **ANNA) as client:
        with pytest.raises(reefcast.RefusedError, match="refused: user 'anna' may see nothing"):
            async for _ in client.history("topic = 'fx'"):
                pytest.fail("something came")
        with pytest.raises(reefcast.RefusedError, match="lies outside"):
            await client.publish({"desk": "hr", "key": "k"}, retain="key")
    told = [line for line in lines(tmp_path) if line["event"] == "request_refused"]
    assert [(line["user"], line["message"]) for line in told] == [
        *(("anna", "End"), ("anna", "NotRetained"), ("anna", "Refused"))
    ]
    assert "may see nothing" in told[0]["reason"]
