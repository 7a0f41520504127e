"""Draining a broker: its clients go to other brokers, while it passes on events as before.

Rules
-----
- A drained broker takes no new client, and names other brokers to it (`Close.elsewhere`): the
  neighbours that are connected first, in turns, so that its clients spread over them.
- It stops reading from its clients, and closes the connection of each, with the same names, when
  what it has taken over from it is under way and what was for it is written. A client sends again
  elsewhere what was not acknowledged, subscribes there, and attaches to its durable sessions from
  there.
- A client that can (`client.moving`) comes back once more, when it has settled elsewhere, for what
  has come for it meanwhile; until then its session stays, so that it misses nothing.
- A client that is away may come back within `session_s`; it gets what waited for it, and goes.
- Storages stay: one belongs to its broker, and what is published while it is elsewhere, or nowhere,
  it would lack. So do links, durable sessions and their circuits, and custody.
- The broker is *empty* when it has no clients but storages, and nothing in custody.
- All that ends with the process: a broker that was started again takes clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from reefcast.logs import about, part
from reefcast.network.file import NetworkFile
from reefcast.server.clients import Clients
from reefcast.server.host import Host

log = part("broker")

LOOK_S = 0.01
MOST_NAMED = 8
EVERYWHERE = ("0.0.0.0", "::")


class Draining:
    """The drain of a broker, whose parts it uses. `elsewhere`: returns where clients can go."""

    def __init__(
        self, host: Host, clients: Clients, elsewhere: Callable[[], Sequence[str]]
    ) -> None:
        self._host = host
        self._clients = clients
        self._elsewhere = elsewhere
        self._turn = count()
        self._handing: asyncio.Task[None] | None = None
        self._said_empty = False

    @property
    def on(self) -> bool:
        """Whether the broker is drained, or being drained."""
        return self._handing is not None

    @property
    def empty(self) -> bool:
        """Whether the broker is drained and empty: it has no clients but storages, and nothing in
        custody. What its disk has for durable sessions stays."""
        return self.on and not self._clients.handed_over and not self._in_custody

    @property
    def _in_custody(self) -> int:
        custody = self._host.core.delivering.confirming.custody
        return 0 if custody is None else sum(custody.counts().values())

    def begin(self) -> None:
        """Hand the clients to other brokers; nothing happens if that is under way."""
        if self._handing is None:
            self._say("hands its clients to other brokers, and takes no new ones")
            self._said_empty = False
            self._clients.turn_away(f"broker {self._host.me.name} is drained", self._places)
            self._handing = asyncio.get_running_loop().create_task(self._hand_over())

    def end(self) -> None:
        """Take clients again."""
        if self._handing is not None:
            self._handing.cancel()
            self._handing = None
            self._clients.take_again()
            self._say("takes clients again")

    def close(self) -> None:
        """End what runs on behalf of this, because the broker stops."""
        if self._handing is not None:
            self._handing.cancel()

    async def _hand_over(self) -> None:
        # Only sockets know when they are empty, and they tell nobody: so ask again.
        while True:
            self._clients.hand_over()
            if self.empty and not self._said_empty:
                self._said_empty = True
                self._say("is drained: it has no clients, and nothing in custody")
            await asyncio.sleep(LOOK_S)

    def _places(self) -> tuple[str, ...]:
        """Return where the next client is to go, in this order."""
        found = list(self._elsewhere())[:MOST_NAMED]
        first = next(self._turn) % max(1, len(found))
        return (*found[first:], *found[:first])

    def _say(self, what: str) -> None:
        name = self._host.me.name
        log.warning("broker %s %s", name, what, extra=about(broker=name))

    def status(self) -> dict[str, object]:
        """Return how far it is. `homes`: the durable sessions whose home the broker is; they stay
        on its disk."""
        homes = sorted(self._host.core.delivering.hosting.links.values())
        return {
            "state": "empty" if self.empty else "draining" if self.on else "no",
            "clients": self._clients.handed_over,
            "custody": self._in_custody,
            "homes": [f"{owner}/{name}" for owner, name in homes],
        }


def places(network: NetworkFile, me: str, near: Sequence[str]) -> list[str]:
    """Return where clients of broker `me` can go, as host:port: the neighbours that are `near`
    first, and not those whose address in the network file is none that clients could use."""
    others = [each for each in network.names if each != me and each not in near]
    entries = [network.entry(each) for each in (*near, *others) if each in network.names]
    return [entry.listen for entry in entries if entry.address[0] not in EVERYWHERE]
