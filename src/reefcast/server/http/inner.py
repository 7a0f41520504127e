"""Clients of a broker in its own process: ordinary clients (`client.Client`), whose connection is a
pipe. So everything that the broker grants, limits, counts and logs for clients holds for them.

Who they are has been proved by the request that they serve: nobody asks them again. They do not
connect a second time: what ends the connection ends them, and the request with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

from reefcast.client.address import Address
from reefcast.client.client import Client
from reefcast.client.connection import Connect
from reefcast.client.connection import Connection as ClientConnection
from reefcast.client.encoding import encode_event
from reefcast.client.session import Session
from reefcast.client.settings import Options, complete
from reefcast.client.unconfirmed import Group
from reefcast.errors import ConnectionLostError, InvalidValueError, PeerError
from reefcast.http.content import Posted
from reefcast.model import wire
from reefcast.model.publication import Publication, PublicationId
from reefcast.protocol.principal import Principal
from reefcast.protocol.privacy import Shown
from reefcast.routing.clients import ClientState
from reefcast.server.connection import Connection
from reefcast.server.greeting import Authenticator, Greeting
from reefcast.server.http.pipes import pipe
from reefcast.server.http.serving import Greet, ServingBroker
from reefcast.timing import now_us

SHOWN = ("peername", "sockname", "ssl_object")
"""What is known of the connection of a request."""
_HERE = Address("in this process", 0)
_UNASKED = "nobody asks for it"
_AROUND_BYTES = len(wire.encode_published(b""))
"""What a frame has beside the encoded publication."""


class Given(Authenticator):
    """Authenticates the user that an HTTP request has proved already."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def prove(self, greeting: Greeting) -> Principal:
        return self._principal


class Fate(NamedTuple):
    """What became of an event. `id`: None if it was refused before it had one; `refused`: why it
    was refused, "" if it was not; `kind`: of that refusal, the end of a problem's URN; `known`:
    False if no confirmation came in time."""

    id: PublicationId | None
    refused: str = ""
    kind: str = "refused"
    known: bool = True


class Sent(NamedTuple):
    """Events on their way: what is known of each, and the group of those that are to be
    confirmed."""

    fates: list[Fate]
    group: Group


class InnerClient(Client):
    """A client whose connection is a pipe to the broker of this process, for a proved user.
    `shown`: what is known of the connection of the request that it serves; `greet`: the
    broker's."""

    def __init__(
        self,
        node: ServingBroker,
        greet: Greet,
        principal: Principal,
        shown: Shown,
        **options: Unpack[Options],
    ) -> None:
        # Without a token, the environment of the broker's process would say who this is.
        settings = complete({"name": "http", **options, "token": _UNASKED, "redirects": False})
        super().__init__([_HERE], settings)
        self._node = node
        self._why = ""
        self._dialler.through = _through(node, greet, principal, shown)

    @property
    def protocol_session(self) -> Session:
        """The client's side of the protocol, for what asks the broker more than clients do."""
        return self._session

    async def opened(self) -> InnerClient:
        """Wait until the broker has admitted it. Raises `RefusedError` if it does not."""
        await self._open()
        return self

    def _disconnected(self, reason: str) -> None:
        self._connection = None
        self._why = reason
        self._session.lost()

    async def _reconnect(self) -> ClientConnection:
        raise ConnectionLostError(f"the broker ended the connection: {self._why}")

    # --- publishing -------------------------------------------------------------------------------

    async def publish_each(
        self, events: Sequence[Posted], *, confirm: bool, patience_s: float
    ) -> list[Fate]:
        """Publish events in their order; return what became of each: `send_each`, and then
        `confirmed`."""
        sent = await self.send_each(events, confirm=confirm, patience_s=patience_s)
        return await self.confirmed(sent, patience_s)

    async def send_each(
        self, events: Sequence[Posted], *, confirm: bool, patience_s: float
    ) -> Sent:
        """Publish events in their order, behind what was published before, and wait until they are
        on their way. Raises `TimeoutError` if the network is congested for `patience_s`."""
        async with asyncio.timeout(patience_s):
            if confirm and self._session.unconfirmed.full:
                await self._until_room_to_ask()
            if not self._has_room():
                await self._until_room()
        fates, frames = self._made(events)
        group, first = Group(), self._outbox.seq + 1
        for seq in range(first, first + len(frames)) if confirm else ():
            self._expect(seq, group)
        self._publish_all(frames)
        if not confirm:
            async with asyncio.timeout(patience_s):
                await self._until_taken(self._outbox.seq)
        return Sent(fates, group)

    def _made(self, events: Sequence[Posted]) -> tuple[list[Fate], list[bytes]]:
        """Return the frames of events that may be published, and the fates of all."""
        fates: list[Fate] = []
        frames: list[bytes] = []
        me = self._node.host.core.clients.get(self.id)
        for event in events:
            identity = (self.id, self._outbox.seq + len(frames) + 1)
            now = now_us()
            try:
                frame = encode_event(identity, now, event.attributes, event.topics, event.payload)
            except InvalidValueError as error:
                fates.append(Fate(None, str(error), "invalid"))
                continue
            fate = self._fate(me, identity, now, event, len(frame) - _AROUND_BYTES)
            fates.append(fate)
            if not fate.refused:
                frames.append(frame)
        return fates, frames

    def _fate(
        self, me: ClientState | None, identity: PublicationId, now: int, event: Posted, size: int
    ) -> Fate:
        """Return the fate of an event: refused, if the broker would refuse it (which it would say
        only later)."""
        most = self._node.host.limits.publication_bytes
        if size > most:
            said = (
                f"this event has {size} bytes, and may have {most} (publication_bytes in [limits])"
            )
            return Fate(None, said, "too-large")
        if me is None or me.grant is None:
            return Fate(identity)
        made = Publication(*identity, now, event.attributes, event.topics, event.payload)
        why = me.grant.objection(made)
        return Fate(identity) if why is None else Fate(None, why)

    async def confirmed(self, sent: Sent, patience_s: float) -> list[Fate]:
        """Wait until those that are to be confirmed are confirmed or refused, for at most
        `patience_s`; return what became of each by then."""
        session, (fates, group) = self._session, sent
        if not group.open and not group.refusals:
            return fates
        try:
            async with asyncio.timeout(patience_s):
                with session.awaiting_answer():
                    while group.open and group.ended is None:
                        await group.changed.wait()
        except TimeoutError:
            pass
        refused = dict(group.refusals)
        told = []
        for fate in fates:
            seq = 0 if fate.id is None else fate.id[1]
            if seq in refused:
                told.append(fate._replace(refused=refused[seq]))
            elif seq and session.unconfirmed.awaits(seq, group):
                told.append(fate._replace(known=False))
            else:
                told.append(fate)
        return told


def _through(node: ServingBroker, greet: Greet, principal: Principal, shown: Shown) -> Connect:
    """Return what connects to the broker of this process, once: a broker that does not admit a
    client now is not asked again, for whoever waits for the answer can come again."""
    about = {name: shown(name) for name in SHOWN}
    shared = node.shared._replace(authenticator=Given(principal), greetings=None)
    former: list[ClientConnection] = []

    async def connect(factory: Any, *_: object, **__: object) -> tuple[Any, Any]:
        if former:
            raise PeerError(f"broker {node.name} admits nobody now: {former[0].reason}")
        near, far = pipe(about)
        far.begin(Connection(shared, greet))
        protocol: ClientConnection = factory()
        former.append(protocol)
        near.begin(protocol)
        return near, protocol

    return connect
