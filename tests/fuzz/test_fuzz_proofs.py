"""Greetings of a broker that asks who connects: nobody gets in who has not proved who he is, and
others go on."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from broker_doors import MESSAGES, BrokerDoor, Transport

from fuzzing import OFTEN_AND_SOAKED, changed_packed, changed_text, seeds
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.protocol.frames import FrameReader
from reefcast.protocol.principal import Principal
from reefcast.protocol.proofs import (
    Answer,
    Method,
    Question,
    answer_with_key,
    decode_asked,
    encode_proof,
)
from reefcast.security.attempts import Attempts
from reefcast.server.connection import Connection
from reefcast.server.greeting import LOCAL, Greeting
from reefcast.server.proving import Proving
from secured import KEY, OTHER_PASSWORD, PASSWORD, secured, token

WORDS = ("\x00", "é", "$network", "anonymous", "*", "a" * 300, ".", "=")
TOKENS = {True: token("bert"), False: token("bert", seconds=-60)}
NAMES = {Role.CLIENT: "c", Role.ADMIN: "", Role.BROKER: "a", Role.SOFT: "a"}


class Asking(Proving):
    """Asks everybody but the bystanders."""

    def prove(self, greeting: Greeting) -> Principal | Coroutine[Any, Any, Principal]:
        if greeting.hello.name in ("subscriber", "publisher"):
            return LOCAL
        return super().prove(greeting)


class Shown(NamedTuple):
    """What a connection shows. `honest`: whether that is right; `waits`: how often it looks for an
    answer before it goes."""

    hello: Hello
    method: Method
    honest: bool
    seed: int
    waits: int


def made(rng: random.Random) -> Shown:
    role = rng.choice((Role.CLIENT, Role.CLIENT, Role.CLIENT, *Role))
    hello = wire.hello(role, NAMES[role], "test", "s")
    waits = rng.choice((0, 0, 1, 3, 20))
    return Shown(
        hello, rng.choice(tuple(Method)), rng.random() < 0.3, rng.randrange(1 << 30), waits
    )


def answer_of(shown: Shown, question: Question, rng: random.Random) -> bytes:
    right = shown.honest
    if shown.method is Method.PASSWORD:
        wrong = rng.choice((OTHER_PASSWORD, "", changed_text(PASSWORD, rng, WORDS) + "!"))
        user = "anna" if right or rng.random() < 0.8 else rng.choice(WORDS)
        answer = Answer(Method.PASSWORD, user=user, secret=PASSWORD if right else wrong)
    elif shown.method is Method.TOKEN:
        wrong = rng.choice((TOKENS[False], f"{TOKENS[True][:-3]}AAA", "", "x.y.z"))
        answer = Answer(Method.TOKEN, secret=TOKENS[True] if right else wrong)
    elif shown.method is Method.KEY:
        key = KEY if right else rng.choice((KEY[::-1], KEY[:-1], ""))
        nonce = rng.randbytes(32 if right else rng.choice((32, 0, 31, 33)))
        answer = answer_with_key(key.encode(), question, shown.hello, nonce)
    else:
        answer = Answer(Method.NOTHING)
    payload = encode_proof(answer)
    return payload if right or rng.random() < 0.5 else changed_packed(payload, rng)


async def lives(door: BrokerDoor, shown: Shown) -> bool:
    """Go through one greeting; return whether the broker let it in."""
    rng = random.Random(shown.seed)
    transport = Transport(f"127.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}")
    connection = Connection(door.node.shared, door.node._greet)
    connection.connection_made(transport)
    connection.data_received(wire.encode(FrameKind.HELLO, shown.hello))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    frames = FrameReader().feed(b"".join(transport.written))
    asked = [decode_asked(payload) for kind, payload in frames if kind == FrameKind.PROOF]
    [question] = asked
    assert isinstance(question, Question)
    answer = wire.frame(FrameKind.PROOF, answer_of(shown, question, rng))
    more = wire.frame(FrameKind.CONTROL, rng.choice(MESSAGES))
    if rng.random() < 0.2:  # what comes too early or twice
        early = rng.choice((more, answer, wire.encode(FrameKind.HELLO, shown.hello)))
        answer = rng.choice((early + answer, answer + early))
    connection.data_received(answer)
    for _ in range(shown.waits):
        if connection.greeted or connection.over:
            break
        await asyncio.sleep(0.0002)
    greeted = connection.greeted
    if not transport.closed:
        transport.abort()
    connection.connection_lost(None)
    await asyncio.sleep(0)
    return greeted


@OFTEN_AND_SOAKED
async def test_proofs(tmp_path: Path, count: int) -> None:
    asking = Asking(secured(tmp_path), "b", Counter())
    door = BrokerDoor(authenticator=asking)
    await door.look()
    let_in = set()
    gc.disable()  # or it would be blamed on an input
    try:
        for at, seed in enumerate(seeds(count)):
            shown = made(random.Random(seed))
            if at % 2:
                asking._attempts = Attempts()
            async with door.trying(at, seed, shown):
                if await lives(door, shown):
                    assert shown.honest and shown.method is not Method.NOTHING
                    let_in.add((shown.method, shown.hello.role))
    finally:
        gc.enable()
        asking.close()
    methods = {method for method, _ in let_in}
    assert methods == {Method.PASSWORD, Method.TOKEN, Method.KEY}
    for role in (Role.BROKER, Role.SOFT):
        assert {method for method, its in let_in if its is role} <= {Method.KEY}
    await door.look()
