"""The broker as its MQTT clients need it."""

from __future__ import annotations

from typing import Protocol

from reefcast.network.file import NetworkFile
from reefcast.server.admission import UserConnections
from reefcast.server.clients import Clients
from reefcast.server.host import Host
from reefcast.server.listeners import Listener
from reefcast.server.shared import Shared
from reefcast.tls.credentials import BrokerCredentials


class ServingBroker(Protocol):
    """A live broker (`node.Node`)."""

    name: str
    network: NetworkFile
    host: Host
    clients: Clients
    shared: Shared
    of_users: UserConnections
    listeners: list[Listener]
    tls: BrokerCredentials | None
    stopping: bool

    @property
    def uptime_s(self) -> float: ...

    def say_no_tls(self, other: str, error: BaseException) -> None: ...
