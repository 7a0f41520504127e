"""Clients of a simulated network: their requests, and the outcome of these.

A client is at one broker; the way between them takes no time. When its broker restarts, it
reconnects at once and makes all its current claims again, under new numbers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from reefcast.history.asking import Question
from reefcast.model.messages import (
    Input,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
    Settled,
)
from reefcast.model.publication import Publication, PublicationId, Value
from reefcast.protocol.registrations import Registration, Registrations, State


@dataclass(slots=True)
class Claim:
    """One advertisement or subscription under one number; times in seconds, inf for never.

    `handle` is the scenario's number for it, the same before and after a restart. `requested_s`,
    `ended_s`: when the client asked for it and took it back (or its broker crashed); `settled_s`:
    when the network said that it had settled; `refused`: why it was refused."""

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
    """A question and its outcome; times in seconds, inf for never. `handle`: the scenario's number
    for it; `found`: the publications, in the order in which they were given; `hops`: links between
    brokers to each storage that answered, by its name; `error`: why it failed."""

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
    """An action of a client at `at_s`: `kind` is "advertise", "subscribe", "withdraw", "publish",
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
    """The history of a client. `claims`: all it ever made; `current`: those that it wants now, by
    handle. `implicit`: number of the advertisement TRUE that its broker made for it, because it
    published without any; `implicit_until_s`: when it advertised after all. `refused`: its
    publications that lay outside its advertisements. `resent`: numbers of those that its broker had
    not acknowledged when its memory was lost, and when they were sent again, under the claims of
    then. `asked`: its questions about the past."""

    def __init__(self, name: str, broker: str) -> None:
        self.name = name
        self.broker = broker
        self.claims: list[Claim] = []
        self.current: dict[int, Claim] = {}
        self.implicit: int | None = None
        self.implicit_until_s = -math.inf
        self.refused: set[PublicationId] = set()
        self.resent: dict[int, float] = {}
        self.asked: list[Asked] = []

    def standing(self) -> Iterable[Claim]:
        """Return the claims that its broker has now, or will have."""
        return self.current.values()

    def forget_implicit(self, now: float) -> None:
        """End the implicit advertisement: the client advertised something itself, or its broker
        forgot everything."""
        if self.implicit is not None:
            self.implicit, self.implicit_until_s = None, now


class SimClient(ClientRecord):
    """A client whose messages alone are simulated: its `Registrations`, as in live clients, keep
    what it asks of its broker, and interpret the broker's answers."""

    def __init__(self, name: str, broker: str) -> None:
        super().__init__(name, broker)
        self.connected = False
        self._advertised = False
        self._registrations: Registrations[_Wish] = Registrations(name)
        self._wishes: dict[int, _Wish] = {}
        self._last_seq = 0
        self._coming: deque[tuple[float, Settled | Refused]] = deque()
        self._now = 0.0

    def connect(self, now: float) -> list[Input]:
        """Return the hello and all that the client asks for on a new connection."""
        self.handle(now)
        self.connected = True
        self._advertised = False
        inputs: list[Input] = [LinkUp(LinkKind.CLIENT), *self._registrations.renew()]
        for registration in self._registrations.by_number.values():
            self._claim(registration.owner, now)
        return inputs

    def lose_connection(self, now: float) -> None:
        """Lose the connection: the broker crashed."""
        self.handle(now)
        self._coming.clear()
        self.connected = False
        for claim in self.current.values():
            claim.ended_s = now
        self.current.clear()
        self.forget_implicit(-math.inf)
        self._registrations.disconnect()

    def act(self, script: Scripted, now: float) -> list[Input]:
        """Return what the client sends to its broker by a script. The broker is up; only a
        publication needs that."""
        self.handle(now)
        if script.kind == "publish":
            return [self._publish(script, now)]
        if script.kind == "withdraw":
            return self._withdraw(script.handle, now)
        return self._ask(script, now)

    def answered(self, message: Settled | Refused, at: float) -> None:
        """Note the broker's answer to a control message, or its refusal of a publication: kernels
        report it when they know of it, which may be before its time."""
        self._coming.append((at, message))

    def handle(self, now: float) -> None:
        """Handle what the broker has answered by now."""
        while self._coming and self._coming[0][0] <= now:
            self._now, message = self._coming.popleft()
            self._handle_message(message)

    def _handle_message(self, message: Settled | Refused) -> None:
        if isinstance(message, Settled):
            self._registrations.settled(message.token)
        elif message.publication:
            self.refused.add(message.publication)
        else:
            self._registrations.refused(message.token, message.reason)

    def wish_answered(self, wish: _Wish) -> None:
        """Note that a claim has settled or was refused."""
        claim = self.current.get(wish.handle)
        if claim is None:
            return
        if wish.registration.state is State.SETTLED:
            claim.settled_s = self._now
        elif wish.registration.state is State.REFUSED:
            claim.refused = str(wish.registration.error)

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

    def _ask(self, script: Scripted, now: float) -> list[Input]:
        wish = self._wishes[script.handle] = _Wish(self, script)
        message = self._registrations.add(wish.registration)
        if not self.connected:
            return []
        self._claim(wish, now)
        return [message]

    def _claim(self, wish: _Wish, now: float) -> None:
        """Make the claim of a wish, under the number that its registration has now."""
        registration = wish.registration
        claim = Claim(
            handle=wish.handle,
            client=self.name,
            broker=self.broker,
            subscription=not registration.advertises,
            filter=registration.filter,
            number=registration.number,
            requested_s=now,
        )
        self.claims.append(claim)
        self.current[wish.handle] = claim
        if registration.advertises:
            self._advertised = True
            self.forget_implicit(now)

    def _withdraw(self, handle: int, now: float) -> list[Input]:
        wish, claim = self._wishes.pop(handle, None), self.current.pop(handle, None)
        if claim is not None:
            claim.ended_s = now
        if wish is None or wish.registration.state not in (State.PENDING, State.SETTLED):
            return []
        message = self._registrations.end(wish.registration)
        if not self.connected:
            self._registrations.disconnect()
            return []
        return [message]


class _Wish:
    """What one script asked for, as long as nobody takes it back."""

    def __init__(self, client: SimClient, script: Scripted) -> None:
        self.handle = script.handle
        self._client = client
        advertises = script.kind == "advertise"
        self.registration: Registration[_Wish] = Registration(
            self, script.filter, advertises=advertises, order_s=script.order_s
        )

    def registration_changed(self, registration: Registration[_Wish]) -> None:
        self._client.wish_answered(self)
