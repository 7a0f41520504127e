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
- So do those for a neighbour whose custody has begun (`away`); if it is back and remembers the
  link, the wait is over (`reopen`).
- While a neighbour is *barred*, it has still to answer advertisements that publications which wait
  for it need: what is to end its wait takes effect when that is over. An advertisement that waits
  itself, behind its withdrawal, is sent with what is before it; what is behind it waits on.
- At most `limit` publications wait for a neighbour. The oldest goes, counted as `link_lost`; all of
  them go when the link is given up. Those that are to be confirmed do not count, and stay.
- Rows that the neighbour did not repeat are removed when it has said `Synced` and has answered
  everything that it was told: until it has handled an advertisement, it does not send the
  subscriptions for it.

Source: `delivery.md`, P5. Cost: a look into a dict for each copy that goes to a neighbour."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

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
    it has said so; `over`: what waits may go, but the neighbour is barred. `items`: what waits, in
    order; `publications`: how many of these are publications, and `confirmed`: how many of those
    are to be confirmed; `withdrawn`: advertisements among them that are withdrawn."""

    __slots__ = (
        "confirmed",
        "items",
        "over",
        "publications",
        "relearned",
        "synced",
        "told",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.items: deque[Send] = deque()
        self.publications = self.confirmed = 0
        self.withdrawn: set[EntityId] = set()
        self.told = self.relearned = self.synced = self.over = False

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

    def advertised(self) -> list[EntityId]:
        """Return the advertisements that wait, too."""
        return [send.message.id for send in self.items if isinstance(send.message, Advertise)]

    def take_stage(self) -> list[Send]:
        """Remove and return what is first, up to an advertisement."""
        stage: list[Send] = []
        rest, self.items, self.withdrawn = self.items, deque(), set()
        self.publications = self.confirmed = 0
        while rest:
            stage.append(rest.popleft())
            if isinstance(stage[-1].message, Advertise):
                break
        for send in rest:
            self.add(send)
        return stage

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
    wait. `under_way` returns the advertisements that a neighbour has not answered, each as often as
    it was told."""

    def __init__(
        self,
        limit: int = HELD,
        under_way: Callable[[LinkName], list[EntityId]] = lambda link: [],
    ) -> None:
        self._under_way = under_way
        self.closed: dict[LinkName, Wait] = {}
        self.limit = limit
        self._returns: dict[LinkName, Wait] = {}
        self._absent: dict[LinkName, Wait] = {}
        self._barred: dict[LinkName, set[EntityId]] = {}

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
        self._absent.pop(link, None)
        self.closed.setdefault(link, Wait()).over = False

    def publications(self) -> Iterator[Publish]:
        """Return all publications that wait, for any neighbour."""
        sends = (send for wait in self.closed.values() for send in wait.items)
        return (send.message for send in sends if isinstance(send.message, Publish))

    def misses(self, link: LinkName) -> None:
        """Hold publications for a neighbour that is away, or has not been here yet."""
        if link not in self.closed:
            self.closed[link] = self._absent[link] = Wait()

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
        self._absent.pop(link, None)
        self.closed[link] = self._returns[link] = wait
        return wait, self._bounded(link, wait)

    def pass_on(self, send: Send) -> Sequence[Effect]:
        """Return the send; if it has to wait, keep it and return the publications that were
        discarded to make room."""
        wait = self.closed.get(send.link)
        if wait is None or not wait.delays(send.message):
            return (send,)
        wait.add(_again(send.message, send.link))
        return self._bounded(send.link, wait)

    def _bounded(self, link: LinkName, wait: Wait) -> list[Effect]:
        over = wait.publications - wait.confirmed - self.limit
        return [Discard(wait.drop_oldest(), "link_lost", link) for _ in range(over)]

    # --- a wait ends ------------------------------------------------------------------------------

    def told(self, link: LinkName, wait: Wait) -> list[Effect]:
        """Handle that the neighbour has answered what it was told when `wait` began."""
        wait.told = True
        return self._release(link, wait) if wait.relearned else []

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
            return self._release(link, wait)
        return [SetTimer(TIMER + link, now + ANSWER_S)]

    def answers_are_due(self, link: LinkName) -> list[Effect]:
        """Release what waits for a neighbour that has relearned: its answers were waited for long
        enough."""
        wait = self._returns.get(link)
        return self._release(link, wait) if wait is not None and wait.relearned else []

    def reopen(self, link: LinkName) -> list[Effect]:
        """Release what waits for a neighbour that was away and has not lost its memory."""
        wait = self._absent.get(link)
        return [] if wait is None else self._release(link, wait)

    def bar(self, link: LinkName, id: EntityId) -> None:
        """Release nothing that needs this advertisement until `unbar`."""
        self._barred.setdefault(link, set()).add(id)

    def unbar(self, link: LinkName, id: EntityId) -> None:
        """Handle that the neighbour has answered an advertisement; `go_on` has to follow."""
        its = self._barred.get(link, set())
        its.discard(id)
        if not its:
            self._barred.pop(link, None)

    def go_on(self, link: LinkName) -> list[Effect]:
        """Release what waits for a neighbour whose wait is over and was prolonged only by bars."""
        wait = self.closed.get(link)
        return self._release(link, wait) if wait is not None and wait.over else []

    def _release(self, link: LinkName, wait: Wait) -> list[Effect]:
        if self.closed.get(link) is not wait:
            return []
        if barred := self._barred.get(link):
            wait.over = True
            waiting, under_way = wait.advertised(), self._under_way(link)
            is_own = all(0 < waiting.count(id) == under_way.count(id) for id in barred)
            return list(wait.take_stage()) if is_own else []
        self._absent.pop(link, None)
        del self.closed[link]
        items, wait.items = wait.items, deque()
        return list(items)

    def drop_confirmed(self, link: LinkName) -> None:
        """Drop the publications for `link` that are to be confirmed: it is owed them no longer."""
        wait = self.closed.get(link)
        if wait is not None:
            kept, wait.items = wait.items, deque()
            wait.publications = wait.confirmed = 0
            for send in kept:
                if not (isinstance(send.message, Publish) and send.message.confirm):
                    wait.add(send)

    def given_up(self, link: LinkName) -> list[Publish]:
        """Forget a link that is gone; return the publications that waited for it."""
        self._returns.pop(link, None)
        self._absent.pop(link, None)
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
