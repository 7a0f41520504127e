"""The broker core: a state machine that takes inputs and returns effects.

Rules
-----
- `handle(item, link, now)` takes a message, a link that came up or went down, or a timer; it
  returns the effects in their order, without I/O or clock. Simulator and live server drive it.
- A publication that fails costs only itself: `PartlyFailed` tells of it (`failures`).
- Clients' publications go through the `gate`: they must lie within the client's advertisements, and
  wait until these have settled.
- Every control message is answered (`settlement`): by Settled when everything that it caused is
  done, or by Refused with a sentence.
- A neighbour without memory of this broker is told all that it must know (`neighbour_links`).
- Publications for a neighbour that is about to stop, or that relearns, wait (see `holding`). Those
  of a broker's own clients wait while it relearns itself.

Tables: `clients` (advertisements, what is held), `settlement`, the router's (SRT, PRT, ...)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from reefcast.errors import FilterSyntaxError, LocalError, ProtocolError
from reefcast.matching import new_index as compiled_index
from reefcast.model.filters import parse_filter
from reefcast.model.grants import NO_GRANTS, Grants
from reefcast.model.messages import (
    Advertise,
    Away,
    Back,
    Confirmed,
    Demote,
    Effect,
    Fetched,
    GiveUp,
    Input,
    Kept,
    Leave,
    Leaving,
    LinkDown,
    LinkKind,
    LinkName,
    LinkUp,
    ManageSession,
    MoveLink,
    Neighbours,
    PeerMessage,
    Promote,
    Publish,
    Refused,
    Regrant,
    Relearned,
    Send,
    ServiceMessage,
    SetTimer,
    Settled,
    Subscribe,
    Synced,
    TableChange,
    TakenOut,
    Timer,
    Unadvertise,
    Unsubscribe,
)
from reefcast.overlay.scot import Neighbours as ScotNeighbours
from reefcast.routing.advising import ADVISORY_TIMER
from reefcast.routing.capabilities import KeepsRows, OpensLinks, capability, moves_links
from reefcast.routing.clients import ClientState
from reefcast.routing.confirming import Confirming
from reefcast.routing.consequences import Consequences
from reefcast.routing.counts import Counts
from reefcast.routing.covering.statistics import MemoryStatistics, Statistics
from reefcast.routing.custody import LIMITS, CustodyLimits
from reefcast.routing.delivering import HOME_TIMER, MOST_SESSIONS, Delivering
from reefcast.routing.failures import Failures
from reefcast.routing.forwarding import Forwarding
from reefcast.routing.gate import HOLD_TIMER, Gate, Onward
from reefcast.routing.granting import Granting
from reefcast.routing.holding import HELD
from reefcast.routing.links import LinkQueues, Links, Overload
from reefcast.routing.neighbour_links import PATIENCE_S, NeighbourLinks
from reefcast.routing.observed import Observed
from reefcast.routing.on_disk import Rows
from reefcast.routing.ordering import TIMER as ORDER_TIMER
from reefcast.routing.ordering import Ordering
from reefcast.routing.plain import PlainWay
from reefcast.routing.registry import routing_named
from reefcast.routing.reserve import Reserve
from reefcast.routing.router import Decision, RoutingOptions, Surroundings
from reefcast.routing.services import Service, Services, serve
from reefcast.routing.standing import STANDING_TIMER
from reefcast.routing.tables import IndexFactory
from reefcast.sessions.home import Home
from reefcast.sessions.messages import FROM_CLIENTS
from reefcast.words import counted

ROUND_TIMER = "round"
NO_ROWS: Rows = {}
_CHANGES = (Advertise, Unadvertise, Subscribe, Unsubscribe)
Handler = Callable[[Any, LinkName, float], list[Effect]]
OF_THE_DRIVER = (
    *(LinkUp, LinkDown, Timer, MoveLink, GiveUp, ManageSession, Leave, Kept, Fetched),
    *(Regrant, Neighbours, TakenOut),
)
"""Inputs that come by no link that must be up."""


class Broker(Observed):
    """One broker. `neighbours`: the brokers to which it has links, up or not, and from which it
    should hear when it relearns. `most_held`: publications that wait here for one of them;
    `patience_s`: how long after the start settling waits for neighbours that were not up. `home`,
    `rows`, `most_sessions`, `custody`: see `Delivering`; `advisories`: see `Reserve`; `grants`:
    what users may do."""

    def __init__(
        self,
        name: str,
        routing: str,
        *,
        neighbours: Iterable[LinkName] = (),
        rng: random.Random | None = None,
        new_index: IndexFactory = compiled_index,
        queues: LinkQueues | None = None,
        overload: Overload | None = None,
        scot: ScotNeighbours | None = None,
        options: RoutingOptions | None = None,
        statistics: Statistics | None = None,
        services: Sequence[Service] = (),
        most_held: int = HELD,
        patience_s: float = PATIENCE_S,
        home: Home | None = None,
        rows: Rows = NO_ROWS,
        most_sessions: int = MOST_SESSIONS,
        custody: CustodyLimits = LIMITS,
        advisories: bool = False,
        grants: Grants = NO_GRANTS,
    ) -> None:
        self.name, self.links = name, Links(queues, overload)
        self._neighbours, self._scot = tuple(neighbours), scot
        self.counters: Counts[str] = Counts()
        kind = routing_named(routing)
        self.router = kind(
            Surroundings(
                name,
                new_index,
                rng or random.Random(name),
                self.links,
                self.counters,
                scot,
                options or kind.options(),
                MemoryStatistics() if statistics is None else statistics,
            )
        )
        self.clients: dict[LinkName, ClientState] = {}
        self.last_routed: list[tuple[Publish, Decision]] = []
        self._failures, self._in_rounds = Failures(), False
        self._ordering, self.reserve = Ordering(self._failures), Reserve(guards=advisories)
        self._opens_links = capability(self.router, OpensLinks)
        self._then = self._new_consequences(most_held)
        self.links.held = self._then.holding.queue_len
        self.delivering = Delivering(
            *(name, self.router, self._then, self._then.confirming, home, rows),
            *(lambda: self._neighbours, most_sessions, custody, patience_s),
            *(self._enter, self.reserve),
        )
        self.plain_way = PlainWay(
            self.router, self.clients, self._ordering, self._then.holding, self.reserve
        )
        parts = (self.router, self._then, self.delivering, self._failures, self.reserve)
        self._forwarding = Forwarding(*parts, self.plain_way.forget)
        self._services = Services((*services, self.delivering.relay))
        shared = (self.clients, self._ordering, self._services)
        self.granting = Granting(self.router, self._then, *shared, grants)
        users = self.delivering.hosting.users
        users.grant_of, users.advises = self.granting.of, advisories
        self._gate = self._new_gate()
        self.neighbours = NeighbourLinks(
            name, self.router, self._then, patience_s, away=self.delivering.away
        )
        self._handlers = self._own_handlers() | dict.fromkeys(FROM_CLIENTS, self._asked)
        self.delivering.serve(self._services, rows)
        for service in self._services:
            self._handlers.update(dict.fromkeys(service.messages, partial(self._served, service)))

    def _own_handlers(self) -> dict[type, Handler]:
        return {
            Publish: lambda one, link, now: self._handle_publications((one,), link, now),
            **dict.fromkeys(_CHANGES, self._table_change),
            **dict.fromkeys((Settled, Refused), self._answer),
            Confirmed: self._confirmed,
            Kept: self.delivering.kept,
            Fetched: self.delivering.fetched,
            Synced: self._synced,
            Relearned: self._neighbour_relearned,
            Leaving: self._neighbour_leaves,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Away: self._away,
            Back: self._back,
            Timer: self._timer,
            MoveLink: self._move,
            GiveUp: self.delivering.give_up,
            ManageSession: self.delivering.manage,
            Regrant: self._regrant,
            Leave: self.neighbours.leave,
            Neighbours: self._neighbours_are,
            TakenOut: self.neighbours.ends_for_good,
        }

    def _new_consequences(self, most_held: int) -> Consequences:
        router, about_links = self.router, (self._is_up, self._neighbour_changed)
        confirming = Confirming(router.one_way, router.rng, floods=router.floods)
        ways = (*about_links, self._routed)
        return Consequences(router, self._neighbours, *ways, confirming, most_held)

    def _routed(self, batch: Sequence[Publish], link: LinkName) -> list[Effect]:
        return self._forwarding.route(batch, link, hosted=False)

    def _new_gate(self) -> Gate:
        route = partial(self._forwarding.route, hosted=True)
        onward = Onward(route, self.delivering.failed, self._client_left)
        parts = (self.name, self.router, self._then, self.counters, self._failures)
        return Gate(*parts, onward, self.reserve, self.granting, self.delivering.standing)

    def limit(
        self, most_held: int, patience_s: float, most_subscriptions: int, most_filter_bytes: int
    ) -> None:
        """Take over other limits: publications that wait for a neighbour, seconds that are waited
        for neighbours after a start, subscriptions of a durable session and their bytes."""
        self._then.holding.limit = most_held
        self.neighbours.patience_s = self.delivering.patience_s = patience_s
        self.delivering.limit(most_subscriptions, most_filter_bytes)

    # --- entry ------------------------------------------------------------------------------------

    def handle(self, item: Input, link: LinkName, now: float) -> list[Effect]:
        """Handle an input that came by `link` ("" for timers) at `now` (seconds, any fixed origin).

        Raises `LocalError` if the driver breaks the rules (a message on a link that is not up), and
        `ProtocolError`, changing nothing, if the other end sent what it must not. Publications that
        were held, and go now: see `handle_publications`.
        """
        if not isinstance(item, OF_THE_DRIVER):
            self._require_up(link)
        self.last_routed = self._forwarding.routed = []
        self.plain_way.forget()
        self.links.pass_time(now)
        self._services.pass_time(now)
        if isinstance(item, Timer) and item.key.startswith(ORDER_TIMER):
            return self._ordering.due(item.key.removeprefix(ORDER_TIMER), now)
        effects = self.delivering.begin(now) + self._enter(item, link, now)
        effects = self._ordering.arranged(self.delivering.end_input(item, effects, now), now)
        return self._failures.told(self.name, effects)

    def _enter(self, item: Input, link: LinkName, now: float) -> list[Effect]:
        return self._handlers.get(type(item), self._peer_message)(item, link, now)

    def handle_publications(
        self, batch: Sequence[Publish], link: LinkName, now: float
    ) -> list[Effect]:
        """Handle publications that came by `link` in this order; they are matched in one call.

        After any input, `last_routed` holds each publication that was routed, in this order, with
        its decision. Raises `PartlyFailed` if it failed on some: the others are done.
        """
        effects = self._handle_publications(batch, link, now)
        if self.delivering.keeps:
            effects = self.delivering.end_input(None, effects, now)
        effects = self._ordering.arranged(effects, now)
        return self._failures.told(self.name, effects) if self._failures else effects

    def _handle_publications(
        self, batch: Sequence[Publish], link: LinkName, now: float
    ) -> list[Effect]:
        self.last_routed = self._forwarding.routed = []
        self.links.pass_time(now)
        client = self.clients.get(link)
        if client is None:
            if link not in self.router.brokers:
                self._require_up(link)
            self.links.came(link, len(batch))
            return self._routed(batch, link)
        return self._gate.publish(client, batch, now)

    def _require_up(self, link: LinkName) -> None:
        if not self._is_up(link):
            raise LocalError(f"broker {self.name}: input from {link!r}, but that link is not up")

    def _is_up(self, link: LinkName) -> bool:
        return link in self.clients or link in self.router.brokers or link in self.soft_links

    # --- control messages -------------------------------------------------------------------------

    def _table_change(self, message: TableChange, link: LinkName, now: float) -> list[Effect]:
        try:
            filter = (
                parse_filter(message.filter)
                if isinstance(message, (Advertise, Subscribe))
                else None
            )
        except FilterSyntaxError as error:
            return self._refuse(message.token, link, str(error))
        client = self.clients.get(link)
        if client is not None:
            objection = self._gate.objection(client, message, filter)
            if objection is not None:
                return self._refuse(message.token, link, objection)
            self._ordering.changed(message, link)
            if isinstance(message, Advertise) and filter is not None:
                return self._gate.advertise(client, message, filter, now)
            if isinstance(message, Unadvertise):
                return self._gate.unadvertise(client, message)
            message, filter = self.granting.row_of(client, message, filter)
        sends = self.router.change(message, filter, link, local=client is not None)
        work = self._then.begin_work(link, message)
        if isinstance(message, Subscribe):
            self._then.wait_for_stand_ins(work, message.id)
        return self._then.send(work, sends)

    def _peer_message(self, message: PeerMessage, link: LinkName, now: float) -> list[Effect]:
        if link in self.clients:
            raise ProtocolError(f"client {link!r} sent {type(message).__name__}; only brokers do")
        try:
            sends = self.router.peer(message, link)
        except FilterSyntaxError as error:
            return self._refuse(message.token, link, str(error))
        work = self._then.begin_work(link, message)
        for id in message.says:
            self._then.wait_for_stand_ins(work, id)
        return self._then.send(work, sends)

    def _served(
        self, service: Service, message: ServiceMessage, link: LinkName, now: float
    ) -> list[Effect]:
        return self._then.act(serve(service, message, link, self.clients.get(link)))

    def _refuse(self, token: int, link: LinkName, reason: str) -> list[Effect]:
        self.counters["refused"] += 1
        return [Send(link, Refused(token, reason))]

    def _answer(self, answer: Settled | Refused, link: LinkName, now: float) -> list[Effect]:
        if link in self.clients:
            raise ProtocolError(f"client {link!r} answered a control message; only brokers do")
        reason = answer.reason if isinstance(answer, Refused) else ""
        return self._then.finish(self._then.settlement.answered(link, answer.token, reason))

    def _confirmed(self, answer: Confirmed, link: LinkName, now: float) -> list[Effect]:
        if link in self.clients:
            raise ProtocolError(f"client {link!r} confirmed a publication; only brokers do")
        return self._then.finish(self._then.confirming.all_answered(answer, link))

    def _asked(self, message: ServiceMessage, link: LinkName, now: float) -> list[Effect]:
        if link not in self.clients:
            raise ProtocolError(f"{link!r} sent {type(message).__name__}; only clients do")
        return self.delivering.asked(message, link, now)

    def _regrant(self, item: Regrant, link: LinkName, now: float) -> list[Effect]:
        effects = self.delivering.regranted(item, link, now)
        client = self.clients.get(link)  # none if it is behind a circuit
        return effects + ([] if client is None else self.granting.change(client, item.subject))

    def _neighbour_changed(self, change: Promote | Demote) -> list[Effect]:
        """Tell the services of a neighbour whose link was promoted or demoted."""
        self._neighbours = tuple(link for link in self._neighbours if link != change.link)
        if isinstance(change, Demote):
            return self._then.act(self._services.link_down(change.link, client=False))
        self._neighbours += (change.link,)
        return self._then.act(self._services.link_up(change.link, client=False))

    def _neighbours_are(self, item: Neighbours, link: LinkName, now: float) -> list[Effect]:
        gone = [each for each in self._neighbours if each not in item.links]
        self._neighbours = item.links
        effects: list[Effect] = []
        for each in gone:
            effects += self.delivering.taken_out(each)
            if each in self.router.brokers:
                effects += self.neighbours.lose(each)
            effects += self._then.act(self._services.link_down(each, client=False))
            effects += self.neighbours.parted(each)
        return effects + self.neighbours.taken_out(item.gone)

    def objection_to_leaving(self, link: LinkName) -> str:
        """Return why this neighbour must not be taken out of the network now; "" if it may. It must
        have no rows here, neither its own nor of brokers behind it."""
        rows = len(self.router.prt.from_hop(link))
        for table in capability(self.router, KeepsRows).row_tables().values():
            rows += 0 if table is self.router.prt else len(table.from_hop(link))
        if not rows:
            return ""
        what = counted(rows, "subscription or advertisement", "subscriptions or advertisements")
        return (
            f"{link} still has {what}, its own or those of brokers behind it: drain it (reefcast "
            "network drain), and take out leaves first"
        )

    # --- links and timers -------------------------------------------------------------------------

    def _link_up(self, up: LinkUp, link: LinkName, now: float) -> list[Effect]:
        effects = self.neighbours.begin(now)
        if self._opens_links.round_s and not self._in_rounds:
            self._in_rounds = True
            effects.append(self._next_round(now))
        if up.kind is LinkKind.CLIENT:
            self.delivering.link_up(up, link)
            return effects + self._client_up(link, up)
        if up.kind is LinkKind.SOFT:
            effects += self._then.act(self._opens_links.soft_up(link))
            return effects + self._then.unopened.came_up(link)
        self._neighbours = (*dict.fromkeys((*self._neighbours, link)),)  # one may be moved here
        effects += self.neighbours.up(self.delivering.link_up(up, link), link)
        effects += self._then.act(self._services.link_up(link, client=False))
        return effects + self.delivering.begin_anew(link) + self.neighbours.greet(link)

    def _neighbour_relearned(self, _: Relearned, link: LinkName, now: float) -> list[Effect]:
        if link in self.clients:
            raise ProtocolError(f"client {link!r} said Relearned; only brokers do")
        return self.neighbours.relearned(link, now)

    def _neighbour_leaves(self, message: Leaving, link: LinkName, now: float) -> list[Effect]:
        if link not in self.router.brokers:
            raise ProtocolError(f"{link!r} said Leaving, but is no neighbour in the overlay")
        return self.neighbours.leaves(link, message.token)

    def _move(self, move: MoveLink, link: LinkName, now: float) -> list[Effect]:
        return self._then.act(moves_links(self.router).move(move.old, move.new))

    def _client_up(self, link: LinkName, up: LinkUp) -> list[Effect]:
        old = self.clients.get(link)
        if old is not None and not old.leaving:
            raise LocalError(f"broker {self.name}: client {link!r} is connected already")
        client = ClientState(link)
        effects = self._gate.release_for(old, client) if old is not None else []
        self.clients[link] = client
        effects += self._then.act(self._services.link_up(link, client=True))
        return effects + self._then.act(self.granting.came(client, up.subject, up.inbox))

    def _client_left(self, client: ClientState) -> list[Effect]:
        client.holding, client.superseded = False, None
        del self.clients[client.name]
        self._ordering.left(client.name)
        self.reserve.left(client.name)
        self.granting.left(client.name)
        effects = self._then.act(self.router.link_down(client.name))
        return effects + self._then.act(self._services.link_down(client.name, client=True))

    def _synced(self, _: Synced, link: LinkName, now: float) -> list[Effect]:
        if link in self.clients:
            raise ProtocolError(f"client {link!r} said Synced; only brokers do")
        return self.neighbours.synced(link)

    def _link_down(self, down: LinkDown, link: LinkName, now: float) -> list[Effect]:
        then = self._then
        if link in self.soft_links or down.lost:
            self.delivering.soft_gone(link)
            lost = (*down.lost, *then.holding.given_up(link))
            effects = then.act(self._opens_links.soft_down(link, lost)) + then.unopened.went(link)
            effects += then.finish(then.settlement.forget(link, then.unopened.tokens(link)))
            return effects + then.act(self._services.link_down(link, client=False))
        self._require_up(link)
        client = self.clients.get(link)
        if client is not None:
            self.delivering.client_gone(link, now)
            client.leaving = True  # its publications that are held go first
            return [] if client.held else self._client_left(client)
        if self.delivering.keeps:
            self.neighbours.stays_away(link)
            return then.act(self._services.link_down(link, client=False))
        effects = self.neighbours.lose(link)
        effects += then.act(self._services.link_down(link, client=False))
        return effects + self.neighbours.lost(link)

    def _away(self, _: Away, link: LinkName, now: float) -> list[Effect]:
        if link not in self.clients:
            effects = self.neighbours.went_away(link, now)
            return effects + self._then.act(self._services.neighbour_away(link))
        self.delivering.hosting.left(link, now)
        return self._then.act(self._services.away(link))

    def _back(self, back: Back, link: LinkName, now: float) -> list[Effect]:
        self._services.neighbour_back(link)
        return self.neighbours.is_back(back, link, now)

    def _timer(self, timer: Timer, link: LinkName, now: float) -> list[Effect]:
        effects = self.neighbours.due(timer.key, now)
        if effects is not None:
            return effects
        if timer.key in (HOME_TIMER, STANDING_TIMER):
            return self.delivering.due(timer.key, now)
        if timer.key == ADVISORY_TIMER:
            return self._handle_publications(*self.delivering.advised(now), now)
        if timer.key == ROUND_TIMER:
            return [self._next_round(now), *self._then.act(self._opens_links.round())]
        client = self.clients.get(timer.key.removeprefix(HOLD_TIMER))
        return [] if client is None else self._gate.patience_is_over(client, now)

    def _next_round(self, now: float) -> SetTimer:
        return SetTimer(ROUND_TIMER, now + self._opens_links.round_s, background=True)
