"""Brokers that read their network file again while they run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from live_brokers import Live
from msgspec.structs import replace

import reefcast
from granted_network import ByName, User
from live_networks import make_network, until, url_of
from reefcast.errors import ConfigurationError, RefusedError
from reefcast.logs import PARTS, ROOT, part
from reefcast.model.grants import Right
from reefcast.model.messages import MoveLink
from reefcast.network.changes import fingerprint
from reefcast.network.file import NetworkFile, dump_network, load_network
from reefcast.network.listeners import ListenerEntry
from reefcast.network.sections import LogSection, RoleEntry, SessionsSection, TraceSection
from reefcast.server.admin import admin_connection
from reefcast.server.applying import (
    APPLIED,
    NOT_MINE,
    REFUSED,
    RESTART,
    TOGETHER,
    Applied,
    Applying,
)
from reefcast.server.node import Node


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(ROOT), *(part(name) for name in PARTS)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


class File:
    """The network file of a test."""

    def __init__(self, folder: Path, network: NetworkFile) -> None:
        self.path = folder / "net.toml"
        self.network = network
        self.say()

    def say(self, **sections: Any) -> None:
        self.network = replace(self.network, **sections)
        self.path.write_text(dump_network(self.network))

    def limits(self, **limits: Any) -> None:
        self.say(limits=replace(self.network.limits, **limits))


async def started(live: Live, file: File, name: str = "a", **more: Any) -> tuple[Node, Applying]:
    node = await live.node(load_network(file.path), name, **more)
    applying = node.wishes.applying = Applying(node, file.path, ())
    return node, applying


def outcomes(found: list[Applied]) -> dict[str, str]:
    return {each.change: each.outcome for each in found}


async def test_limits_count_for_whoever_is_there(live: Live, tmp_path: Path) -> None:
    """A client that is connected may ask for fewer subscriptions, send smaller publications and be
    slowed down; a second connection is one too many."""
    file = File(tmp_path, make_network("a"))
    node, applying = await started(live, file)
    client = await live.client(node, "first")
    await client.subscribe("n > 0")
    file.limits(
        max_subscriptions=1,
        publication_bytes=100,
        max_connections=1,
        user_publications_per_s=5.0,
        queue_bytes=1000,
        session_s=0.25,
        link_buffer=7,
    )
    found = applying.apply()
    assert {each.outcome for each in found} == {APPLIED} and len(found) == 7
    assert applying.apply() == []
    with pytest.raises(ValueError, match="max_subscriptions"):
        await client.subscribe("n > 1")
    with pytest.raises(reefcast.ConnectionLostError, match="max_connections"):
        await reefcast.connect(url_of(file.network, "a"), connect_timeout_s=0.1)
    assert node.clients.memory.most == 1000 and node.host.core._then.holding.limit == 7
    assert node.clients._rates.limited
    client.publish(10, name="x" * 200)
    await until(lambda: node.host.journal.counters["over_limit"] == 1)  # the subscription
    assert node.host.core.counters["refused"] == 0


async def test_limits_count_for_neighbours_that_are_away(live: Live, tmp_path: Path) -> None:
    file = File(tmp_path, make_network("ab", [("a", "b")], routing="flooding"))
    node, applying = await started(live, file)
    other = await live.node(file.network, "b")
    await until(lambda: node.links["b"].connection is not None)
    await other.stop()
    await until(lambda: node.links["b"].connection is None)
    file.limits(link_buffer=7, link_high=3)
    assert {each.outcome for each in applying.apply()} == {APPLIED}
    assert node.host.outputs.links["b"]._high == 3
    client = await live.client(node, "first")
    client.publish(20)
    await until(lambda: node.host.journal.counters["link_lost"] == 13)


async def test_what_a_running_broker_cannot_take_over_needs_a_restart(
    live: Live, tmp_path: Path
) -> None:
    """It goes on as it was, and says so each time."""
    file = File(tmp_path, make_network("ab", [("a", "b")]))
    _, applying = await started(live, file)
    known = file.network
    file.say(
        sessions=replace(known.sessions, directory=str(tmp_path)),
        network=replace(known.network, routing="flooding"),
        limits=replace(known.limits, credit=77),
        log=LogSection(format="json", level="info"),
        broker=[known.broker[0], replace(known.broker[1], listen="127.0.0.1:9")],
        trace=TraceSection(flush_s=5.0),
    )
    wanted = {
        "[network] routing": RESTART,
        "[sessions] directory": RESTART,
        "[log] format": RESTART,
        "[[broker]] b listen": RESTART,
    }
    again = [each for each in applying.apply(dry=True) if each.outcome != APPLIED]
    assert outcomes(again) == wanted
    done = applying.apply()
    assert outcomes(done) == wanted | {
        "[trace] flush_s": APPLIED,
        "[limits] credit": APPLIED,
        "[log] level": APPLIED,
    }
    assert [each for each in done if each.outcome != APPLIED] == applying.apply() == again
    (routing,) = [each for each in done if each.change == "[network] routing"]
    assert (routing.before, routing.after, routing.why) == ("acyclic", "flooding", TOGETHER)


async def test_only_the_broker_of_a_listener_needs_a_restart(live: Live, tmp_path: Path) -> None:
    def at(broker: str, port: int, **more: Any) -> ListenerEntry:
        return ListenerEntry(broker=broker, protocol="mqtt", listen=f"127.0.0.1:{port}", **more)

    network = make_network("ab", [("a", "b")], routing="flooding")
    kept = SessionsSection(directory=str(tmp_path / "sessions"))
    file = File(tmp_path, replace(network, sessions=kept))
    _, applying = await started(live, file)
    file.say(listener=[at("a", 1883), at("b", 1884)])
    found = {each.change: (each.outcome, each.why) for each in applying.apply()}
    assert found == {
        "[[listener]] a 127.0.0.1:1883": (RESTART, ""),
        "[[listener]] b 127.0.0.1:1884": (APPLIED, NOT_MINE),
    }
    _, applying = await started(live, file, "b")
    file.say(listener=[at("a", 1883, content="json"), at("b", 1884, content="json")])
    assert outcomes(applying.apply()) == {
        "[[listener]] a 127.0.0.1:1883 content": APPLIED,
        "[[listener]] b 127.0.0.1:1884 content": RESTART,
    }
    file.say(listener=[])
    assert outcomes(applying.apply()) == {
        "[[listener]] a 127.0.0.1:1883": APPLIED,
        "[[listener]] b 127.0.0.1:1884": RESTART,
    }


async def test_log_levels_follow_and_those_of_the_command_line_win(
    live: Live, tmp_path: Path
) -> None:
    file = File(tmp_path, make_network("a"))
    node, _ = await started(live, file)
    applying = Applying(node, file.path, ("links=error",))
    file.say(log=LogSection(level="info", levels={"links": "debug", "routing": "debug"}))
    assert outcomes(applying.apply()) == {"[log] level": APPLIED, "[log] levels": APPLIED}
    found = {name: part(name).getEffectiveLevel() for name in ("broker", "links", "routing")}
    assert found == {"broker": logging.INFO, "links": logging.ERROR, "routing": logging.DEBUG}


async def test_a_trace_is_switched_on_and_off(live: Live, tmp_path: Path) -> None:
    """While publications flow: those in between, and no others, are in it, also on the compiled
    path; and what cannot be written is refused."""
    file = File(tmp_path, make_network("a"))
    node, applying = await started(live, file)
    reader, writer = await live.client(node, "r"), await live.client(node, "w")
    await reader.subscribe("n > 0")
    await writer.advertise("n > 0")
    total = 0

    async def publish() -> None:
        nonlocal total
        writer.publish(50)
        total += 50
        await reader.seqs_of(50)

    await publish()
    file.say(trace=TraceSection(level="full", directory=str(tmp_path / "trace")))
    assert {each.outcome for each in applying.apply()} == {APPLIED}
    await publish()
    file.say(trace=TraceSection(level="off"))
    assert {each.outcome for each in applying.apply()} == {APPLIED}
    await publish()
    await asyncio.gather(*node.former_traces)
    files = (tmp_path / "trace" / "delivery").glob("*.parquet")
    seqs = [row["seq"] for each in files for row in pq.read_table(each).to_pylist()]
    assert sorted(seqs) == list(range(51, 101))
    assert (tmp_path / "trace" / "run.json").exists()
    (tmp_path / "taken").touch()
    file.say(trace=TraceSection(level="full", directory=str(tmp_path / "taken")))
    found = applying.apply()
    assert {each.outcome for each in found} == {REFUSED}
    assert "taken" in found[0].why and node.host.journal.trace is None


async def test_roles_and_the_reason_why_not(live: Live, tmp_path: Path) -> None:
    file = File(tmp_path, make_network("a"))
    authenticator = ByName({"anna": User(("own",))})
    file.say(role=[RoleEntry(name="own", publish="n = 1")])
    node, applying = await started(live, file, authenticator=authenticator)
    file.say(role=[RoleEntry(name="own", publish="n = 2")], limits=file.network.limits)
    assert outcomes(applying.apply()) == {"[[role]] own publish": APPLIED}
    assert node.host.core.granting.grants._roles["own"].publish.text == "n = 2"  # type: ignore[union-attr]  # it has one
    file.say(role=[])
    (gone,) = applying.apply()
    assert (gone.change, gone.outcome) == ("[[role]] own", RESTART)
    assert "might do everything" in gone.why


async def test_a_wrong_file_changes_nothing(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = File(tmp_path, make_network("a"))
    node, applying = await started(live, file)
    file.path.write_text(file.path.read_text() + "\n[limits]\nqueue_limit = 0\n")
    with pytest.raises(ConfigurationError):
        applying.apply()
    applying.hang_up()
    assert "reads its network file again, and changes nothing" in caplog.text
    assert node.host.limits.queue_limit == 10_000
    file.limits(queue_limit=11)
    applying.hang_up()
    assert "broker a: applied: [limits] queue_limit (for clients that come" in caplog.text
    assert node.host.limits.queue_limit == 11


async def test_links_that_have_moved_are_no_change(live: Live, tmp_path: Path) -> None:
    """`reefcast network move-link` has written them into the file."""
    options = {"coordinator": "a"}
    network = make_network("abc", [("a", "b"), ("b", "c")], routing="mesh", options=options)
    file = File(tmp_path, network)
    nodes = {name: await started(live, file, name) for name in "abc"}
    await until(lambda: all(not node.host.core.relearning for node, _ in nodes.values()))
    nodes["c"][0].wishes.meet(MoveLink("b", "a"))
    await until(lambda: "a" in nodes["c"][0].links and "b" not in nodes["c"][0].links)
    await until(lambda: "c" not in nodes["b"][0].links and "c" in nodes["a"][0].links)
    assert [each.change for each in nodes["c"][1].apply(dry=True)] == [
        "[[link]] a - c",
        "[[link]] b - c",
    ]
    file.say(link=[network.link[0], replace(network.link[1], between=("a", "c"))])
    assert [applying.apply() for _, applying in nodes.values()] == [[], [], []]


async def test_operators_apply_over_the_admin_connection(live: Live, tmp_path: Path) -> None:
    """Who has the right; and the broker's file must be the operator's."""
    file = File(tmp_path, make_network("a"))
    rights = {"may": [Right.APPLY.value], "not": [Right.DRAIN.value, Right.STATUS.value]}
    file.say(role=[RoleEntry(name=name, rights=its) for name, its in rights.items()])
    authenticator = ByName({"admin": User(("may",))})
    node, _ = await started(live, file, authenticator=authenticator)
    file.limits(session_s=9.0)
    address = file.network.address("a")
    async with admin_connection(*address) as asked:
        (dry,) = await asked.apply(fingerprint(load_network(file.path)), dry=True)
        assert node.host.limits.session_s == 60.0
        (row,) = await asked.apply(fingerprint(load_network(file.path)), dry=False)
        assert (
            row
            == dry
            == {
                "change": "[limits] session_s",
                "before": 60.0,
                "after": 9.0,
                "outcome": APPLIED,
                "why": "",
            }
        )
    assert node.host.limits.session_s == 9.0
    async with admin_connection(*address) as asked:
        other = fingerprint(replace(file.network, limits=replace(file.network.limits, credit=5)))
        with pytest.raises(RefusedError, match=r"net\.toml, which does not say what"):
            await asked.apply(other, dry=False)
    authenticator.users["admin"] = User(("not",))
    async with admin_connection(*address) as asked:
        with pytest.raises(RefusedError, match="apply"):
            await asked.apply("", dry=False)
    node.wishes.applying = None
    authenticator.users["admin"] = User(("may",))
    async with admin_connection(*address) as asked:
        with pytest.raises(RefusedError, match="without a network file"):
            await asked.apply("", dry=False)
