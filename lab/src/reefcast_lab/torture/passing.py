"""Clients of a tortured network that subscribe without a durable session."""

from __future__ import annotations

from typing import Any

from reefcast.model.messages import LinkDown, LinkKind, LinkUp, Subscribe
from reefcast_lab.torture.clients import Brokers


class Passing:
    """A client with one subscription, until it leaves or its broker is killed."""

    def __init__(self, network: Brokers, name: str, broker: str, filter: str) -> None:
        self._network = network
        self.name, self.broker, self.filter = name, broker, filter
        self.is_here = True

    def subscribe(self) -> None:
        """Come, and subscribe."""
        self._network.put(self.broker, LinkUp(LinkKind.CLIENT), self.name)
        self._network.put(self.broker, Subscribe((self.name, 1), self.filter, 1), self.name)

    def leave(self) -> None:
        """Leave for good."""
        if self.is_here:
            self.is_here = False
            self._network.put(self.broker, LinkDown(), self.name)

    def started(self, broker: str) -> None:
        """Ignore it: another client may come."""

    def killed(self, broker: str) -> None:
        """Go with the broker."""
        self.is_here = self.is_here and broker != self.broker

    def told(self, broker: str, message: Any) -> None:
        """Take what comes."""
