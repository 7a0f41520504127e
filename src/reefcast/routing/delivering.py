"""What a broker sees to besides passing publications on: that those of whom somebody wants to hear
are confirmed, and that durable sessions whose home it is get what is theirs.

Rules
-----
- A publication for durable sessions of this broker goes to their `Home`, also if nobody asked for
  confirmation; passing clients get theirs as ever.
- An input ends with what it means for the sessions: first what they wish of the core (`Hosting`),
  then what is to be written, behind which the answers wait (`OnDisk`), then what their consumers
  get.
- A broker that has a disk gives up no neighbour: what is for one that is away waits, and its rows
  stay, however long that takes. Only publications that nobody wants confirmed are dropped when too
  many wait. The others are taken into custody (`custody`, `away`).

Source: `delivery.md`, rules 1 to 6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from random import Random

import msgspec

from reefcast.errors import LocalError
from reefcast.model.messages import (
    Confirmed,
    Deliver,
    Effect,
    Fetch,
    Fetched,
    GiveUp,
    Input,
    Kept,
    LinkKind,
    LinkName,
    LinkUp,
    ManageSession,
    PeerMessage,
    Publish,
    Refused,
    Regrant,
    Send,
    ServiceMessage,
    SetTimer,
    Settled,
)
from reefcast.routing.advising import Advising
from reefcast.routing.away import AwayNeighbours
from reefcast.routing.capabilities import MovesLinks, OpensLinks, SoftLink, capability
from reefcast.routing.confirming import Confirming, Work
from reefcast.routing.consequences import Consequences
from reefcast.routing.custody import CUSTODY, Custody, CustodyLimits
from reefcast.routing.hosting import NO_HOME, Hosting
from reefcast.routing.on_disk import OnDisk, Rows, restore
from reefcast.routing.relaying import SessionRelay
from reefcast.routing.reserve import Reserve
from reefcast.routing.router import Decision, Router
from reefcast.routing.services import Services
from reefcast.routing.standing import STANDING, STANDING_TIMER, Standing
from reefcast.routing.together import together
from reefcast.sessions.home import Home

HOME_TIMER = "home"
MOST_SESSIONS = 100_000
GIVEN_UP = "an operator dropped what was kept for broker {neighbour}"

Enter = Callable[[Input, LinkName, float], list[Effect]]
"""The broker's handling of an input by itself."""


class Delivering:
    """The delivery guarantees of one broker; it uses the broker's parts. `home`: its durable
    sessions, None without a disk; `rows`: what its disk held at the start; `neighbours`: returns
    those that the broker has now; `most_sessions`: that it may have; `limits`: of its custody;
    `patience_s`: how long it waits for clients after a restart; `reserve`: what only advisory
    events are for. `away`: its absent neighbours, if it has a disk; `relay`: sessions that have
    another home; `advising`: its advisory events, if it publishes them."""

    def __init__(
        self,
        name: str,
        router: Router,
        then: Consequences,
        confirming: Confirming,
        home: Home | None,
        rows: Rows,
        neighbours: Callable[[], Collection[LinkName]],
        most_sessions: int,
        limits: CustodyLimits,
        patience_s: float,
        enter: Enter,
        reserve: Reserve,
    ) -> None:
        self.confirming = confirming
        self.keeps = home is not None
        new_link = partial(_new_link, router.rng)
        self.hosting = Hosting(name, home, new_link, most_sessions, router.counters)
        self.relay = SessionRelay(name, self.hosting, new_link, neighbours)
        self.sessions = self.hosting.links
        self._router = router
        self._then = then
        self._home = home
        self._disk = OnDisk()
        self._enter = enter
        self._ready: list[Send] = []
        self._opens_links = capability(router, OpensLinks)
        self._started = False
        self._timer_s: float | None = None
        self._neighbours = neighbours
        self.away: AwayNeighbours | None = None
        self.standing: Standing | None = None
        self.patience_s = patience_s
        self._reserve = reserve
        self.advising: Advising | None = None
        then.parted.append(self.parted)
        if home is not None:
            then.once_kept = self._disk.once_kept
            then.restored = restore(router, rows, neighbours(), self._disk)
            if isinstance(router, MovesLinks):
                router.keep_moves(self._disk.write, rows, lambda: then.relearning.unheard)
            custody = Custody(self._disk, router.header, limits.most_bytes)
            confirming.restore(custody.stored(rows.get(CUSTODY, {})), custody)
            self.standing = Standing(router, self._disk, rows.get(STANDING, {}))
            self.away = AwayNeighbours(name, router, then, custody, limits.after_s)
            if reserve.guards:
                self.advising = Advising(name, router.rng, home.epoch_s)

    def limit(self, most_subscriptions: int, most_filter_bytes: int) -> None:
        """Take over other limits of durable sessions; those that are beyond them stay."""
        if self._home is not None:
            self._home.most_subscriptions = most_subscriptions
            self._home.most_filter_bytes = most_filter_bytes

    def serve(self, services: Services, rows: Rows) -> None:
        """Let the services of this broker keep their rows on its disk, and its sessions recall what
        these have; before the first input."""
        self.hosting.recalled = services.recalled
        if self.keeps:
            services.keep(rows, self._disk.write)

    # --- publications -----------------------------------------------------------------------------

    def pass_on(self, publish: Publish, decision: Decision, link: LinkName) -> list[Effect] | None:
        """Return the effects of a publication that is to be confirmed, or may be for a session of
        this broker; None if it ends here, and nobody wanted it."""
        if decision.waits:
            return []
        local, work = decision.local, None
        copies = [
            (hop, msgspec.structs.replace(publish, header=header)) for hop, header in decision.hops
        ]
        if publish.confirm:
            work, copies, anew = self.confirming.came(
                publish, decision.hops, link, root=decision.anew
            )
            local = local if anew else {}
        effects = self._send(copies)
        if local:
            passing = self._owe(publish, local, work)
            if passing:
                effects.append(Deliver(publish, passing))
                self._router.counters["delivered"] += len(passing)
        ends = not (effects or local or (work is not None and work.sent))
        if work is not None:
            effects += self._then.finish(self.confirming.answers(work))
            ends = ends and not effects
        return None if ends else effects

    def _send(self, copies: Iterable[tuple[LinkName, Publish]]) -> list[Effect]:
        effects: list[Effect] = []
        links, holding = self._router.links, self._then.holding
        for hop, copy in copies:
            self._router.counters["forwarded"] += 1
            if hop in holding.closed:
                effects += holding.pass_on(Send(hop, copy))
                links.waits(hop)
            elif hop in self._router.brokers or not copy.confirm:  # else it goes when that comes up
                effects.append(Send(hop, copy))
                links.goes(hop)
        return effects

    def _owe(
        self, publish: Publish, local: dict[LinkName, list[int]], work: Work | None
    ) -> dict[LinkName, list[int]]:
        """Give the sessions among `local` what is theirs; return the others."""
        passing = {link: numbers for link, numbers in local.items() if link not in self.sessions}
        if len(passing) == len(local) or self._home is None:
            return local
        verdict = self._home.owe(publish, local, self._router.links.now)
        if work is not None:
            work.refused = work.refused or verdict.refused
            if verdict.blocked:
                self.confirming.block(work)
        return passing

    def failed(self, publish: Publish | None, link: LinkName) -> list[Effect]:
        """Return the answer to whoever waits for a publication that the broker failed on."""
        if publish is None or not publish.confirm:
            return []
        id, why = publish.publication.id, "a broker failed on it; its log says how"
        return self._then.finish([Send(link, Confirmed(*id, publish.confirm, refused=why))])

    # --- inputs -----------------------------------------------------------------------------------

    def asked(self, message: ServiceMessage, client: LinkName, now: float) -> list[Effect]:
        """Handle what a client asks about sessions."""
        return self._then.act(self.relay.ask(message, client))

    def kept(self, kept: Kept, link: LinkName, now: float) -> list[Effect]:
        """Handle that changes are synced."""
        if self._home is not None:
            self._home.kept(kept.token, now)
        ready = self._disk.kept(kept.token)
        self._ready += together(e for e in ready if isinstance(e, Send) and self._may_go(e))
        return self._disk.due()

    def _may_go(self, send: Send) -> bool:
        """Return whether a message that waited for the disk may still go by its link: by one that
        is being closed only answers may."""
        link, router = send.link, self._router
        closing = self._opens_links.soft_links.get(link) is SoftLink.CLOSING
        return not (
            closing and link not in router.brokers and isinstance(send.message, PeerMessage)
        )

    def soft_gone(self, link: LinkName) -> None:
        """Handle that a soft link has ended: drop the answers that wait for the disk, so that no
        later link of that name gets them."""
        self._disk.forget(link)

    def fetched(self, fetched: Fetched, link: LinkName, now: float) -> list[Effect]:
        """Handle bodies that came from the disk."""
        if self._home is not None:
            self._home.fetched(fetched.found, fetched.missing, now)
        return []

    def due(self, key: str, now: float) -> list[Effect]:
        """Handle that the sessions' time has come, or that of clients that have not come back."""
        if key == STANDING_TIMER:
            return [] if self.standing is None else self._then.act(self.standing.overdue())
        self._timer_s = None
        if self._home is not None:
            self._home.due(now)
        return []

    def regranted(self, item: Regrant, link: LinkName, now: float) -> list[Effect]:
        """Handle that what a client, or the owner of a session, may do has changed."""
        self.hosting.regranted(link, item.subject, now)
        return self._then.act(self.relay.regranted(link))

    def link_up(self, up: LinkUp, link: LinkName) -> LinkUp:
        """Handle that a link comes up without memory; return what is to be sent again by it: also
        what it has acknowledged, and not answered."""
        if up.kind is LinkKind.CLIENT and link not in self.sessions:
            self.hosting.users.is_now(link, up.subject)
        self.confirming.forgets(link)
        self._disk.forget(link)
        waits = self._then.holding.for_link(link)
        if isinstance(self._router, MovesLinks) and self._router.floods_anew:
            plain = tuple(each for each in up.kept if not each.confirm)
            return msgspec.structs.replace(up, kept=plain)
        again = self.confirming.sent_again(link, up.kept, waits)
        return up if again == up.kept else msgspec.structs.replace(up, kept=again)

    def begin_anew(self, link: LinkName, *, without: bool = False) -> list[Effect]:
        """Flood anew what a neighbour has not answered, if the routing needs that: the neighbour
        has come up without memory, and may lead to other brokers now, or (`without`) it is a
        neighbour no longer."""
        router = self._router
        if not (isinstance(router, MovesLinks) and router.floods_anew):
            return []
        self._then.holding.drop_confirmed(link)
        hops = [each for each in router.begins() if not (without and each[0] == link)]
        copies, answers = self.confirming.begin_anew(link, hops)
        return self._send(copies) + self._then.finish(answers)

    def parted(self, link: LinkName) -> list[Effect]:
        """Handle that a neighbour leaves the overlay."""
        self.confirming.forgets(link)
        return self.begin_anew(link, without=True)

    def give_up(self, wish: GiveUp, link: LinkName, now: float) -> list[Effect]:
        """Route again by the rows, or drop, what is owed to a neighbour that never comes back.
        Raises `LocalError` if it is here, or is not known."""
        name, away = wish.neighbour, self.away
        owed = self.confirming.owed_to(name)
        if away is None or (name not in self._neighbours() and not owed):
            raise LocalError(
                f"this broker keeps nothing for {name!r}: it is no neighbour, or there "
                "is no [sessions] directory"
            )
        if name in self._router.brokers and name not in away.since:
            raise LocalError(f"{name!r} is connected; it gets what is kept for it")
        self._then.holding.drop_confirmed(name)
        counted = "custody_rerouted" if wish.reroute else "custody_dropped"
        self._router.counters[counted] += len(owed)
        effects = self.begin_anew(name, without=True) if wish.reroute else []
        owed = self.confirming.owed_to(name)
        for copy in owed:
            effects += (
                self._move(copy, name)
                if wish.reroute
                else self._then.finish(
                    self.confirming.give_up(copy, name, GIVEN_UP.format(neighbour=name))
                )
            )
        return effects

    def taken_out(self, link: LinkName) -> list[Effect]:
        """Owe a neighbour nothing any more that was taken out of the network: nobody there wants
        anything."""
        self._then.holding.given_up(link)
        effects: list[Effect] = []
        for copy in self.confirming.owed_to(link):
            effects += self._then.finish(self.confirming.give_up(copy, link))
        return effects

    def _move(self, copy: Publish, link: LinkName) -> list[Effect]:
        """Route a publication again as if it came from the neighbour that it was for."""
        found = self._router.match([copy], link)
        (decision,) = self._router.route([copy], found, link)
        if self._reserve.guards:
            decision = self._reserve.within(decision, copy.publication)
        hops = [(hop, header) for hop, header in decision.hops if hop != link]
        again = msgspec.structs.replace(copy, again=True)
        work, copies = self.confirming.move(again, link, hops)
        effects = self._send(copies)
        passing = self._owe(again, decision.local, work) if decision.local else {}
        if passing:
            effects.append(Deliver(again, passing))
            self._router.counters["delivered"] += len(passing)
        return effects + self._then.finish(self.confirming.give_up(copy, link))

    def manage(self, wish: ManageSession, link: LinkName, now: float) -> list[Effect]:
        """Do what an operator wishes with a durable session. Raises `LocalError` if there is no
        such session here."""
        home, name = self._home, (wish.owner, wish.session)
        if home is None:
            raise LocalError(NO_HOME)
        if wish.what == "close":
            self.hosting.session_ended(home.close(*name, now), "an operator closed the session")
        elif wish.what == "drain":
            home.drain(*name, now)
        elif wish.what == "move_dead_letters":
            home.move_dead_letters(*name, now)
        else:
            home.drop_dead_letters(*name, now)
        return []

    def client_gone(self, link: LinkName, now: float) -> None:
        """Handle that a client is gone for good."""
        self.confirming.forgets(link)
        self._disk.forget(link)
        if self.standing is not None:
            self.standing.left(link)
        self.hosting.left(link, now)
        self.hosting.users.left(link)

    def advised(self, now: float) -> tuple[Sequence[Publish], LinkName]:
        """Return the advisory events to publish now, and the link of their publisher. Raises
        `LocalError` if this broker publishes none."""
        if self.advising is None:
            raise LocalError("this broker publishes no advisory events")
        return self.advising.due(now), self.advising.link

    # --- what can be seen -------------------------------------------------------------------------

    @property
    def home(self) -> Home | None:
        """Its durable sessions."""
        return self._home

    @property
    def set_aside(self) -> Sequence[str]:
        """What of the custody on disk could not be read at the start, in words."""
        custody = self.confirming.custody
        return () if custody is None else custody.set_aside

    def in_memory(self, publications: Iterable[Publish]) -> Iterator[Publish]:
        """Yield those of the publications that are in no custody of this broker."""
        custody = self.confirming.custody
        ids = set() if custody is None else custody.ids()
        return (each for each in publications if each.publication.id not in ids)

    def status(self, now: float) -> dict[str, dict[str, float | None]]:
        """Return what is owed to each neighbour that is owed something, or is away (of a broker
        with a disk). `away_s`: for how long it has been away, None if it is not; `waiting`:
        confirmed publications that it has not answered; `held`: all publications that wait here
        for it; `in_custody`, `custody_bytes`: what of that is on this broker's disk; `full`: there
        is no room for more; `unsettled`: messages that it has not answered, such as
        advertisements; `deputies`: advertisements that went on without it."""
        settlement, holding = self._then.settlement, self._then.holding
        waiting, away = self.confirming.waits_for(), self.away
        unsettled = settlement.waits_for()
        since = {} if away is None else away.since
        found: dict[str, dict[str, float | None]] = {}
        for link in sorted({*waiting, *unsettled, *since, *holding.closed}):
            row: dict[str, float | None] = {
                "away_s": round(now - since[link], 3) if link in since else None,
                "waiting": waiting.get(link, 0),
                "held": holding.queue_len(link),
                "unsettled": unsettled.get(link, 0),
            }
            found[link] = row | ({} if away is None else away.status(link))
        return found

    # --- the end of an input ----------------------------------------------------------------------

    def begin(self, now: float) -> list[Effect]:
        """Enter the sessions that were on disk, before the first input."""
        if self._started:
            return []
        self._started = True
        self.hosting.start()
        effects = [] if self.away is None else self.away.begin(self._neighbours(), now)
        if self.standing:
            effects.append(SetTimer(STANDING_TIMER, now + self.patience_s))
        if self.advising is not None:
            for item in self.advising.begin():
                effects += self._enter(item, self.advising.link, now)
        return self._wishes(effects, now)

    def end_input(self, item: Input | None, effects: list[Effect], now: float) -> list[Effect]:
        """Return the effects of an input, with those that follow for the sessions and the disk."""
        if self._home is None:
            return effects
        effects = self._wishes(effects, now)
        if self.away is not None:
            effects += self.away.meet()
        outcome = self._home.take(self._disk.next_token)
        answers = [send for id in outcome.taken for send in self.confirming.unblocked(id)]
        effects += self._then.finish(answers)
        ready, self._ready = self._ready, []
        effects = self._disk.behind(effects, outcome.changes)
        if outcome.fetch:
            effects.append(Fetch(outcome.fetch))
        if outcome.timer_s is not None and outcome.timer_s != self._timer_s:
            effects.append(SetTimer(HOME_TIMER, outcome.timer_s))
        self._timer_s = outcome.timer_s
        if self.advising is not None:
            effects += self.advising.told(outcome.advisories, now)
        if ready:
            effects = self._then.finish(ready) + effects
        told = self.relay.outward(self.hosting.told(outcome))
        return effects + self._then.finish(told) + self.hosting.news(outcome)

    def _wishes(self, effects: list[Effect], now: float) -> list[Effect]:
        """Handle the inputs that the sessions ask for, until there are no more. Return the effects
        without the core's answers, which go to the sessions."""
        rest = self._without_answers(effects, now)
        while wishes := self.hosting.wishes():
            for item, link in wishes:
                rest += self._without_answers(self._enter(item, link, now), now)
        return rest

    def _without_answers(self, effects: Iterable[Effect], now: float) -> list[Effect]:
        rest: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and effect.link in self.sessions:
                if isinstance(effect.message, Settled | Refused):
                    self.hosting.answered(effect.link, effect.message, now)
            else:
                rest.append(effect)
        return rest


def _new_link(rng: Random) -> str:
    return rng.randbytes(12).hex()
