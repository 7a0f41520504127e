"""TLS of a client: what it shows and trusts, by its options or by the environment."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from typing import Any

from reefcast.client.address import Address
from reefcast.client.settings import Options
from reefcast.errors import ConfigurationError
from reefcast.tls.credentials import dialling_context
from reefcast.tls.environment import completed
from reefcast.tls.files import Reloading, TlsFiles
from reefcast.tls.transport import over

_log = logging.getLogger("reefcast.client")


class Security:
    """The TLS of one client. New files count when it connects again; wrong ones are logged, and
    what was loaded before stays."""

    def __init__(self, files: TlsFiles, server_name: str) -> None:
        self._server_name = server_name
        self._context: Reloading[ssl.SSLContext] = Reloading(files, dialling_context)

    def arguments(self, within_s: float) -> dict[str, Any]:
        """Return what asyncio needs for a connection with TLS (see `tls.transport.over`)."""
        wrong = self._context.look()
        if wrong:
            _log.warning("the client shows and trusts what it did before: %s", wrong)
        return over(self._context.value, within_s, self._server_name)


def security(settings: Options, addresses: Sequence[Address]) -> Security | None:
    """Return the TLS that these addresses need; None if they need none. Raises `ConfigurationError`
    if a file is wrong, and for options whose URL is without TLS."""
    told = {
        "authority": settings["authority"],
        "certificate": settings["certificate"],
        "key": settings["key"],
        "server_name": settings["server_name"],
    }
    given = [name for name, value in told.items() if value]
    for address in addresses:
        if given and not address.tls:
            raise ConfigurationError(
                f"{' and '.join(given)} would protect nothing: the URL {address} is without TLS; "
                f"write {address._replace(tls=True)}"
            )
    if not any(address.tls for address in addresses):
        return None
    told = completed(told)
    if told["key"] and not told["certificate"]:
        raise ConfigurationError(
            f"the key {told['key']} proves nothing without its certificate: give both"
        )
    server_name = told.pop("server_name")
    return Security(TlsFiles(**told), server_name)
