"""The consequences of one input of the broker core: messages with their tokens, answers when
everything that the input caused is done, and the work that waited for that (see `settlement`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from reefcast.model.messages import (
    Advertise,
    Control,
    Demote,
    Effect,
    EntityId,
    LinkName,
    PeerMessage,
    Promote,
    Publish,
    Send,
    TableChange,
    is_deputy,
)
from reefcast.routing.capabilities import OpensLinks, Relearns, SettlesTogether, capability
from reefcast.routing.confirming import Confirming
from reefcast.routing.holding import HELD, Holding
from reefcast.routing.relearning import Relearning
from reefcast.routing.router import Action, Await, OnceKept, Part, Route, Router
from reefcast.routing.settlement import PendingWork, Settlement, brought_by, kept_by
from reefcast.routing.unopened import Unopened


class Consequences:
    """The consequences of inputs of one broker. `neighbours`: those from which it should hear when
    it relearns; `is_up`: whether a link of that name can be sent on; `changed` is told of links
    that come to belong to the overlay, or cease to; `routed` routes publications as if they had
    come by that link; `confirming`: keeps those that are to be confirmed; `most_held`: see
    `holding`. `due`: what to do next, because what it waited for is over; `once_kept` does
    something when the disk has what was written; `parted` are told of a neighbour that leaves the
    overlay. `restored`: whether the broker began with rows from its disk."""

    def __init__(
        self,
        router: Router,
        neighbours: Iterable[LinkName],
        is_up: Callable[[LinkName], bool],
        changed: Callable[[Promote | Demote], list[Effect]],
        routed: Callable[[Sequence[Publish], LinkName], list[Effect]],
        confirming: Confirming,
        most_held: int = HELD,
    ) -> None:
        self.relearning = Relearning(neighbours, capability(router, Relearns).passes_on)
        self.settling = capability(router, SettlesTogether)
        self.settlement = Settlement(self.settling.came_by)
        self.holding = Holding(most_held, self.settlement.unanswered_advertisements)
        self.confirming = confirming
        self.unopened = Unopened(capability(router, OpensLinks))
        self.due: list[Callable[[], list[Effect]]] = []
        self.once_kept: Callable[[Callable[[], list[Effect]]], list[Effect]] = lambda then: then()
        self.parted: list[Callable[[LinkName], list[Effect]]] = []
        self._awaited: dict[object, PendingWork] = {}
        self._router = router
        self.restored = False
        self._relearns = isinstance(router, Relearns)
        self._is_up = is_up
        self._changed = changed
        self._routed = routed

    def begin_work(
        self, link: LinkName, message: TableChange | PeerMessage | None = None
    ) -> PendingWork:
        """Begin the pending work of the input being handled; `message`, if any, is to be
        answered."""
        work = PendingWork(link)
        if message is not None and message.token:
            self.settlement.owe(work, link, message.token)
        brought = brought_by(message)
        if self._relearns and brought is not None:
            self.settlement.follow(work, link, brought)
        if self.restored and brought is not None:
            self.settlement.join_all_said(work, brought)
        deputy = brought is not None and is_deputy(brought[0])  # it goes where it is known to go
        if not self.relearning.complete and not deputy:
            id = kept_by(message)
            known_as = None if id is None else self.settling.known_as(id, link)
            self.settlement.hold(work, known_as, advertises=isinstance(message, Advertise))
        return work

    def wait_for_stand_ins(self, work: PendingWork, id: EntityId) -> None:
        """Let `work`, of a subscription, wait for the subscriptions that stand in for it at
        neighbours. Not for one that is told to the neighbour from which it came: if the same id
        came by other links, too, and stands in for something there, both ends would wait for each
        other."""
        row = self._router.prt.get(id)
        settlement, settling = self.settlement, self.settling
        if row is not None:
            settlement.join_told(work, settling.needs(row.filter, settlement.unanswered))
        told = [pair for pair in settling.stand_ins(id) if pair[0] != work.came_by]
        settlement.join_said(work, told)

    def act(self, actions: Sequence[Action]) -> list[Effect]:
        """Return the effects of actions for which nobody waits."""
        return self.send(PendingWork(), actions)

    def send(self, work: PendingWork, actions: Sequence[Action]) -> list[Effect]:
        """Return the effects of actions, with tokens on the messages whose answers `work` waits
        for; and the answers to its own input if there is nothing to wait for."""
        effects: list[Effect] = []
        for action in actions:
            if isinstance(action, Await):
                effects += self._await(work, action)
            elif isinstance(action, Route):
                effects += self._routed(action.publications, action.link)
            elif isinstance(action, OnceKept):
                effects += self.once_kept(partial(self._do, action))
            elif isinstance(action, Part):
                effects += [effect for tell in self.parted for effect in tell(action.link)]
            elif isinstance(action, Send):
                message = action.message
                if isinstance(message, Control):
                    message = self.settlement.attach(work, message, action.link)
                for send in self.unopened.pass_on(Send(action.link, message)):
                    effects += self.holding.pass_on(send)
            else:
                effects.append(action)
                if isinstance(action, Promote | Demote):
                    effects += self._changed(action)
        return effects + self.finish(self.settlement.close(work))

    def _await(self, work: PendingWork, action: Await) -> list[Effect]:
        awaited, effects = self._awaited.get(action.key), []
        if awaited is None:
            awaited = PendingWork()
            awaited.then.append(lambda: self._over(action))
            effects = self.send(awaited, action.sends)
        if action.key is not None and awaited.outstanding:
            self._awaited[action.key] = awaited
            awaited.parents.append(work)
            work.outstanding += 1
        return effects

    def _do(self, action: OnceKept) -> list[Effect]:
        return self.act(action.then())

    def _over(self, action: Await) -> None:
        self._awaited.pop(action.key, None)
        self.due.append(lambda: self.act(action.then()))

    def finish(self, answers: Iterable[Send]) -> list[Effect]:
        """Return the answers to links that are still up, then the effects of what waited for
        something to settle."""
        effects: list[Effect] = [send for send in answers if self._is_up(send.link)]
        due = self.due.copy()
        self.due.clear()
        for then in due:
            effects += then()
        return effects
