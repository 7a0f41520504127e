"""How a program gets a client."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Unpack

from reefcast.client.address import Address, parse_addresses
from reefcast.client.client import Client
from reefcast.client.settings import Options, complete


class Connecting:
    """The result of `connect`: await it, or enter it with `async with`."""

    def __init__(self, addresses: tuple[Address, ...], settings: Options) -> None:
        self._addresses = addresses
        self._settings = settings
        self._client: Client | None = None

    def __await__(self) -> Generator[None, None, Client]:
        return Client(self._addresses, self._settings)._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self
        return self._client

    async def __aexit__(self, *raised: Any) -> None:
        """Close the client, as its own `__aexit__` does."""
        assert self._client is not None
        await self._client.__aexit__(*raised)


def connect(urls: str | Sequence[str] | None = None, **options: Unpack[Options]) -> Connecting:
    """Connect to a broker: `async with connect(url) as client` or `client = await connect(url)`.

    `urls`: one URL, several separated by commas, or a list; the client uses the first that answers,
    and the others if that is lost. Without any, the environment variable `REEFCAST_URL`, or else
    `reefcast://127.0.0.1:7301`. `options`: see `Options`. Raises `ConfigurationError` at once;
    entering or awaiting the result raises `ConnectionLostError` if no broker can be reached,
    `RefusedError` if the broker refuses the client.
    """
    return Connecting(parse_addresses(urls), complete(options))
