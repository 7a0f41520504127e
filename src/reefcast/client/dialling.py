"""Finding a broker: trying one or several addresses, repeatedly, until one answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from reefcast.client.address import Address
from reefcast.client.connection import Connection, Handler, open_connection
from reefcast.client.secure import Security
from reefcast.errors import ConnectionLostError, TlsError
from reefcast.model.wire import Hello
from reefcast.timing import Backoff

LONGEST_ATTEMPT_S, SHORTEST_ATTEMPT_S = 5.0, 0.1
"""The longest and the shortest time that one address has to answer."""


class Dialler:
    """`backoff`: the pauses between attempts; `hello`: returns the first frame of each
    connection; `security`: for addresses with TLS."""

    def __init__(
        self,
        addresses: Sequence[Address],
        backoff: Backoff,
        handler: Handler,
        hello: Callable[[], Hello],
        security: Security | None = None,
    ) -> None:
        self.backoff = backoff
        self._addresses = list(addresses)
        self._handler = handler
        self._hello = hello
        self._security = security
        self._loop = asyncio.get_running_loop()

    @property
    def address(self) -> Address:
        """The address that answered last."""
        return self._addresses[0]

    async def connect(self, patience_s: float, *, pause_first: bool) -> Connection:
        """Try the addresses in turn, the one that last worked first. Raises `ConnectionLostError`
        after `patience_s`; without a pause first also `TlsError` at once, because a certificate
        that is not accepted at the first time is somebody's mistake."""
        give_up_at_s = self._loop.time() + patience_s
        pause_s = self.backoff.pause_s() if pause_first else 0.0
        while True:
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
        for place, address in enumerate(list(self._addresses)):
            share_s = (give_up_at_s - self._loop.time()) / (len(self._addresses) - place)
            timeout_s = max(SHORTEST_ATTEMPT_S, min(LONGEST_ATTEMPT_S, share_s))
            hello = self._hello()
            try:
                connection = await open_connection(
                    address, self._handler, hello, timeout_s, self._security
                )
            except (OSError, TimeoutError, ConnectionLostError) as error:
                last_error = error
                continue
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            return connection
        raise last_error
