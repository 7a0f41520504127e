"""Admin addresses: which ones a network file may give to brokers and storages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from reefcast.errors import ConfigurationError
from reefcast.protocol.privacy import is_loopback

EVERYWHERE = ("0.0.0.0", "::")


class AdminAddress(NamedTuple):
    """The admin address of a broker or a storage (`kind`). `text`: as the file has it; `machine`:
    where it runs, as far as the file says."""

    kind: str
    name: str
    text: str
    address: tuple[str, int]
    machine: str

    @property
    def who(self) -> str:
        """The owner in words, such as "broker north"."""
        return f"{self.kind} {self.name}"


def check_admin(
    addresses: Iterable[AdminAddress], listens: Collection[str], lacks: Sequence[str]
) -> None:
    """Raise `ConfigurationError` for admin addresses that are taken, or that others may reach who
    must not. `listens`: where brokers listen for clients; `lacks`: in words, what the network file
    lacks before others may reach them."""
    taken: dict[tuple[str, tuple[str, int]], str] = {}
    for each in addresses:
        if each.text in listens:
            raise ConfigurationError(
                f"the admin address {each.text} of {each.who} is where a broker listens for "
                "clients; give it another port"
            )
        host = each.address[0]
        if lacks and not is_loopback(host):
            raise ConfigurationError(
                f"{each.who} would show its status on {host}, which others can reach: give the "
                f"file {' and '.join(lacks)}, choose a loopback address such as 127.0.0.1:9464, or "
                "set insecure = true in [network] (without TLS only)"
            )
        if other := taken.get((each.machine, each.address)):
            raise ConfigurationError(
                f"{other} and {each.who} are both on {each.machine}, and would have the same "
                f"admin address {each.text}: give each its own, as admin in its [[{each.kind}]]"
            )
        taken[each.machine, each.address] = each.who
