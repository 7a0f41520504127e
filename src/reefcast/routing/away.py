"""Neighbours that are away: since when, what is kept for them, and what goes on without them.

Rules
-----
- A neighbour is *away* when its connection is gone, or has not been there since the start. After
  `after_s` its custody begins (`custody`), and publications for it wait here (`holding`).
- An advertisement that meets a neighbour which has been away for so long does not wait for it: the
  broker enters a durable row in that neighbour's name, a *deputy*, by which everything of the
  advertisement goes there; it is told on like any subscription, and the advertisement settles when
  that has settled. A routing that sends copies there anyway (OctopiA, whose bits are 1) enters
  none.
- The row goes when the neighbour has answered the advertisement, or, after a restart, all
  advertisements that it was told when it came up; not when it says `Synced`. Only then does it get
  what waited for it: before, it does not know who wants that.
- While the broker relearns, advertisements settle without the neighbours that are still missing,
  under the same condition: each has been told of them, and answered, or has a deputy.
- A deputy that comes to a broker that relearns is not held there: the advertisement that it is for
  came from there, so that it is known where the deputy goes on to.
- Subscriptions wait for a neighbour that is away, however long that takes.

A broker without a disk has none of this.

Source: `delivery.md`, rules 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from reefcast.model.messages import (
    DEPUTY_MARK,
    SESSION_MARK,
    Advertise,
    Effect,
    EntityId,
    LinkName,
    Send,
    SetTimer,
)
from reefcast.routing.capabilities import KeepsRows, capability
from reefcast.routing.consequences import Consequences
from reefcast.routing.custody import Custody
from reefcast.routing.holding import Wait
from reefcast.routing.router import Action, Router
from reefcast.routing.settlement import PendingWork

AWAY_TIMER = "away:"
CAME_UP: EntityId = ("", 0)
"""Stands for all advertisements that a neighbour is told when it comes up."""


class AwayNeighbours:
    """The absent neighbours of broker `name`; it uses the broker's parts. `since`: neighbour ->
    when it went, or when the broker started; `hand_over` is given what has waited for one."""

    def __init__(
        self, name: str, router: Router, then: Consequences, custody: Custody, after_s: float
    ) -> None:
        self.since: dict[LinkName, float] = {}
        self.hand_over: Callable[[list[Effect]], list[Effect]] = list
        self._own = f"{SESSION_MARK}{name}{DEPUTY_MARK}"
        self._router = router
        self._rows = capability(router, KeepsRows)
        self._then = then
        self._custody = custody
        self._after_s = after_s
        self._deputies: dict[LinkName, dict[EntityId, EntityId]] = {}
        self._ends: dict[tuple[LinkName, EntityId], PendingWork] = {}
        self._told: dict[LinkName, Wait] = {}
        for row in list(router.prt):
            if row.id[0].startswith(self._own):
                owner, number = row.id
                publisher = owner.removeprefix(self._own).split(DEPUTY_MARK, 1)[1]
                self._note(row.last_hop, row.id, (publisher, number))

    # --- neighbours come and go -------------------------------------------------------------------

    def begin(self, neighbours: Iterable[LinkName], now: float) -> list[Effect]:
        """Count the time of neighbours that are not up when the broker starts."""
        return [timer for link in neighbours for timer in self.went(link, now)]

    def went(self, link: LinkName, now: float) -> list[Effect]:
        """Handle that the connection of a neighbour is gone."""
        self.since[link] = now
        return [SetTimer(AWAY_TIMER + link, now + self._after_s)]

    def is_back(self, link: LinkName) -> list[Effect]:
        """Handle that a neighbour is connected again, and remembers the link; return what waited
        for it, unless that has to wait further."""
        self._returned(link)
        return self._then.holding.reopen(link)

    def forget(self, link: LinkName) -> None:
        """Forget a broker that is no longer a neighbour and is owed nothing."""
        self._returned(link)
        self._told.pop(link, None)
        self._deputies.pop(link, None)

    def _returned(self, link: LinkName) -> None:
        self.since.pop(link, None)
        self._custody.owed.discard(link)

    def came_up(self, link: LinkName, wait: Wait, told: Sequence[object], *, lent: bool) -> None:
        """Handle that a neighbour has come up without memory and has still to answer what it was
        `told`. `lent`: some of the advertisements in it serve only publications that wait for the
        neighbour."""
        self._returned(link)
        deputies = self._deputies.get(link, {})
        if not (deputies or lent):
            return
        for id in deputies:
            self._router.prt.confirm(id, link)
        self._then.holding.bar(link, CAME_UP)
        self._told[link] = wait
        work = PendingWork()
        work.then.append(lambda: self._then.due.append(partial(self._has_answered, link, wait)))
        ids = [
            send.message.id
            for send in told
            if isinstance(send, Send) and isinstance(send.message, Advertise)
        ]
        work.outstanding += 1
        self._then.settlement.join_said(work, [(link, id) for id in ids])
        self._then.settlement.release(work)

    def _has_answered(self, link: LinkName, wait: Wait) -> list[Effect]:
        """Handle that a neighbour has answered all advertisements that it was told when it came
        up."""
        if self._told.get(link) is not wait:
            return []
        del self._told[link]
        self._then.holding.unbar(link, CAME_UP)
        return self._remove_answered(link)

    def due(self, link: LinkName, now: float) -> list[Effect]:
        """Begin the custody for a neighbour that has been away for long enough."""
        if link not in self.since:
            return []
        left_s = self.since[link] + self._after_s - now
        if left_s > 1e-9:
            return [SetTimer(AWAY_TIMER + link, now + left_s)]
        self._custody.owed.add(link)
        self._then.holding.misses(link)
        return self._then.finish(self._then.confirming.take_all(link))

    # --- advertisements ---------------------------------------------------------------------------

    def meet(self) -> list[Effect]:
        """Let advertisements go on without the neighbours that are away, at the end of an input."""
        if not (self._custody.owed or self._then.settlement.held_advertisements):
            return []
        effects: list[Effect] = []
        up = self._router.brokers
        for link in sorted(self._custody.owed):
            if link in up:
                for id in self._then.settlement.unanswered_advertisements(link):
                    effects += self._go_on_without(link, id)
            elif not self._then.relearning.active:
                for id, work in list(self._then.settlement.held_advertisements):
                    effects += self._enter_deputy(link, id, [work], held=True)
        relearning = self._then.relearning
        if not relearning.active and self._custody.owed.issuperset(
            link for link in relearning.absent if link not in up
        ):
            effects += self._then.finish(self._then.settlement.let_go_advertisements())
        return effects

    def _go_on_without(self, link: LinkName, id: EntityId) -> list[Effect]:
        """Let what waits for this neighbour's answer to an advertisement wait for a deputy
        instead."""
        waiting = self._then.settlement.excuse(link, id)
        if not (waiting or (link, id) in self._ends):
            return []
        effects = self._enter_deputy(link, id, waiting, held=False)
        self._watch(link, id)
        return effects

    def _watch(self, link: LinkName, id: EntityId) -> None:
        """Have `_answered` called when the neighbour has answered an advertisement that it is being
        told, the first time."""
        if (link, id) not in self._ends:
            end = self._ends[link, id] = PendingWork()
            end.then.append(lambda: self._then.due.append(partial(self._answered, link, id)))
            self._then.settlement.join_first_told(end, link, id)

    def _enter_deputy(
        self, link: LinkName, id: EntityId, waiting: Sequence[PendingWork], *, held: bool
    ) -> list[Effect]:
        """Enter a deputy for an advertisement, if there is none; `waiting` waits for it, too if
        it is `held` by something else."""
        settlement = self._then.settlement
        sends: Sequence[Action] = ()
        work = PendingWork(link)
        for each in waiting:
            work.parents.append(each)
            each.outstanding += held
        deputies = self._deputies.get(link, {})
        filter = self._rows.deputy(id, link)
        if filter is not None and id not in deputies.values():
            deputy = (f"{self._own}{_nonce(self._router.rng)}{DEPUTY_MARK}{id[0]}", id[1])
            self._note(link, deputy, id)
            sends = self._router.subscribe(deputy, filter, link, local=False)
            self._then.wait_for_stand_ins(work, deputy)
        else:
            known = [deputy for deputy, of in deputies.items() if of == id]
            others = [other for other in self._router.brokers if other != link]
            settlement.join_said(work, [(other, each) for other in others for each in known])
        return self._then.send(work, sends)

    def _note(self, link: LinkName, deputy: EntityId, advertisement: EntityId) -> None:
        self._deputies.setdefault(link, {})[deputy] = advertisement
        self._then.holding.bar(link, advertisement)

    def _answered(self, link: LinkName, id: EntityId) -> list[Effect]:
        """Handle that a neighbour has answered an advertisement that met it while it was away."""
        self._ends.pop((link, id), None)
        return [] if link in self._told else self._remove_answered(link)

    def _remove_answered(self, link: LinkName) -> list[Effect]:
        """Remove the deputies whose advertisements the neighbour has answered; hand over what
        waited for it if none is left."""
        deputies, holding = self._deputies.get(link, {}), self._then.holding
        effects: list[Effect] = []
        under_way = self._then.settlement.unanswered_advertisements(link)
        for deputy, id in list(deputies.items()):
            if id in under_way:  # it has come anew
                self._watch(link, id)
            else:
                del deputies[deputy]
                holding.unbar(link, id)
                effects += self._then.act(self._router.unsubscribe(deputy, link))
        if not deputies:
            self._deputies.pop(link, None)
        return effects + self.hand_over(holding.go_on(link))

    # --- what can be seen -------------------------------------------------------------------------

    def status(self, link: LinkName) -> dict[str, float | None]:
        """Return what is kept for a neighbour; see `Delivering.status`."""
        count, size = self._custody.of(link)
        return {
            "in_custody": count,
            "custody_bytes": size,
            "full": self._custody.is_full_for(link),
            "deputies": len(self._deputies.get(link, ())),
        }


def _nonce(rng: Random) -> str:
    return rng.randbytes(8).hex()
