"""The gate for clients' publications: it accepts or refuses them, and holds them until the
advertisements of their client have settled.

Rules
-----
- A client's publications must lie within its advertisements, whatever the routing; a client that
  never advertised advertises TRUE by its first publication, until it advertises something itself.
  And within what its user may publish (`granting`): a wider advertisement stands, for that may
  change; one of which nothing could ever be published is refused.
- They wait until all its advertisements have settled, so that no settled subscriber misses the
  first ones; but at most `HOLD_S`, in case a part of the network is away, or as long as the broker
  itself relearns its tables. Publications that are to be confirmed wait without a limit, and so do
  all that the client publishes behind them.
- An advertisement that had settled before the broker was restarted settles at once when its client
  comes back with it (`standing`).
- Withdrawals, and the end of a client, take effect after the publications that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from reefcast.model.filters import TRUE, Filter
from reefcast.model.messages import (
    Advertise,
    Discard,
    Effect,
    EntityId,
    LinkName,
    Publish,
    Refused,
    Send,
    SetTimer,
    Settled,
    Subscribe,
    TableChange,
    Unadvertise,
)
from reefcast.routing.capabilities import Refuses, capability
from reefcast.routing.clients import ClientState
from reefcast.routing.consequences import Consequences
from reefcast.routing.failures import Failures
from reefcast.routing.granting import Granting
from reefcast.routing.reserve import Reserve
from reefcast.routing.router import Router
from reefcast.routing.standing import Standing

HOLD_S = 2.0
HOLD_TIMER = "hold:"
NO_TOPIC = "routing {routing!r} carries what has a topic: publish(..., topics=[...])"


class Onward(NamedTuple):
    """The broker as the gate calls it: `route` a client's publications; answer a publication that
    `failed`; finish with a client that `left`."""

    route: Callable[[Sequence[Publish], LinkName], list[Effect]]
    failed: Callable[[Publish, LinkName], list[Effect]]
    left: Callable[[ClientState], list[Effect]]


class Gate:
    """The gate of broker `broker`, whose parts it uses."""

    def __init__(
        self,
        broker: str,
        router: Router,
        then: Consequences,
        counters: Counter[str],
        failures: Failures,
        onward: Onward,
        reserve: Reserve,
        granting: Granting,
        standing: Standing | None = None,
    ) -> None:
        self._broker = broker
        self._router = router
        self._then = then
        self._counters = counters
        self._failures = failures
        self._onward = onward
        self._reserve = reserve
        self._granting = granting
        self._refuses = capability(router, Refuses)
        self._standing = standing

    def objection(
        self, client: ClientState, message: TableChange, filter: Filter | None
    ) -> str | None:
        """Return why a client must not make this change to its advertisements and subscriptions. If
        it may, note the change and return None."""
        found = None
        if isinstance(message, Subscribe) and filter is not None:
            found = self._refuses.objection(filter)
        elif isinstance(message, Advertise) and filter is not None:
            found = self._reserve.objection_to_advertising(filter, client.name)
        if filter is not None:
            found = found or self._granting.objection(client, message, filter)
        found = found or client.change(message, filter)
        if found is None:
            self._reserve.changed(message, filter, client.name)
        return found

    def publish(self, client: ClientState, batch: Sequence[Publish], now: float) -> list[Effect]:
        """Accept publications of the client, in this order."""
        effects: list[Effect] = []
        if not client.ever_advertised and (first := _first_granted(client, batch)):
            id = client.advertise_implicitly(self._broker, first.publication.seq)
            effects += self.advertise(client, Advertise(id, TRUE.text), TRUE, now)
        accepted = self._accept(client, batch, effects)
        if client.holding:
            client.held += accepted
            return effects
        if client.unsettled:
            accepted = self._hold_back(client, accepted)
        return effects + self._onward.route(accepted, client.name)

    @staticmethod
    def _hold_back(client: ClientState, batch: list[Publish]) -> list[Publish]:
        """Hold back what is to be confirmed, and all behind it; return what comes before that."""
        first = next((at for at, publish in enumerate(batch) if publish.confirm), None)
        if first is None:
            return batch
        client.holding, client.held = True, batch[first:]
        return batch[:first]

    def _accept(
        self, client: ClientState, batch: Iterable[Publish], effects: list[Effect]
    ) -> list[Publish]:
        """Return the publications that may pass, as if they had just been published; refuse the
        others."""
        accepted = []
        needs_topics = self._router.needs_topics
        reserve = self._reserve if self._reserve.guards else None
        for publish in batch:
            try:
                reason = client.objection(publish.publication)
                if publish.confirm:
                    reason = reason or self._router.unconfirmed or None
                if needs_topics and not publish.publication.topics:
                    reason = reason or NO_TOPIC.format(routing=self._router.name)
                if reserve is not None and publish.publication.topics:
                    reason = reason or reserve.objection(publish.publication)
            except Exception as error:
                self._failures.on(publish, error)
                effects += self._onward.failed(publish, client.name)
                continue
            if reason is None:
                accepted.append(publish)
                continue
            self._counters["refused"] += 1
            effects.append(Send(client.name, Refused(0, reason, publish.publication.id)))
            effects.append(Discard(publish, "outside_advertisement"))
        self._counters["published"] += len(accepted)
        return accepted

    def advertise(
        self, client: ClientState, message: Advertise, filter: Filter, now: float
    ) -> list[Effect]:
        """Handle an advertisement of the client; its publications wait until that has settled."""
        standing, timer = self._standing, SetTimer(HOLD_TIMER + client.name, now + HOLD_S)
        if standing is not None and standing.take_up(client.name, message.id, filter):
            client.holding = client.holding or self._then.relearning.active
            answers = [Send(client.name, Settled(message.token))] if message.token else []
            return [*([timer] if client.holding else []), *self._then.finish(answers)]
        work = self._then.begin_work(client.name, message)
        client.unsettled += 1
        client.holding = True
        work.then.append(lambda: self._one_settled(client, message.id, filter))
        sends = self._router.change(message, filter, client.name, local=True)
        return [timer, *self._then.send(work, sends)]

    def _one_settled(self, client: ClientState, id: EntityId, filter: Filter) -> None:
        client.unsettled -= 1
        if self._standing is not None and not client.leaving:
            self._standing.settled(client.name, id, filter)
        if not client.unsettled and (client.holding or client.superseded):
            self._then.due.append(partial(self.release, client))

    def unadvertise(self, client: ClientState, message: Unadvertise) -> list[Effect]:
        """Handle the withdrawal of an advertisement of the client."""
        if client.held:
            client.withdrawn.append(message)
            return []
        work = self._then.begin_work(client.name, message)
        if self._standing is not None:
            message = self._standing.known_as(client.name, message)
        sends = self._router.change(message, None, client.name, local=True)
        return self._then.send(work, sends)

    def release(self, client: ClientState) -> list[Effect]:
        """Route what was held for the client: its advertisements have settled, or patience is
        over."""
        held, client.held, client.holding = client.held, [], False
        effects = self._onward.route(held, client.name) if held else []
        for message in client.take_ended():
            effects += self.unadvertise(client, message)
        return effects + (self._onward.left(client) if client.leaving else [])

    def release_for(self, old: ClientState, new: ClientState) -> list[Effect]:
        """Route what was held for a client that left and is here again. If some of that is to be
        confirmed, all of it waits for the new advertisements, or until the broker has relearned;
        the client sends again what is not confirmed, which comes behind it."""
        waits = old.unsettled or self._then.relearning.active
        if waits and any(publish.confirm for publish in old.held):
            new.held, old.held, new.holding = old.held, [], True
        return self.release(old)

    def patience_is_over(self, client: ClientState, now: float) -> list[Effect]:
        """Handle the timer that limits how long publications of a client are held."""
        if self._then.relearning.active:
            return [SetTimer(HOLD_TIMER + client.name, now + HOLD_S)]
        if client.unsettled and any(publish.confirm for publish in client.held):
            going = self._hold_back(client, client.held)
            return self._onward.route(going, client.name) if going else []
        return self.release(client)


def _first_granted(client: ClientState, batch: Sequence[Publish]) -> Publish | None:
    """Return the first publication that the client's user may publish."""
    if client.grant is None:
        return batch[0] if batch else None
    objection = client.grant.objection
    return next((each for each in batch if objection(each.publication) is None), None)
