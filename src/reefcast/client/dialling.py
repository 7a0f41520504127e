"""Finding a broker: trying one or several addresses, repeatedly, until one answers.

A broker that is drained names others. They are tried first, at once, and count from then on as the
program's own addresses do; the latest `MOST_NAMED` of them. From a connection with TLS only others
with TLS are reached, which must show a certificate for their address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from reefcast.client.address import Address
from reefcast.client.connection import Connect, Connection, Handler, open_connection
from reefcast.client.secure import Security
from reefcast.client.session import Session
from reefcast.errors import ConnectionLostError, TlsError
from reefcast.model.wire import Hello
from reefcast.timing import Backoff

LONGEST_ATTEMPT_S, SHORTEST_ATTEMPT_S = 5.0, 0.1
"""The longest and the shortest time that one address has to answer."""
MOST_NAMED = 8
"""How many addresses that brokers have named are remembered."""


class Dialler:
    """`backoff`: the pauses between attempts; `hello`: returns the first frame of each
    connection; `security`: for addresses with TLS; `redirects`: whether to go to brokers that
    others name; `session`: leaves one for another then. `through`: what connects, if not the loop
    by TCP."""

    def __init__(
        self,
        addresses: Sequence[Address],
        backoff: Backoff,
        handler: Handler,
        hello: Callable[[], Hello],
        security: Security | None = None,
        *,
        redirects: bool = True,
        session: Session | None = None,
    ) -> None:
        self.backoff = backoff
        self.through: Connect | None = None
        self._addresses = list(addresses)
        self._named: list[Address] = []
        self._hurries = False
        self._handler = handler
        if redirects:
            self._handler = handler._replace(on_elsewhere=self._go_elsewhere)
        self._hello = hello
        self._trying = self._addresses[0]
        self._security = security
        self._session = session
        self._collecting: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def address(self) -> Address:
        """The address that answered last."""
        return self._addresses[0]

    def _go_elsewhere(self, brokers: tuple[str, ...]) -> None:
        """Try these brokers (host:port) first, and at once; what is no address is left out."""
        found = [_named(each, tls=self._trying.tls) for each in brokers[:MOST_NAMED]]
        first = [each for each in found if each is not None and each != self._trying]
        if self._session is not None and first:
            self._session.leaves(self._trying)
        self._hurries = bool(first)
        own = [each for each in self._addresses if each not in self._named]
        former = [each for each in self._named if each not in first and each not in own]
        self._named = [each for each in (*first, *former) if each not in own][:MOST_NAMED]
        rest = [each for each in self._addresses if each not in first]
        self._addresses = [*first, *(each for each in rest if each in own or each in self._named)]

    async def connect(self, patience_s: float, *, pause_first: bool) -> Connection:
        """Try the addresses in turn, the one that last worked first. Raises `ConnectionLostError`
        after `patience_s`; without a pause first also `TlsError` at once, because a certificate
        that is not accepted at the first time is somebody's mistake."""
        give_up_at_s = self._loop.time() + patience_s
        pause_s = self.backoff.pause_s() if pause_first and not self._hurries else 0.0
        while True:
            self._hurries = False
            await asyncio.sleep(pause_s)
            try:
                return await self._try_addresses(give_up_at_s)
            except (OSError, TimeoutError, ConnectionLostError) as error:
                if isinstance(error, TlsError) and not pause_first:
                    raise
                pause_s = self.backoff.pause_s()
                if self._loop.time() + pause_s > give_up_at_s:
                    where = ", ".join(map(str, self._addresses))
                    raise ConnectionLostError(
                        f"no connection to {where} within {patience_s:g} s: "
                        f"{str(error) or 'no answer'}"
                    ) from error

    async def _try_addresses(self, give_up_at_s: float) -> Connection:
        """Try each address once. Each has its share of the time that is left, so that a silent one
        leaves the others theirs."""
        last_error: Exception = ConnectionLostError("no address was tried")
        tried: set[Address] = set()
        while left := [each for each in self._addresses if each not in tried]:
            address = self._trying = left[0]
            tried.add(address)
            share_s = (give_up_at_s - self._loop.time()) / len(left)
            timeout_s = max(SHORTEST_ATTEMPT_S, min(LONGEST_ATTEMPT_S, share_s))
            hello = self._hello()
            try:
                connection = await open_connection(
                    address, self._handler, hello, timeout_s, self._security, self.through
                )
            except (OSError, TimeoutError, ConnectionLostError) as error:
                last_error = error
                continue
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            self._collect()
            return connection
        raise last_error

    def _collect(self) -> None:
        """Collect what a broker that was left still has for the client, if there is one."""
        if self._session is not None and self._session.moving.under_way:
            collecting = self._session.moving.collect(self._hello, self._handler, self._security)
            self._collecting = self._loop.create_task(collecting)


def _named(broker: str, *, tls: bool) -> Address | None:
    """Parse the address (host:port) by which a broker has named another one; None if it is no
    address."""
    host, _, port = broker.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        return None
    return Address(host.strip("[]"), int(port), tls)
