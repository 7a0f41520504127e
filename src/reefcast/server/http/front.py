"""The HTTP clients of one broker: what all of its listeners for them have in common."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, Unpack

import msgspec

from reefcast.client.event import Event, publication_of
from reefcast.client.settings import Options
from reefcast.errors import ReefcastError
from reefcast.http.content import told
from reefcast.model.publication import Publication
from reefcast.protocol.principal import Principal
from reefcast.protocol.privacy import Shown
from reefcast.server.http.inner import InnerClient
from reefcast.server.http.serving import Greet, ServingBroker
from reefcast.server.listeners import Listener

IDLE_S = 60.0
"""How long the client of a user stays that serves no request."""
KEPT, KEPT_BYTES = 512, 1 << 16
"""How many events are kept as they were written, and how large each may be."""
Writing = Callable[[Publication], bytes]
"""Writes an event in one line."""
_encode = msgspec.json.Encoder().encode


def as_json(publication: Publication) -> bytes:
    """Return an event as JSON, in one line."""
    return _encode(told(publication))


class HttpListener(NamedTuple):
    """A listener for HTTP. `tls`: whether it speaks TLS."""

    listener: Listener
    tls: bool

    def status(self) -> dict[str, object]:
        """Return where it listens, as plain data."""
        return {"listen": f"{self.listener.host}:{self.listener.port}", "tls": self.tls}


class UserClient:
    """The client for all short requests of one user. `uses`: requests that it serves now."""

    def __init__(self, opening: asyncio.Future[InnerClient]) -> None:
        self.opening = opening
        self.uses = 0
        self.idle_since_s = 0.0

    @property
    def over(self) -> bool:
        """Whether it cannot be used any more."""
        opening = self.opening
        if not opening.done():
            return False
        failed = opening.cancelled() or opening.exception() is not None
        return failed or opening.result().ended is not None


class HttpFront:
    """See the module's docstring. `listeners`: where clients come in; `greet`: the broker's, which
    admits clients; `streams`: how many answers go on now; `leaving`: clients that are about to be
    gone."""

    def __init__(self, node: ServingBroker, greet: Greet) -> None:
        self.node = node
        self.listeners: list[HttpListener] = []
        self._greet = greet
        self._users: dict[bytes, UserClient] = {}
        self._encoded: OrderedDict[tuple[Writing, bytes], bytes] = OrderedDict()
        self.leaving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.streams = 0

    # --- clients ----------------------------------------------------------------------------------

    async def open_client(
        self, principal: Principal, shown: Shown, **options: Unpack[Options]
    ) -> InnerClient:
        """Return a client of its own for one request; the caller closes it (`leave`)."""
        settings: Options = {"on_refused": self._refused, **options}
        return await InnerClient(self.node, self._greet, principal, shown, **settings).opened()

    @asynccontextmanager
    async def client_of(self, principal: Principal, shown: Shown) -> AsyncIterator[InnerClient]:
        """Yield the client that serves all short requests of a user, so that a request costs the
        network no registration."""
        key = key_of(principal)
        found = self._users.get(key)
        if found is None or found.over:
            # Each request proves again who asks: the client's own proof need not end.
            lasting = principal._replace(expires_at_s=float("inf"))
            opening = self.open_client(lasting, shown)
            found = self._users[key] = UserClient(asyncio.ensure_future(opening))
            found.opening.add_done_callback(_heard)  # all who wait for it may have gone
        found.uses += 1
        try:
            yield await asyncio.shield(found.opening)
        finally:
            found.uses -= 1
            found.idle_since_s = self._loop.time()

    def _refused(self, identity: tuple[str, int], reason: str) -> None:
        """Count an event that was refused after its request had been answered."""
        self.node.host.journal.counters["http_refused_later"] += 1

    def leave(self, client: InnerClient) -> None:
        """Close a client that is not needed any more."""
        task = self._loop.create_task(_close(client))
        self.leaving.add(task)
        task.add_done_callback(self.leaving.discard)

    # --- events -----------------------------------------------------------------------------------

    def encoded(self, event: Event, write: Writing = as_json) -> bytes:
        """Return an event as `write` writes it. Those that get the same one share the work."""
        body, kept = event.body, self._encoded
        key = (write, body)
        found = kept.get(key)
        if found is None:
            found = write(publication_of(event))
            if len(body) <= KEPT_BYTES:
                kept[key] = found
                if len(kept) > KEPT:
                    kept.popitem(last=False)
        return found

    # --- life -------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        """Return how many streams and clients there are, and where others may come in."""
        listening = [each.status() for each in self.listeners]
        return {"streams": self.streams, "clients": len(self._users), "listeners": listening}

    def tick(self, now: float) -> None:
        """Close the clients of users who ask nothing any more; `now`: seconds of the loop."""
        for key, each in list(self._users.items()):
            if each.over:
                del self._users[key]
            elif not each.uses and each.opening.done() and now - each.idle_since_s > IDLE_S:
                del self._users[key]
                self.leave(each.opening.result())

    async def close(self) -> None:
        """End all clients, which the broker has ended by then."""
        for each in self._users.values():
            if not each.over and each.opening.done():
                self.leave(each.opening.result())
        self._users.clear()
        if self.leaving:
            await asyncio.wait(self.leaving)


def key_of(principal: Principal) -> bytes:
    """Return what tells users apart, and what each may do."""
    claims = sorted(principal.claims.items()) if principal.claims else ()
    kept = (principal.user, principal.proof, principal.granted, principal.signed_by)
    return msgspec.msgpack.encode((*kept, [(name, repr(value)) for name, value in claims]))


def _heard(opening: asyncio.Future[InnerClient]) -> None:
    """Retrieve the exception of a client that could not be opened, so that asyncio does not report
    that nobody did."""
    if not opening.cancelled():
        opening.exception()


async def _close(client: InnerClient) -> None:
    with suppress(ReefcastError):  # it has ended already, and whoever used it was told
        await client.close()
