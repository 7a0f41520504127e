"""The broker as its HTTP clients need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reefcast.model.wire import Hello
from reefcast.network.file import NetworkFile
from reefcast.server.connection import Connection
from reefcast.server.end import End
from reefcast.server.host import Host
from reefcast.server.listeners import Listener
from reefcast.server.shared import Shared
from reefcast.tls.credentials import BrokerCredentials

Greet = Callable[[Connection, Hello], End | None]
"""Admits who has been proved; see `connection.Connection`."""


class ServingBroker(Protocol):
    """A live broker (`node.Node`)."""

    name: str
    network: NetworkFile
    host: Host
    shared: Shared
    listeners: list[Listener]
    tls: BrokerCredentials | None
    stopping: bool

    def say_no_tls(self, other: str, error: BaseException) -> None: ...
