"""Durable sessions of a tortured network, as their owners see them."""

from __future__ import annotations

from typing import Any

from reefcast.model.filters import parse_filter
from reefcast.model.messages import LinkKind, LinkUp
from reefcast.model.publication import Publication
from reefcast.sessions.messages import AddFilter, Done, Failed, OpenSession
from reefcast.simulation.torture.clients import Brokers


class Wanted:
    """A durable session: where it is, its filters, and which of them have settled."""

    def __init__(self, network: Brokers, name: str, home: str) -> None:
        self._network = network
        self.name, self.home = name, home
        self.asked: dict[str, int] = {}
        self.settled: set[str] = set()

    def settled_for(self, publication: Publication) -> bool:
        """Return whether a subscription has settled that this publication matches."""
        return any(parse_filter(text).matches(publication) for text in self.settled)

    def want(self, filter: str) -> None:
        """Ask for one more subscription."""
        self.asked[filter] = len(self.asked) + 2
        if self.home in self._network.cores:
            if len(self.asked) == 1:
                self._network.put(self.home, LinkUp(LinkKind.CLIENT), self.name)
            self._ask(filter)

    def started(self, broker: str) -> None:
        """Ask again for what has not settled, if it was the session's home that started."""
        if broker == self.home:
            self._network.put(self.home, LinkUp(LinkKind.CLIENT), self.name)
            for filter in self.asked.keys() - self.settled:
                self._ask(filter)

    def _ask(self, filter: str) -> None:
        self._network.put(self.home, OpenSession(token=1, session=self.name), self.name)
        add = AddFilter(token=self.asked[filter], session=self.name, filter=filter)
        self._network.put(self.home, add, self.name)

    def told(self, broker: str, message: Any) -> None:
        """Handle what the home answers."""
        if isinstance(message, Failed):
            self._network.problems.append(f"session {self.name}: {message.reason}")
        if isinstance(message, Done) and message.token > 1:
            self.settled |= {text for text, token in self.asked.items() if token == message.token}
