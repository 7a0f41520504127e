"""The network file of a test: one host, free ports, everything in one directory."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, network_of
from reefcast.server.supervisor import free_ports

OURS = ("broker", "link", "storage", "tls")
DRAIN_S = 1.0
"""How long a broker waits for clients that do not read, when it stops: the test is over."""


def chains(links: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the brokers and the links of `"a - b - c, b - d"`. Raises `ConfigurationError` for a
    link with one end only."""
    names: dict[str, None] = {}
    pairs: dict[tuple[str, str], None] = {}
    for chain in links.split(","):
        ends = [name.strip() for name in chain.split(" - ")]
        if not all(ends):
            raise ConfigurationError(
                f'a network of {links!r}: write its links as "a - b - c, b - d", with spaces'
            )
        names |= dict.fromkeys(ends)
        pairs |= dict.fromkeys(pairwise(ends))
    return list(names), list(pairs)


def described(
    names: Iterable[str], links: Iterable[tuple[str, str]], settings: str, directory: Path
) -> NetworkFile:
    """Return the network of a test. `settings`: the text of a network file without brokers. Raises
    `ConfigurationError`."""
    try:
        plain: dict[str, Any] = msgspec.toml.decode(settings)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigurationError(f"the settings of the brokers cannot be read: {error}") from error
    if taken := [key for key in OURS if key in plain]:
        raise ConfigurationError(
            f"the settings of brokers in a test have no section {taken[0]!r}: which brokers there "
            "are is said by the call, and they have no TLS"
        )
    _by_default(plain, "network", name="test")
    _by_default(plain, "limits", drain_s=DRAIN_S)
    _by_default(plain, "sessions", directory=str(directory / "sessions"), fsync="interval")
    if "security" in plain:
        key = directory / "network.key"
        key.write_text(secrets.token_hex(32), encoding="utf-8")
        key.chmod(0o600)
        _by_default(plain, "security", key=str(key))
    names = list(names)
    ports = free_ports(len(names))
    plain["broker"] = [
        {"name": name, "listen": f"127.0.0.1:{port}"}
        for name, port in zip(names, ports, strict=True)
    ]
    plain["link"] = [{"between": list(link)} for link in links]
    return network_of(plain).validate()


def _by_default(plain: dict[str, Any], section: str, **values: object) -> None:
    given = plain.get(section)
    if given is None or isinstance(given, dict):  # anything else is refused later
        plain[section] = values | (given or {})
