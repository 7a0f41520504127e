"""What a client of a tortured network is, and what it needs of the network."""

from __future__ import annotations

import random
from typing import Any, Protocol

from reefcast.model.messages import Effect
from reefcast.routing.broker import Broker
from reefcast_lab.torture.disks import Disk
from reefcast_lab.torture.record import Record


class Brokers(Protocol):
    """The part of a network that its clients use. `cores`: the brokers that are up; `now`: seconds;
    `problems`: the promises that were broken, one sentence each. `notes`: whether consumers leave
    notes with their sessions."""

    rng: random.Random
    routing: str
    notes: bool
    now: float
    cores: dict[str, Broker]
    disks: dict[str, Disk]
    problems: list[str]
    record: Record
    watches: dict[str, Any]

    def put(self, name: str, item: Any, link: str) -> list[Effect]: ...


class Client(Protocol):
    """A client with a link of its own name to one broker."""

    name: str

    def told(self, broker: str, message: Any) -> None:
        """Handle a message from a broker."""

    def started(self, broker: str) -> None:
        """Handle that a broker has started, without memory of this client."""

    def killed(self, broker: str) -> None:
        """Handle that a broker was killed."""
