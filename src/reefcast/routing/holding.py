"""Publications that wait for a neighbour which is about to stop, or which came back without memory.

Rules
-----
- A neighbour that says `Leaving` gets no more publications: those for it wait here until it is
  back.
- So do those for a neighbour that has not been up within `RELEARN_S` of this broker's start (see
  `relearning`); they are dropped when the patience with it is over.
- So do those for a neighbour whose link comes up again (`LinkUp`): it may have restarted, and have
  no next hops for publications before it has relearned. It first gets those that it did not
  acknowledge in its former life (`LinkUp.kept`), then those published meanwhile.
- The wait ends when the neighbour has *relearned* (`Relearned`) and has answered everything that it
  was *told* when the link came up: then the subscriptions beyond it are known, also those for
  advertisements that are new to it. An answer may have to wait for a broker further on that is
  away; so the wait for answers ends `ANSWER_S` after `Relearned`.
- An `Unadvertise` keeps its place among the publications: they need the advertisement that it
  withdraws. So does an advertisement that comes again behind it.
- At most `limit` publications wait for a neighbour. The oldest goes, counted as `link_lost`; all of
  them go when the link is given up. Those that are to be confirmed do not count, and stay.
- Rows that the neighbour did not repeat are removed when it has said `Synced` and has answered
  everything that it was told: until it has handled an advertisement, it does not send the
  subscriptions for it.

Source: `delivery.md`, P5. Cost: a look into a dict for each copy that goes to a neighbour."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reefcast.model.messages import (
    Advertise,
    ControlMessage,
    Discard,
    Effect,
    EntityId,
    LinkName,
    Publish,
    Send,
    SetTimer,
    Unadvertise,
)

ANSWER_S = 2.0
HELD = 100_000
"""Publications that wait for one neighbour, unless the broker is given another number."""
TIMER = "answer:"


class Wait:
    """The wait for one neighbour. `told`: it has answered what it was told; `relearned`, `synced`:
    it has said so. `items`: what waits, in order; `publications`: how many of these are
    publications, and `confirmed`: how many of those are to be confirmed; `withdrawn`:
    advertisements among them that are withdrawn."""

    __slots__ = ("confirmed", "items", "publications", "relearned", "synced", "told", "withdrawn")

    def __init__(self) -> None:
        self.items: deque[Send] = deque()
        self.publications = self.confirmed = 0
        self.withdrawn: set[EntityId] = set()
        self.told = self.relearned = self.synced = False

    def add(self, send: Send) -> None:
        message = send.message
        self.items.append(send)
        if isinstance(message, Publish):
            self.publications += 1
            self.confirmed += message.confirm > 0
        elif isinstance(message, Unadvertise):
            self.withdrawn.add(message.id)

    def delays(self, message: ControlMessage | Publish) -> bool:
        """Return whether this message has to wait, too."""
        if isinstance(message, Advertise):
            return message.id in self.withdrawn
        return isinstance(message, Publish | Unadvertise)

    def drop_oldest(self) -> Publish:
        """Remove the oldest publication that nobody wants confirmed; the remaining items keep their
        order."""
        for place, send in enumerate(self.items):
            if isinstance(send.message, Publish) and not send.message.confirm:
                del self.items[place]
                self.publications -= 1
                return send.message
        raise LookupError("no publication waits")


def _again(message: ControlMessage | Publish, link: LinkName) -> Send:
    """Return a send marked `again`: its receivers may get it twice."""
    if isinstance(message, Publish):
        message = msgspec.structs.replace(message, again=True)
    return Send(link, message)


class Holding:
    """What waits for the neighbours of one broker. `closed`: the neighbours for which publications
    wait."""

    def __init__(self, limit: int = HELD) -> None:
        self.closed: dict[LinkName, Wait] = {}
        self._limit = limit
        self._returns: dict[LinkName, Wait] = {}

    def queue_len(self, link: LinkName) -> int:
        """Return how many publications wait for `link`."""
        wait = self.closed.get(link)
        return 0 if wait is None else wait.publications

    def for_link(self, link: LinkName) -> list[Publish]:
        """Return the publications that wait for `link`."""
        wait = self.closed.get(link)
        sends = () if wait is None else wait.items
        return [send.message for send in sends if isinstance(send.message, Publish)]

    # --- a wait begins ----------------------------------------------------------------------------

    def leaves(self, link: LinkName) -> None:
        """Hold publications for a neighbour that is about to stop."""
        self._returns.pop(link, None)
        self.closed.setdefault(link, Wait())

    def publications(self) -> Iterator[Publish]:
        """Return all publications that wait, for any neighbour."""
        sends = (send for wait in self.closed.values() for send in wait.items)
        return (send.message for send in sends if isinstance(send.message, Publish))

    def misses(self, link: LinkName) -> None:
        """Hold publications for a neighbour that has not been here yet, and for which the broker no
        longer waits."""
        self.closed.setdefault(link, Wait())

    def begin(self, link: LinkName, kept: Iterable[Publish]) -> tuple[Wait, list[Effect]]:
        """Begin a wait for a neighbour that is here, without memory; return the wait, and the
        publications that had to be discarded because too many wait. Advertisements withdrawn
        meanwhile need not be withdrawn from it any more.

        Everything that waits is sent as *again*: even of a publication that this link never sent, a
        copy may have reached the neighbour over another link in its former life, or may reach it
        sooner now."""
        before, wait = self.closed.get(link), Wait()
        held = () if before is None else (send.message for send in before.items)
        for message in (*kept, *held):
            if isinstance(message, Publish):
                wait.add(_again(message, link))
        self.closed[link] = self._returns[link] = wait
        return wait, self._bounded(link, wait)

    def pass_on(self, send: Send) -> Sequence[Effect]:
        """Return the send; or, if it has to wait, the publications that had to be discarded for
        it."""
        wait = self.closed.get(send.link)
        if wait is None or not wait.delays(send.message):
            return (send,)
        wait.add(_again(send.message, send.link))
        return self._bounded(send.link, wait)

    def _bounded(self, link: LinkName, wait: Wait) -> list[Effect]:
        over = wait.publications - wait.confirmed - self._limit
        return [Discard(wait.drop_oldest(), "link_lost", link) for _ in range(over)]

    # --- a wait ends ------------------------------------------------------------------------------

    def told(self, link: LinkName, wait: Wait) -> list[Effect]:
        """Handle that the neighbour has answered what it was told when `wait` began."""
        wait.told = True
        return self._release(link) if wait.relearned else []

    def is_present(self, link: LinkName, wait: Wait) -> bool:
        """Return whether `wait` began when the neighbour came up last."""
        return self._returns.get(link) is wait

    def relearned(self, link: LinkName, now: float) -> list[Effect]:
        """Handle that the neighbour has relearned."""
        wait = self._returns.get(link)
        if wait is None or wait.relearned:
            return []
        wait.relearned = True
        if wait.told:
            return self._release(link)
        return [SetTimer(TIMER + link, now + ANSWER_S)]

    def answers_are_due(self, link: LinkName) -> list[Effect]:
        """Release what waits: the neighbour has been waited for long enough."""
        wait = self._returns.get(link)
        return self._release(link) if wait is not None and wait.relearned else []

    def _release(self, link: LinkName) -> list[Effect]:
        wait = self._returns[link]
        if self.closed.get(link) is not wait:
            return []
        del self.closed[link]
        items, wait.items = wait.items, deque()
        return list(items)

    def given_up(self, link: LinkName) -> list[Publish]:
        """Forget a link that is gone; return the publications that waited for it."""
        self._returns.pop(link, None)
        publications = self.for_link(link)
        self.closed.pop(link, None)
        return publications

    # --- sweeping ---------------------------------------------------------------------------------

    def may_sweep(self, link: LinkName) -> bool:
        """Return whether the neighbour, which has said `Synced`, has answered everything before
        that."""
        wait = self._returns.get(link)
        if wait is None:
            return True
        wait.synced = True
        return wait.told
