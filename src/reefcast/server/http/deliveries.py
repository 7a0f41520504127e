"""The deliveries of all CloudEvents subscriptions whose home is this broker.

A subscription is a durable session of its user called `cloudevents:ID`, with a note that says what
it is. So it outlives the broker's process, nothing is lost while the broker or the sink is away,
and what a sink does not take is among the session's dead letters. Its home delivers: this broker
looks for such sessions of its own, and has one delivery for each."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

from reefcast.cloudevents.sinks import AllowedSinks
from reefcast.cloudevents.subscriptions import SESSION
from reefcast.cloudevents.webhooks import Request
from reefcast.model.messages import LinkName
from reefcast.model.subjects import Subject
from reefcast.protocol.principal import Principal, UserRole
from reefcast.protocol.privacy import is_loopback
from reefcast.server.http.delivering import Answered, Delivery
from reefcast.server.http.front import HttpFront

if TYPE_CHECKING:
    from reefcast.network.listeners import ListenerEntry

ORIGIN = "reefcast"
"""The name by which sinks are asked, if the network file says no other."""
ANSWER_S = 30.0
MOST_ANSWER_BYTES = 64 << 10
"""How much of an answer is read, so that its connection can be used again."""


class SinkSettings(NamedTuple):
    """What the listeners say of sinks. `handshake`: whether sinks must permit deliveries; `origin`:
    the name by which they are asked; `public_url`: where they reach this broker, or ""."""

    allowed: AllowedSinks
    handshake: bool
    origin: str
    public_url: str


def settings_of(entries: Iterable[ListenerEntry]) -> SinkSettings:
    """Return what the HTTP listeners of one broker say of sinks."""
    entries = list(entries)
    hosts = [host for entry in entries for host, _ in entry.addresses]
    sinks = [sink for entry in entries for sink in entry.sinks]
    public_url = next((each.public_url for each in entries if each.public_url), "").rstrip("/")
    # Behind a proxy, who asks is not on this machine, and must not reach what listens on it.
    here_only = not (sinks or public_url) and all(map(is_loopback, hosts))
    return SinkSettings(
        allowed=AllowedSinks(sinks, loopback=here_only),
        handshake=all(entry.sink_handshake for entry in entries),
        origin=next((each.sink_origin for each in entries if each.sink_origin), ORIGIN),
        public_url=public_url,
    )


class Deliveries:
    """See the module's docstring. `settings`: of sinks."""

    def __init__(self, front: HttpFront, settings: SinkSettings) -> None:
        self._front = front
        self.settings = settings
        self._running: dict[LinkName, Delivery] = {}
        self._http: aiohttp.ClientSession | None = None

    def __len__(self) -> int:
        return len(self._running)

    def look(self) -> None:
        """Begin the deliveries of subscriptions that are new, and end those of others."""
        node = self._front.node
        if node.stopping:
            return
        hosting = node.host.core.delivering.hosting
        here = {link: key for link, key in hosting.links.items() if key[1].startswith(SESSION)}
        for link in self._running.keys() - here.keys():
            self._running.pop(link).stop()
        if not here.keys() - self._running.keys():
            return
        for link, (owner, name) in here.items():
            if link not in self._running:
                id = name.removeprefix(SESSION)
                self._running[link] = Delivery(self, self._front, link, owner, name, id)

    def principal_of(self, link: LinkName, owner: str) -> Principal | None:
        """Return who the owner of a session is by now; None if there is no such user any more.
        What he may do was proved when he last asked for something about it."""
        node = self._front.node
        subject = node.host.core.delivering.hosting.subjects().get(link) or Subject(owner)
        known = Principal(
            *(subject.user, frozenset({UserRole.CLIENT}), subject.proof, tuple(subject.granted)),
            claims=subject.claims,
        )
        return node.shared.authenticator.review(known)

    def changed(self, owner: str, name: str) -> None:
        """Have a delivery read anew what its subscription is."""
        for delivery in self._running.values():
            if (delivery.owner, delivery.name) == (owner, name):
                delivery.again()

    def permit(self, id: str, key: str, rate: str) -> bool:
        """Permit deliveries, if the key is the one that was told to the sink; return whether it
        is."""
        found = [each for each in self._running.values() if each.id == id]
        for delivery in found:
            if hmac.compare_digest(delivery.key.encode(), key.encode()):
                delivery.permit(rate)
                return True
        return False

    async def send(self, request: Request) -> Answered:
        """Send a request to a sink. Raises `OSError`, `TimeoutError` or `aiohttp.ClientError`."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=ANSWER_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "reefcast"},
                auto_decompress=False,
                trust_env=False,
            )
        method, url, headers, body = request
        async with self._http.request(
            method, url, headers=headers, data=body, allow_redirects=False
        ) as response:
            await response.content.read(MOST_ANSWER_BYTES)
            said = {name.lower(): value for name, value in response.headers.items()}
            return Answered(response.status, said)

    async def close(self) -> None:
        """End all deliveries; what has not been answered is owed."""
        for each in self._running.values():
            each.stop()
        await asyncio.gather(*(each.ended() for each in self._running.values()))
        self._running.clear()
        if self._http is not None:
            await self._http.close()
