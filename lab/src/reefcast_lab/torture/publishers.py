"""Publishers of a tortured network: they send again what is not confirmed, and move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
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
    Unadvertise,
)
from reefcast.model.publication import Publication
from reefcast.sessions.events import EXPIRES
from reefcast_lab.torture.clients import Brokers
from reefcast_lab.torture.durable import Wanted
from reefcast_lab.torture.having import is_in_custody, missing_in


class Publisher:
    """A client that publishes, and sends again what is not confirmed.

    - `made`: seq -> the sessions with matching subscriptions that had settled by then, and these.
    - `expires_s`: seq -> when the publication is worth nothing any more, if ever.
    - `asked`: those that are to be confirmed; `kept`: for which a broker's custody answers so far.
    - `open`: seq -> the publication that waits for its confirmation, and how often it was sent.
    - `refused`: those that a session has refused. The publisher does not send them again, but
      custody may: so what it made later may overtake them (P3 is for the others).
    """

    def __init__(
        self, network: Brokers, sessions: Callable[[], Iterable[Wanted]], name: str, broker: str
    ) -> None:
        self._network, self._sessions = network, sessions
        self.name, self.broker = name, broker
        self.seq = self.number = 0
        self.open: dict[int, tuple[Publication, int]] = {}
        self.made: dict[int, dict[Wanted, set[str]]] = {}
        self.expires_s: dict[int, float] = {}
        self.asked: set[int] = set()
        self.kept: set[int] = set()
        self.confirmed: set[int] = set()
        self.refused: dict[int, str] = {}
        self.confirmations = 0
        self.advertises = ""
        self._kept_here: set[int] = set()

    def started(self, broker: str) -> None:
        """Attach to the publisher's broker, which has started."""
        if broker == self.broker:
            self.attach()

    def attach(self) -> None:
        """Begin anew at the publisher's broker, and send again what is not confirmed."""
        self._network.put(self.broker, LinkUp(LinkKind.CLIENT), self.name)
        if self.advertises:
            self.advertise()
        # What is only kept need not be sent again to the broker that said so.
        all_again = self._network.rng.random() < 0.5
        again = self.open.keys() - (set() if all_again else self._kept_here)
        for seq in sorted(again):
            publication, attempt = self.open[seq]
            self.open[seq] = (publication, attempt + 1)
            self._send(publication, attempt + 1, again=True)

    def advertise(self) -> None:
        """Advertise what the publisher says that it will publish."""
        self.number += 1
        advertise = Advertise((self.name, self.number), self.advertises, 1)
        self._network.put(self.broker, advertise, self.name)

    def readvertise(self, filter: str) -> None:
        """Advertise something else, and withdraw what was advertised before."""
        before, self.advertises = (self.name, self.number), filter
        if self.broker in self._network.cores:
            self.advertise()
            if self.number > 1:
                self._network.put(self.broker, Unadvertise(before, 2), self.name)

    def move(self, broker: str) -> None:
        """Go to another broker; the old one notices at once."""
        if self.broker in self._network.cores:
            self._network.put(self.broker, LinkDown(), self.name)
        self.broker, self._kept_here = broker, set()
        if broker in self._network.cores:
            self.attach()

    def publish(self, attributes: Mapping[str, Any], *, confirm: bool) -> int:
        """Publish something, and return its number; what is to be confirmed is kept until it
        is."""
        self.seq += 1
        now = self._network.now
        publication = Publication(self.name, self.seq, round(now * 1e6), dict(attributes))
        if seconds := attributes.get(EXPIRES, 0):
            self.expires_s[self.seq] = now + seconds
        self.made[self.seq] = {
            wanted: filters
            for wanted in self._sessions()
            if (filters := wanted.settled_for(publication))
        }
        if confirm:
            self.asked.add(self.seq)
            self.open[self.seq] = (publication, 1)
        if self.broker in self._network.cores:
            self._send(publication, int(confirm), again=False)
        return self.seq

    def is_sure_of(self, seq: int) -> bool:
        """Return whether it sends a publication again until that is confirmed, wherever it goes."""
        return seq in self.asked and seq not in self.refused

    def _send(self, what: Publication, attempt: int, *, again: bool) -> None:
        body = wire.encode_publication(what)
        publish = Publish(what, body=body, again=again, confirm=attempt)
        self._network.put(self.broker, publish, self.name)

    def killed(self, broker: str) -> None:
        """Wait until the broker is back."""

    def told(self, broker: str, message: Any) -> None:
        """Handle a confirmation, or a refusal."""
        if isinstance(message, Confirmed) and message.more:
            for each in message.each():
                self.told(broker, each)
        elif isinstance(message, Confirmed):
            if message.kept and not message.refused:
                self._network.problems += self._check_kept(message.seq)
                self.kept.add(message.seq)
                if broker == self.broker:
                    self._kept_here.add(message.seq)
                return
            if message.refused:
                self._network.problems += self._check_refusal(message.refused)
                self.refused[message.seq] = message.refused
            else:
                self._network.problems += self.check_loss(message.seq)
            if self.open.pop(message.seq, None) is not None:
                self.confirmations += 1
            self.confirmed.add(message.seq)
        elif isinstance(message, Refused) and message.publication is not None:
            self.refused[message.publication[1]] = message.reason
            self.open.pop(message.publication[1], None)

    def check_loss(
        self, seq: int, promise: str = "P1", what: str = "is confirmed", *, may_refuse: bool = False
    ) -> Iterator[str]:
        """Check that a publication is where it is to be, unless it has expired. `may_refuse`:
        whether sessions that refuse it when they are full may not have it, because its publisher
        need not hear of that: what was kept first may be refused when it is handed over."""
        if self._network.now < self.expires_s.get(seq, inf):
            for wanted in missing_in(self._network, (self.name, seq), self.made[seq]):
                if not may_refuse or wanted.policy != "refuse":
                    who = f"session {wanted.name} does not have it"
                    yield f"{promise}: {self.name}#{seq} {what}, and {who}"

    def _check_kept(self, seq: int) -> Iterator[str]:
        """Check that a publication is where it is to be, or in a custody on disk, unless a full
        session has refused it since."""
        network = self._network
        if not is_in_custody(network.disks.values(), network.routing, (self.name, seq)):
            yield from self.check_loss(seq, what="is said to be kept", may_refuse=True)

    def _check_refusal(self, reason: str) -> Iterator[str]:
        if not any(
            wanted.policy == "refuse" and f"session {wanted.name!r} is full" in reason
            for wanted in self._sessions()
        ):
            yield f"rule 13: {self.name} is refused, and no session refuses: {reason}"
