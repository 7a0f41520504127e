"""A client that says what only brokers say is cut off with a sentence: every kind of message, and
every kind of frame, is tried."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from live_brokers import Live
from msgspec import inspect
from raw_client import OWN

import reefcast.routing
from live_networks import has_traceback
from reefcast.history.messages import FROM_STORAGES
from reefcast.model import wire
from reefcast.model.looks import Summary
from reefcast.model.messages import Control
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.proofs import Answer, Method, encode_proof
from secured import PASSWORD, secured, token

FROM_CLIENTS = {
    *("Advertise", "Unadvertise", "Subscribe", "Unsubscribe"),
    *("Find", "Request", "More", "Cancel"),
    *("OpenSession", "CloseSession", "AddFilter", "RemoveFilter", "Deposit", "Attach", "Detach"),
    *("Note", "ReadNotes"),
    *("Look", "Manage", "ListSessions", "Resize", "Acknowledge", "Reject"),
    *("Retain", "Clear", "Recall", "RecallOn", "Forget"),
}
"""What a client may say."""


def all_messages() -> Iterator[type[Control]]:
    """Every kind of message of the product, of every routing."""
    for module in pkgutil.walk_packages(reefcast.routing.__path__, "reefcast.routing."):
        importlib.import_module(module.name)
    importlib.import_module("reefcast.sessions.relay_messages")

    def below(kind: type[Control]) -> Iterator[type[Control]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    for kind in below(Control):
        own = kind.__module__.startswith("reefcast.") and "simulation" not in kind.__module__
        if own and kind.__struct_config__.tag is not None and not kind.__subclasses__():
            yield kind


def sample(of: inspect.Type) -> Any:
    """A value of this type."""
    match of:
        case inspect.StructType():
            return example(of.cls)
        case inspect.IntType() | inspect.FloatType():
            return max(of.ge or 0, 1)
        case inspect.StrType():
            return "x"
        case inspect.BytesType():
            return bytes(of.min_length or 0)
        case inspect.BoolType():
            return True
        case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
            return ()
        case inspect.TupleType():
            return tuple(map(sample, of.item_types))
        case inspect.DictType():
            return {}
        case inspect.UnionType():
            return sample(of.types[0])
        case inspect.EnumType():
            return next(iter(of.cls))
        case inspect.LiteralType():
            return of.values[0]
        case inspect.NoneType():
            return None
    raise AssertionError(f"no example of {of}")


def example(kind: type[msgspec.Struct]) -> Any:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return kind(**{field.name: sample(field.type) for field in info.fields})


MESSAGES = sorted(
    (each for each in all_messages() if each.__name__ not in FROM_CLIENTS),
    key=lambda each: each.__name__,
)


def test_all_kinds_are_found() -> None:
    names = {each.__name__ for each in MESSAGES}
    assert {"CivSet", "Bind", "MoveWave", "Stored", "Spread", "Settled", "Synced"} <= names
    assert len(names) > 50


async def intruder(live: Live, folder: Path) -> Any:
    """A user of the network who is a client and nothing else, and the broker."""
    (node,) = live.nodes.values() or [await live.node(secured(folder), "b1")]
    client = await live.dial(node, OWN)
    await client.prove(token("mallory"))
    return client


async def test_every_message_of_brokers_is_refused_from_a_client(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One broker for all of them: no sentence says that it failed."""
    said = {}
    for kind in MESSAGES:
        client = await intruder(live, tmp_path)
        client.send(FrameKind.CONTROL, example(kind))
        said[kind.__name__] = await client.reason()
    for name, reason in said.items():
        known = ("must not send", "malformed control message", "is not granted the role")
        assert any(each in reason for each in known), (name, reason)
    for kind in FROM_STORAGES:
        assert said[kind.__name__] == "user 'mallory' is not granted the role 'storage' here"
    assert not has_traceback(caplog)


FRAMES = [kind for kind in FrameKind if kind not in (FrameKind.PING, FrameKind.CLOSE)]
ALLOWED = (
    *(FrameKind.CONTROL, FrameKind.PUBLISH, FrameKind.PUBLISH_AGAIN, FrameKind.PUBLISH_CONFIRM),
)
PAYLOADS: dict[FrameKind, object] = {
    FrameKind.CONGESTION: wire.Congestion("b2", 1, True),
    FrameKind.STATUS: wire.StatusRequest(),
    FrameKind.LOOK: Summary(),
    FrameKind.WISH: {"type": "move_link", "old": "b1", "new": "b2"},
}


@pytest.mark.parametrize(
    ("role", "name"), [(Role.BROKER, "b1"), (Role.BROKER, "b2"), (Role.SOFT, "127.0.0.1:7999")]
)
async def test_a_user_is_no_broker_whatever_its_hello_says(
    live: Live, tmp_path: Path, role: Role, name: str
) -> None:
    node = await live.node(secured(tmp_path, 2), "b1")
    for answer in (
        Answer(Method.TOKEN, secret=token("mallory")),
        Answer(Method.PASSWORD, user="otto", secret=PASSWORD),
        Answer(Method.NOTHING),
        Answer(Method.KEY, nonce=bytes(32), mac=bytes(32)),
    ):
        client = await live.dial(node, name)
        client.say_hello(role=role, network="test")
        await client.next(FrameKind.PROOF)
        client.writer.write(wire.frame(FrameKind.PROOF, encode_proof(answer)))
        reason = await client.reason()
        known = ("accepts no", "nothing is shown", "has another key of the network")
        assert any(each in reason for each in known), reason
    assert {link.state for link in node.links.values()} == {"away"}


@pytest.mark.parametrize("kind", [each for each in FRAMES if each not in ALLOWED])
async def test_every_frame_of_brokers_is_refused_from_a_client(
    live: Live, tmp_path: Path, kind: FrameKind, caplog: pytest.LogCaptureFixture
) -> None:
    client = await intruder(live, tmp_path)
    client.send(kind, PAYLOADS.get(kind, 1))
    reason = await client.reason()
    known = ("out of place from a client", "has no place here", "nobody asked for")
    assert any(each in reason for each in known), reason
    assert not has_traceback(caplog)


async def test_a_publication_on_its_way_between_brokers_is_refused_from_a_client(
    live: Live, tmp_path: Path
) -> None:
    client = await intruder(live, tmp_path)
    made = Publication(OWN.id, 1, 0, {"x": 1})
    frame = wire.encode_parts(FrameKind.PUBLISH, (3,), wire.encode_publication(made))
    client.writer.write(frame)
    assert "a client's publication has the header of one" in await client.reason()
