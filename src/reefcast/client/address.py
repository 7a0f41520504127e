"""Addresses of brokers, as URLs: `reefcast://host:port`, or `reefcast+tls://host:port`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from reefcast.errors import ConfigurationError

SCHEME, TLS_SCHEME = "reefcast", "reefcast+tls"
DEFAULT_PORT = 7301
VARIABLE = "REEFCAST_URL"


class Address(NamedTuple):
    """Where a broker listens. `tls`: whether the connection has TLS."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TLS_SCHEME if self.tls else SCHEME}://{host}:{self.port}"


def default_urls() -> str:
    """Return the URL in the environment variable `REEFCAST_URL`, or that of a broker on this
    machine."""
    return os.environ.get(VARIABLE) or f"{SCHEME}://127.0.0.1:{DEFAULT_PORT}"


def parse_addresses(urls: str | Sequence[str] | None) -> tuple[Address, ...]:
    """Return the addresses that `urls` name, in the order of preference: one URL, several separated
    by commas, or a sequence of them; for None see `default_urls`.

    Raises `ConfigurationError` naming the URL that is wrong.
    """
    if urls is None:
        urls = default_urls()
    texts = urls.split(",") if isinstance(urls, str) else urls
    addresses = tuple(_parse_address(text.strip()) for text in texts)
    if not addresses:
        raise ConfigurationError(
            "no broker URL given; give one, for example reefcast://127.0.0.1:7301"
        )
    return addresses


def _parse_address(text: str) -> Address:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"the URL {text!r} cannot be read: {error}") from error
    if parts.scheme not in (SCHEME, TLS_SCHEME) or not parts.hostname:
        raise ConfigurationError(
            f"the URL {text!r} does not name a broker; write {SCHEME}://host:port, or "
            f"{TLS_SCHEME}://host:port"
        )
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise ConfigurationError(
            f"the URL {text!r} says more than host and port; write {parts.scheme}://host:port"
        )
    port = DEFAULT_PORT if port is None else port
    return Address(parts.hostname, port, parts.scheme == TLS_SCHEME)
