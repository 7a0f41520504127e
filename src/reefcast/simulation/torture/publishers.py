"""Publishers of a tortured network: they send again what is not confirmed, and move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reefcast.model import wire
from reefcast.model.messages import (
    Advertise,
    Confirmed,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
)
from reefcast.model.publication import Publication
from reefcast.simulation.torture.checkers import check_loss
from reefcast.simulation.torture.clients import Brokers
from reefcast.simulation.torture.durable import Wanted


class Publisher:
    """A client that publishes, and sends again what is not confirmed.

    - `made`: seq -> the sessions with matching subscriptions that had settled by then.
    - `open`: seq -> the publication that waits for its confirmation, and how often it was sent.
    """

    def __init__(
        self, network: Brokers, sessions: Mapping[str, Wanted], name: str, broker: str
    ) -> None:
        self._network, self._sessions = network, sessions
        self.name, self.broker = name, broker
        self.seq = self.number = 0
        self.open: dict[int, tuple[Publication, int]] = {}
        self.made: dict[int, list[str]] = {}
        self.confirmed: set[int] = set()
        self.refused: dict[int, str] = {}
        self.confirmations = 0
        self.advertises = ""

    def started(self, broker: str) -> None:
        """Attach to the publisher's broker, which has started."""
        if broker == self.broker:
            self.attach()

    def attach(self) -> None:
        """Begin anew at the publisher's broker, and send again what is not confirmed."""
        self._network.put(self.broker, LinkUp(LinkKind.CLIENT), self.name)
        if self.advertises:
            self.advertise()
        for seq in sorted(self.open):
            publication, attempt = self.open[seq]
            self.open[seq] = (publication, attempt + 1)
            self._send(publication, attempt + 1, again=True)

    def advertise(self) -> None:
        """Advertise what the publisher says that it will publish."""
        self.number += 1
        advertise = Advertise((self.name, self.number), self.advertises, 1)
        self._network.put(self.broker, advertise, self.name)

    def move(self, broker: str) -> None:
        """Go to another broker; the old one notices at once."""
        if self.broker in self._network.cores:
            self._network.put(self.broker, LinkDown(), self.name)
        self.broker = broker
        if broker in self._network.cores:
            self.attach()

    def publish(self, attributes: Mapping[str, Any], *, confirm: bool) -> None:
        """Publish something; what is to be confirmed is kept until it is."""
        self.seq += 1
        publication = Publication(self.name, self.seq, 0, dict(attributes))
        self.made[self.seq] = [
            wanted.name for wanted in self._sessions.values() if wanted.settled_for(publication)
        ]
        if confirm:
            self.open[self.seq] = (publication, 1)
        if self.broker in self._network.cores:
            self._send(publication, int(confirm), again=False)

    def _send(self, what: Publication, attempt: int, *, again: bool) -> None:
        body = wire.encode_publication(what)
        self._network.put(
            self.broker, Publish(what, body=body, again=again, confirm=attempt), self.name
        )

    def told(self, broker: str, message: Any) -> None:
        """Handle a confirmation, or a refusal."""
        if isinstance(message, Confirmed):
            if message.refused:
                self.refused[message.seq] = message.refused
            else:
                self._network.problems += check_loss(
                    self._network, self.name, message.seq, self.made[message.seq], self._sessions
                )
            if self.open.pop(message.seq, None) is not None:
                self.confirmations += 1
            self.confirmed.add(message.seq)
        elif isinstance(message, Refused) and message.publication is not None:
            self.refused[message.publication[1]] = message.reason
            self.open.pop(message.publication[1], None)
