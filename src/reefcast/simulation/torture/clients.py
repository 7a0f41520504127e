"""What a client of a tortured network is, and what it needs of the network."""

from __future__ import annotations

import random
from typing import Any, Protocol

from reefcast.model.keeping import Contents
from reefcast.routing.broker import Broker


class Brokers(Protocol):
    """The part of a network that its clients use. `cores`: the brokers that are up; `problems`: the
    promises that were broken, one sentence each."""

    rng: random.Random
    cores: dict[str, Broker]
    problems: list[str]

    def put(self, name: str, item: Any, link: str) -> None: ...

    def on_disk(self, name: str) -> Contents: ...


class Client(Protocol):
    """A client with a link of its own name to one broker."""

    name: str

    def told(self, broker: str, message: Any) -> None:
        """Handle a message from a broker."""

    def started(self, broker: str) -> None:
        """Handle that a broker has started, without memory of this client."""
