"""The links to neighbours in the overlay: how they come up without memory of this broker, and go
down; the messages about that, and the publications that wait for it.

Rules
-----
- A neighbour without memory of this broker (first contact, or a restart) is told everything that it
  must know, then `Synced`. A broker that relearns says `Synced` to a neighbour only when it has
  heard it from all others (`relearning`); the neighbour then removes the rows that were not
  repeated. If some neighbour stays away for `RELEARN_S`, the broker goes on without it. Settling
  waits for it until `patience_s`, and so does `Synced` for others; all publications that might be
  wanted there wait for it.
- A broker that has a disk gives up no neighbour (`delivering`): its publications wait, and others
  go on without it (`away`).
- When a broker has relearned, it says `Relearned`: then neighbours send it what they have held for
  it (`holding`).
- A broker that is about to stop says `Leaving`, and has left when all neighbours that it can reach
  have answered: then nothing more comes. One that is about to stop, too, answers when all its
  others have answered it: until then it may still have something to hand over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from reefcast.model.filters import TRUE
from reefcast.model.messages import (
    Advertise,
    Back,
    Discard,
    Effect,
    Leave,
    Leaving,
    LinkName,
    LinkUp,
    Publish,
    Relearned,
    Send,
    SetTimer,
    Settled,
    Synced,
    TakenOut,
    Unadvertise,
)
from reefcast.routing.away import AWAY_TIMER, AwayNeighbours
from reefcast.routing.capabilities import HandsOver, MovesLinks, Relearns, capability
from reefcast.routing.consequences import Consequences
from reefcast.routing.holding import TIMER as ANSWER_TIMER
from reefcast.routing.holding import Wait
from reefcast.routing.router import Router
from reefcast.routing.settlement import PendingWork

PATIENCE_S = 60.0
RELEARN_S = 5.0
RELEARN_TIMER = "relearn"
ABSENT_TIMER = "absent"
TOGETHER_TIMER = "together"
TOGETHER_S = 1.0
"""How long a broker that leaves waits for the others that do."""


class NeighbourLinks:
    """The links of broker `name` to its neighbours; it uses the broker's parts. `patience_s`: see
    `Broker`; `away`: those that are away, of a broker with a disk, which gives up none."""

    def __init__(
        self,
        name: str,
        router: Router,
        then: Consequences,
        patience_s: float,
        *,
        away: AwayNeighbours | None = None,
    ) -> None:
        self.away = away
        self._leaving = self._is_overdue = False
        self._unanswered: set[LinkName] = set()
        self._owed: dict[LinkName, int] = {}
        self._name = name
        self._router = router
        self._relearns = capability(router, Relearns)
        self._hands_over = capability(router, HandsOver)
        self._moves = router if isinstance(router, MovesLinks) else None
        self._then = then
        self._relearning = then.relearning
        self._relearns.relearning = self._relearning.active
        self._holding = then.holding
        self.patience_s = patience_s
        self._lent = 0
        self._absent: set[LinkName] = set()
        then.parted.append(self.parted)
        if away is not None:
            away.hand_over = self._hand_over

    @property
    def relearning(self) -> bool:
        """Whether neighbours still have to tell what they know, or what was asked for then is
        still to come."""
        return self._relearning.active or self._relearns.repairing

    # --- a link comes up, or goes -----------------------------------------------------------------

    def begin(self, now: float) -> list[Effect]:
        """Start the patience with the other neighbours when the first link has come up."""
        begins = self._relearning.start_patience()
        return [SetTimer(RELEARN_TIMER, now + RELEARN_S)] if begins else []

    def up(self, up: LinkUp, link: LinkName) -> list[Effect]:
        """Handle a neighbour that is here without memory of this broker: tell it everything."""
        router, then, settlement = self._router, self._then, self._then.settlement
        if link not in router.brokers:
            router.brokers.append(link)
            router.brokers.sort()
        before = settlement.begin_life(link)
        wait, effects = self._holding.begin(link, up.kept)
        # Once the broker has relearned, this waits for no other absent neighbour.
        work = then.begin_work(link) if self._relearning.active else PendingWork(link)
        work.then.append(lambda: then.due.append(partial(self._told, link, wait)))
        lent = self._lend(link, wait)
        told = [*router.link_up(link), *(Send(link, a) for a in lent)]
        effects += then.send(work, told)
        if self.away is not None:
            self.away.came_up(link, wait, told, lent=bool(lent))
        for advertisement in lent:
            wait.add(Send(link, Unadvertise(advertisement.id)))
        return effects + then.finish(settlement.resume(link, before, then.settling.stand_ins))

    def holds_for(self, links: Iterable[LinkName]) -> bool:
        """Return whether publications wait for one of these neighbours."""
        return any(self._holding.queue_len(link) for link in links)

    def waiting(self) -> Iterator[Publish]:
        """Yield the publications that wait for a neighbour, or for a next hop."""
        yield from self._holding.publications()
        yield from self._hands_over.waiting

    def _lend(self, link: LinkName, wait: Wait) -> list[Advertise]:
        """Return an advertisement of this broker's own if publications of publishers that have left
        since wait for the neighbour: until these have been handed over, it shows the neighbour
        where they go."""
        waiting = (send.message for send in wait.items)
        if all(
            self._hands_over.advertised(publish.publication, link)
            for publish in waiting
            if isinstance(publish, Publish)
        ):
            return []
        self._lent += 1
        return [Advertise((f"@{self._name}", self._lent), TRUE.text)]

    def greet(self, link: LinkName) -> list[Effect]:
        """Tell the neighbour that everything it must know has been sent."""
        relearns = self._relearning.active
        effects = self._tell_synced(self._relearning.came_up(link))
        return effects if relearns else [*effects, Send(link, Relearned())]

    def lose(self, link: LinkName) -> list[Effect]:
        """Give up a link: discard what waits for it, and withdraw what came from it."""
        then = self._then
        self._owed.pop(link, None)
        self._router.brokers.remove(link)
        effects: list[Effect] = [
            Discard(p, "link_lost", link) for p in self._holding.given_up(link)
        ]
        effects += then.act(self._router.link_down(link)) + self._no_longer_absent(link)
        return effects + then.finish(then.settlement.forget(link))  # may release what was held

    def parted(self, link: LinkName) -> list[Effect]:
        """Forget a neighbour that has left the overlay, or was taken out of the network, as far as
        this broker still waits for it: its link may not have come up in this life."""
        self._owed.pop(link, None)
        if self.away is not None:
            self.away.forget(link)
        effects: list[Effect] = [
            Discard(p, "link_lost", link) for p in self._holding.given_up(link)
        ]
        return effects + self._no_longer_absent(link) + self.lost(link)

    def taken_out(self, brokers: Sequence[LinkName]) -> list[Effect]:
        """Forget the moved links of brokers that were taken out of the network."""
        return [] if self._moves is None else self._then.act(self._moves.taken_out(brokers))

    def ends_for_good(self, _: TakenOut, link: LinkName, now: float) -> list[Effect]:
        """Forget the moved links of this broker, which was taken out of the network."""
        if self._moves is not None:
            self._moves.ends_for_good()
        return []

    def stays_away(self, link: LinkName) -> None:
        """Hold what is for a neighbour that has been away for long, and is not given up."""
        self._owed.pop(link, None)
        self._holding.misses(link)

    def went_away(self, link: LinkName, now: float) -> list[Effect]:
        """Handle that the connection of a neighbour is gone, which may come back."""
        if self.away is None or link not in self._router.brokers:
            return []
        return self.away.went(link, now)

    def is_back(self, _: Back, link: LinkName, now: float) -> list[Effect]:
        """Handle that a neighbour that was away is connected again, with its memory of the link."""
        return [] if self.away is None else self._hand_over(self.away.is_back(link))

    def lost(self, link: LinkName) -> list[Effect]:
        """Stop waiting, while relearning, for a neighbour that was given up or has left; return the
        `Synced` messages that can be sent now."""
        return self._tell_synced(self._relearning.went(link))

    # --- what neighbours say ----------------------------------------------------------------------

    def synced(self, link: LinkName) -> list[Effect]:
        effects = self._said_all(link) if self._holding.may_sweep(link) else []
        return effects + self._tell_synced(self._relearning.heard(link))

    def relearned(self, link: LinkName, now: float) -> list[Effect]:
        return self._hand_over(self._holding.relearned(link, now))

    def leaves(self, link: LinkName, token: int) -> list[Effect]:
        """Handle that a neighbour is about to stop."""
        self._owed[link] = token
        return self._answer_those_who_leave()

    def _answer_those_who_leave(self) -> list[Effect]:
        """Answer neighbours that stop, as soon as nothing more has to be sent to them. Brokers of a
        cycle that leave together would wait for each other for ever: so only until `TOGETHER_S`."""
        leaving = set(self._owed) if self._is_overdue else set()
        ready = [link for link in self._owed if not self._unanswered - leaving - {link}]
        for link in ready:
            self._holding.leaves(link)
        return [Send(link, Settled(self._owed.pop(link))) for link in ready]

    def _told(self, link: LinkName, wait: Wait) -> list[Effect]:
        """Handle that the neighbour has answered everything that it was told when its link came
        up."""
        if not self._holding.is_present(link, wait):
            return []
        released = self._holding.told(link, wait)
        swept = self._said_all(link) if wait.synced else []
        return swept + self._hand_over(released)

    def _hand_over(self, released: list[Effect]) -> list[Effect]:
        """Send a neighbour what has waited for it; over another link, if that no longer reaches
        it."""
        effects: list[Effect] = []
        strays: list[Publish] = []
        for effect in released:
            if (
                isinstance(effect, Send)
                and isinstance(effect.message, Publish)
                and self._hands_over.is_astray(effect.message, effect.link)
            ):
                strays.append(effect.message)
            else:
                effects.append(effect)
        if strays:
            effects += self._then.act(self._hands_over.reroute(strays))
        if released and self._moves is not None:
            effects += self._then.act(self._moves.released())
        return effects

    def _said_all(self, link: LinkName) -> list[Effect]:
        """Remove the rows that the neighbour has not repeated: it no longer has them."""
        swept = self._then.send(self._then.begin_work(link), self._relearns.synced(link))
        return swept + self._no_longer_absent(link)

    def _tell_synced(self, links: Iterable[LinkName]) -> list[Effect]:
        effects: list[Effect] = [Send(link, Synced()) for link in links]
        if self._relearning.is_just_over():
            self._relearns.relearning = False
            effects += self._then.act(self._relearns.relearned())
            effects += [Send(link, Relearned()) for link in self._router.brokers]
        if self._relearning.is_just_complete():
            for id, work in self._then.settlement.held:
                self._then.wait_for_stand_ins(work, id)
            effects += self._then.finish(self._then.settlement.let_go())
        return effects

    # --- this broker stops ------------------------------------------------------------------------

    def leave(self, leave: Leave, _: LinkName, now: float) -> list[Effect]:
        """Tell these neighbours that this broker stops; wait for them alone, once they have been
        told."""
        links = leave.links
        if self._leaving:
            self._unanswered.intersection_update(links)
            return self._answer_those_who_leave()
        self._leaving = True
        if self._moves is not None:
            self._moves.leaving = True
        told = [link for link in links if link in self._router.brokers]
        self._unanswered.update(told)
        effects: list[Effect] = [SetTimer(TOGETHER_TIMER, now + TOGETHER_S)]
        for link in told:
            work = PendingWork()
            work.then.append(partial(self._has_answered, link))
            effects += self._then.send(work, [Send(link, Leaving())])
        return effects

    def _has_answered(self, link: LinkName) -> None:
        self._unanswered.discard(link)
        self._then.due.append(self._answer_those_who_leave)

    @property
    def left(self) -> bool:
        """Whether this broker is about to stop, and its neighbours have sent everything."""
        return self._leaving and not self._unanswered

    # --- timers -----------------------------------------------------------------------------------

    def due(self, key: str, now: float) -> list[Effect] | None:
        """Handle a timer that has come due; None if it is none of these."""
        if key == RELEARN_TIMER:
            return self._stop_relearning(now)
        if key == ABSENT_TIMER:
            return self._forget_absent()
        if key == TOGETHER_TIMER:
            self._is_overdue = True
            return self._answer_those_who_leave()
        if key.startswith(AWAY_TIMER) and self.away is not None:
            return self.away.due(key.removeprefix(AWAY_TIMER), now)
        if key.startswith(ANSWER_TIMER):
            released = self._holding.answers_are_due(key.removeprefix(ANSWER_TIMER))
            return self._hand_over(released)
        return None

    def _stop_relearning(self, now: float) -> list[Effect]:
        """Stop relearning, although some neighbours have stayed away so far."""
        told = self._relearning.give_up()
        self._absent.update(self._relearning.absent)
        self._router.absent = sorted(self._absent)
        for link in self._absent.difference(self._router.brokers):
            self._holding.misses(link)
        effects = self._tell_synced(told)
        if self.away is None and not self._relearning.complete:
            effects.append(SetTimer(ABSENT_TIMER, now + max(self.patience_s - RELEARN_S, 0.0)))
        return effects

    def _forget_absent(self) -> list[Effect]:
        """Forget neighbours that have been away for so long that what waited for them is
        dropped."""
        effects: list[Effect] = []
        for link in sorted(self._absent.difference(self._router.brokers)):
            effects += [Discard(p, "link_lost", link) for p in self._holding.given_up(link)]
            effects += self._no_longer_absent(link)
        return effects + self._tell_synced(self._relearning.forget_absent())

    def _no_longer_absent(self, link: LinkName) -> list[Effect]:
        """Handle that a neighbour is no longer absent: the subscriptions behind it are known, or it
        has been given up."""
        if link not in self._absent:
            return []
        self._absent.remove(link)
        self._router.absent = sorted(self._absent)
        return [] if self._absent else self._then.act(self._relearns.all_synced())
