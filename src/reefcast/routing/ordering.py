"""The order of each publisher, for clients that ask for it: with routings that use several paths at
once (mesh, TID), publications may overtake each other.

Publications are numbered by their publisher, but a client gets only those that it wants: a gap does
not mean that something is missing. So a publication that is not the next one is held, for as long
as the client said (`order_s`), and those that arrive meanwhile with lower numbers go before it. A
publication that comes later than that is delivered at once, behind its successors, and counted
("late").

Publishers come and go. When there are more than `KEPT`, the broker forgets the last number of those
of whom the client has received nothing for longest, and for whom nothing is held: a later
publication of such a publisher waits as behind a gap, and is not counted as late.

Source: `papers/multipath-mesh.txt`, which leaves the order to sequence numbers at the subscriber.
Costs: up to `order_s` of delay for publications behind a gap, none for others."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from reefcast.model.messages import (
    Deliver,
    Effect,
    LinkName,
    Publish,
    SetTimer,
    Subscribe,
    TableChange,
    Unsubscribe,
)
from reefcast.model.publication import Publication
from reefcast.routing.failures import Failures

TIMER = "order:"
KEPT = 1000
"""Publishers whose last number is kept for each client that asks for order."""


class Held(NamedTuple):
    """A delivery that waits for earlier ones until `due`; `numbers`: see `Deliver`."""

    seq: int
    due: float
    publish: Publish
    numbers: list[int]


class Line:
    """The publications of one publisher for one client. `last`: the number of the last one
    delivered, 0 if there was none."""

    __slots__ = ("held", "last")

    def __init__(self) -> None:
        self.last = 0
        self.held: list[Held] = []

    def add(self, held: Held) -> None:
        insort(self.held, held, key=lambda h: h.seq)

    def ready(self, now: float) -> list[Held]:
        """Return the publications to be delivered: all up to the last one that is due or is the
        next."""
        held, last, count = self.held, self.last, 0
        for place, (seq, due, _, _) in enumerate(held):
            follows = count == place and seq <= last + 1
            if follows or due <= now:
                count, last = place + 1, max(last, seq)
        self.held, self.last = held[count:], last
        return held[:count]


class Client:
    """One client that asked for order. `windows`: seconds, by number of the subscription. `lines`:
    by publisher, the latest one last; `waiting`: those with publications that are held."""

    def __init__(self, kept: int) -> None:
        self.windows: dict[int, float] = {}
        self.lines: dict[str, Line] = {}
        self.waiting: dict[str, Line] = {}
        self.timer = float("inf")
        self._kept = kept

    def window(self, numbers: Iterable[int]) -> float:
        return max((self.windows.get(number, 0.0) for number in numbers), default=0.0)

    def line(self, publisher: str) -> Line:
        line = self.lines.pop(publisher, None)
        if line is None:
            line = Line()
            self._forget()
        self.lines[publisher] = line
        return line

    def _forget(self) -> None:
        """Drop up to two old publishers if there are too many; those with held publications
        stay."""
        if len(self.lines) < self._kept:
            return
        for eldest in list(islice(self.lines, 2)):
            line = self.lines.pop(eldest)
            if line.held:
                self.lines[eldest] = line

    def ready(self, publisher: str, now: float) -> list[Held]:
        """Return a publisher's events to be delivered; see `Line.ready`."""
        line = self.lines[publisher]
        ready = line.ready(now)
        if line.held:
            self.waiting[publisher] = line
        else:
            self.waiting.pop(publisher, None)
        return ready

    def next_due(self) -> float:
        lines = self.waiting.values()
        return min((h.due for line in lines for h in line.held), default=float("inf"))

    @property
    def over(self) -> bool:
        """Whether it no longer asks for order, and nothing waits."""
        return not (self.windows or self.waiting)


class Ordering:
    """The ordering of one broker. `late`: how many publications could not be put into their order.
    `failures`: where it notes failures."""

    def __init__(self, failures: Failures | None = None, kept: int = KEPT) -> None:
        self.late = 0
        self._kept = kept
        self._failures = Failures() if failures is None else failures
        self._clients: dict[LinkName, Client] = {}

    def changed(self, message: TableChange, link: LinkName) -> None:
        """Handle a change of a client's subscription; when it no longer asks for order, what is
        held stays until it is due."""
        if isinstance(message, Subscribe) and message.order_s > 0:
            client = self._clients.setdefault(link, Client(self._kept))
            client.windows[message.id[1]] = message.order_s
        elif isinstance(message, Unsubscribe) and link in self._clients:
            self._clients[link].windows.pop(message.id[1], None)
            self._forget_if_over(link)

    def _forget_if_over(self, link: LinkName) -> None:
        if self._clients[link].over:
            del self._clients[link]

    def __contains__(self, link: object) -> bool:
        """Return whether this client asks for order, or something is held for it."""
        return link in self._clients

    def left(self, link: LinkName) -> None:
        """Forget a client that is gone, with everything held for it."""
        self._clients.pop(link, None)

    def withdraw(self, link: LinkName, sees: Callable[[Publication], bool]) -> None:
        """Drop what is held for a client that must not see it any more."""
        client = self._clients.get(link)
        for publisher, line in [] if client is None else list(client.waiting.items()):
            line.held = [held for held in line.held if sees(held.publish.publication)]
            if not line.held and client is not None:
                del client.waiting[publisher]

    def arranged(self, effects: list[Effect], now: float) -> list[Effect]:
        """Return the effects, with deliveries held and released as their clients want."""
        if not self._clients:
            return effects
        found: list[Effect] = []
        for effect in effects:
            if type(effect) is not Deliver:
                found.append(effect)
                continue
            try:
                found += self._delivered(effect, now)
            except Exception as error:
                self._failures.on(effect.publish, error)
        return found

    def _delivered(self, deliver: Deliver, now: float) -> list[Effect]:
        at_once: dict[LinkName, list[int]] = {}
        found: list[Effect] = []
        for link, numbers in deliver.to.items():
            client = self._clients.get(link)
            window = 0.0 if client is None else client.window(numbers)
            if client is None or not window:
                at_once[link] = numbers
                continue
            found += self._take(link, client, deliver.publish, numbers, now + window, now)
        return [Deliver(deliver.publish, at_once), *found] if at_once else found

    def _take(
        self,
        link: LinkName,
        client: Client,
        publish: Publish,
        numbers: list[int],
        due: float,
        now: float,
    ) -> list[Effect]:
        publication = publish.publication
        line = client.line(publication.publisher)
        self.late += publication.seq < line.last
        line.add(Held(publication.seq, due, publish, numbers))
        ready = client.ready(publication.publisher, now)
        return [*self._handed_out(link, ready), *self._timer(link, client)]

    def due(self, link: LinkName, now: float) -> list[Effect]:
        """Handle the timer of a client that has come due."""
        client = self._clients.get(link)
        if client is None:
            return []
        client.timer = float("inf")
        ready = [h for publisher in list(client.waiting) for h in client.ready(publisher, now)]
        self._forget_if_over(link)
        return [*self._handed_out(link, ready), *self._timer(link, client)]

    @staticmethod
    def _handed_out(link: LinkName, ready: Iterable[Held]) -> list[Effect]:
        return [Deliver(held.publish, {link: held.numbers}) for held in ready]

    @staticmethod
    def _timer(link: LinkName, client: Client) -> list[Effect]:
        """Set one timer at a time, for what is due first."""
        first = client.next_due()
        if first >= client.timer:
            return []
        client.timer = first
        return [SetTimer(TIMER + link, first)]
