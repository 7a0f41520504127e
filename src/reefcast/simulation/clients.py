"""Clients of a simulated network: what they ask for, and what became of it.

A client sits at one broker; the way between them takes no time. When its broker restarts it
connects again at once and asks anew, under fresh numbers, for all that it still wants.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from reefcast.history.asking import Question
from reefcast.model.messages import (
    Advertise,
    Input,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from reefcast.model.publication import Publication, PublicationId, Value


@dataclass(slots=True)
class Claim:
    """One advertisement or subscription under one number; times in seconds, inf for never.

    `handle` is the scenario's number for it, the same before and after a restart. `requested_s`,
    `ended_s`: when the client asked for it and took it back (or its broker crashed); `settled_s`:
    when the network said that it was everywhere it has to be; `refused`: why it was not taken.
    """

    handle: int
    client: str
    broker: str
    subscription: bool
    filter: str
    number: int
    requested_s: float
    settled_s: float = math.inf
    ended_s: float = math.inf
    refused: str = ""


@dataclass(slots=True)
class Asked:
    """A question and what became of it; times in seconds, inf for never. `handle`: the scenario's
    number for it; `found`: the publications, in the order in which they were given; `hops`: links
    between brokers to each storage that answered, by its name; `error`: why it failed."""

    handle: int
    client: str
    broker: str
    question: Question
    asked_s: float
    ended_s: float = math.inf
    error: str = ""
    found: list[PublicationId] = field(default_factory=list)
    hops: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scripted:
    """What a client will do at `at_s`: `kind` is "advertise", "subscribe", "withdraw", "publish",
    "store" or "request" (see `past`); `handle` is the number that the scenario gave to it."""

    at_s: float
    handle: int
    client: str
    kind: str
    filter: str = ""
    attributes: dict[str, Value] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    payload: bytes = b""
    order_s: float = 0.0


class ClientRecord:
    """What a client did. `claims`: all it ever made; `current`: those that it wants now, by handle.
    `implicit`: number of the advertisement TRUE that its broker made for it, because it published
    without any; `implicit_until_s`: when it advertised after all. `refused`: its publications that
    lay outside its advertisements. `asked`: its questions about the past."""

    def __init__(self, name: str, broker: str) -> None:
        self.name = name
        self.broker = broker
        self.claims: list[Claim] = []
        self.current: dict[int, Claim] = {}
        self.implicit: int | None = None
        self.implicit_until_s = -math.inf
        self.refused: set[PublicationId] = set()
        self.asked: list[Asked] = []

    def standing(self) -> Iterable[Claim]:
        """What its broker has of it now, or will have."""
        return self.current.values()

    def forget_implicit(self, now: float) -> None:
        """It advertised something itself, or its broker forgot all."""
        if self.implicit is not None:
            self.implicit, self.implicit_until_s = None, now


class SimClient(ClientRecord):
    """A client of which only the messages are simulated."""

    def __init__(self, name: str, broker: str) -> None:
        super().__init__(name, broker)
        self.connected = False
        self._advertised = False
        self._wanted: dict[int, Scripted] = {}
        self._tokens: dict[int, Claim] = {}
        self._last_number = 0
        self._last_seq = 0

    def connect(self, now: float) -> list[Input]:
        """Says hello and asks for all that it wants."""
        self.connected = True
        self._advertised = False
        inputs: list[Input] = [LinkUp(LinkKind.CLIENT)]
        inputs += [self._ask(handle, now) for handle in sorted(self._wanted)]
        return inputs

    def lose_connection(self, now: float) -> None:
        """Its broker crashed."""
        self.connected = False
        for claim in self.current.values():
            claim.ended_s = now
        self.current.clear()
        self.forget_implicit(-math.inf)
        self._tokens.clear()

    def act(self, script: Scripted, now: float) -> list[Input]:
        """What it sends to its broker, which is up; only a publication needs that."""
        if script.kind == "publish":
            return [self._publish(script, now)]
        if script.kind == "withdraw":
            return self._withdraw(script.handle, now)
        self._wanted[script.handle] = script
        return [self._ask(script.handle, now)] if self.connected else []

    def answered(self, message: Settled | Refused, now: float) -> None:
        """The broker's answer to a control message, or its refusal of a publication."""
        if isinstance(message, Refused) and message.publication:
            self.refused.add(message.publication)
        claim = self._tokens.pop(message.token, None)
        if claim is None:
            return
        if isinstance(message, Refused):
            claim.refused = message.reason
        else:
            claim.settled_s = now

    def _publish(self, script: Scripted, now: float) -> Publish:
        self._last_seq += 1
        if not self._advertised:
            self._advertised = True
            self.implicit, self.implicit_until_s = -self._last_seq, math.inf
        time_us = int(now * 1e6 + 0.5)
        return Publish(
            Publication(
                self.name, self._last_seq, time_us, script.attributes, script.topics, script.payload
            )
        )

    def _ask(self, handle: int, now: float) -> Input:
        script = self._wanted[handle]
        subscription, filter = script.kind == "subscribe", script.filter
        self._last_number += 1
        number = self._last_number
        claim = Claim(handle, self.name, self.broker, subscription, filter, number, now)
        self.claims.append(claim)
        self.current[handle] = self._tokens[number] = claim
        if not subscription:
            self._advertised = True
            self.forget_implicit(now)
        if subscription:
            return Subscribe((self.name, number), filter, number, script.order_s)
        return Advertise((self.name, number), filter, number)

    def _withdraw(self, handle: int, now: float) -> list[Input]:
        wanted = self._wanted.pop(handle, None)
        claim = self.current.pop(handle, None)
        if wanted is None or claim is None:
            return []
        claim.ended_s = now
        self._last_number += 1
        message = Unsubscribe if claim.subscription else Unadvertise
        return [message((self.name, claim.number), self._last_number)]
