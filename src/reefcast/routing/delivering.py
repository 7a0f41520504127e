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
  many wait.

Source: `delivery.md`, rules 1 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from random import Random

import msgspec

from reefcast.model.messages import (
    Confirmed,
    Deliver,
    Effect,
    Fetch,
    Fetched,
    Input,
    Kept,
    LinkName,
    LinkUp,
    Publish,
    Refused,
    Send,
    ServiceMessage,
    SetTimer,
    Settled,
)
from reefcast.routing.confirming import Confirming, Work, together
from reefcast.routing.consequences import Consequences
from reefcast.routing.hosting import Hosting
from reefcast.routing.on_disk import OnDisk, Rows, restore
from reefcast.routing.router import Decision, Router
from reefcast.sessions.home import Home

HOME_TIMER = "home"
MOST_SESSIONS = 100_000

Enter = Callable[[Input, LinkName, float], list[Effect]]
"""The broker's handling of an input by itself."""


class Delivering:
    """The delivery guarantees of one broker; it uses the broker's parts. `home`: its durable
    sessions, None without a disk; `rows`: what its disk held at the start; `most_sessions`: that it
    may have."""

    def __init__(
        self,
        router: Router,
        then: Consequences,
        confirming: Confirming,
        home: Home | None,
        rows: Rows,
        neighbours: Collection[LinkName],
        most_sessions: int,
        enter: Enter,
    ) -> None:
        self.confirming = confirming
        self.keeps = home is not None
        self.hosting = Hosting(home, partial(_new_link, router.rng), most_sessions, router.counters)
        self.sessions: Mapping[LinkName, object] = self.hosting.links
        self._router = router
        self._then = then
        self._home = home
        self._disk = OnDisk()
        self._enter = enter
        self._started = False
        self._timer_s: float | None = None
        if home is not None:
            then.restored = restore(router, rows, neighbours, self._disk)

    # --- publications -----------------------------------------------------------------------------

    def pass_on(self, publish: Publish, decision: Decision, link: LinkName) -> list[Effect] | None:
        """Return the effects of a publication that is to be confirmed, or may be for a session of
        this broker; None if it ends here, and nobody wanted it."""
        local, work = decision.local, None
        copies = [
            (hop, msgspec.structs.replace(publish, header=header)) for hop, header in decision.hops
        ]
        if publish.confirm:
            work, copies, anew = self.confirming.came(publish, decision.hops, link)
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
            else:
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
        self.hosting.handle(message, client, now)
        return [] if self.keeps else list(self.hosting.told_alone())

    def kept(self, kept: Kept, link: LinkName, now: float) -> list[Effect]:
        """Handle that changes are synced."""
        if self._home is not None:
            self._home.kept(kept.token, now)
        return []

    def fetched(self, fetched: Fetched, link: LinkName, now: float) -> list[Effect]:
        """Handle bodies that came from the disk."""
        if self._home is not None:
            self._home.fetched(fetched.found, fetched.missing, now)
        return []

    def due(self, now: float) -> list[Effect]:
        """Handle that the sessions' time has come."""
        self._timer_s = None
        if self._home is not None:
            self._home.due(now)
        return []

    def link_up(self, up: LinkUp, link: LinkName) -> LinkUp:
        """Handle that a link comes up without memory; return what is to be sent again by it: also
        what it has acknowledged, and not answered."""
        self.confirming.forgets(link)
        self._disk.forget(link)
        waits = self._then.holding.for_link(link)
        known = self.confirming.copy_ids((*up.kept, *waits))
        more = self.confirming.unanswered(link, known)
        return msgspec.structs.replace(up, kept=(*more, *up.kept)) if more else up

    def client_gone(self, link: LinkName, now: float) -> None:
        """Handle that a client is gone for good."""
        self.confirming.forgets(link)
        self._disk.forget(link)
        self.hosting.left(link, now)

    # --- the end of an input ----------------------------------------------------------------------

    def begin(self, now: float) -> list[Effect]:
        """Enter the sessions that were on disk, before the first input."""
        if self._started:
            return []
        self._started = True
        self.hosting.start()
        return self._wishes([], now)

    def end_input(self, item: Input | None, effects: list[Effect], now: float) -> list[Effect]:
        """Return the effects of an input with what it means for the sessions and the disk."""
        if self._home is None:
            return effects
        effects = self._wishes(effects, now)
        outcome = self._home.take(self._disk.next_token)
        answers = [send for id in outcome.taken for send in self.confirming.unblocked(id)]
        effects += self._then.finish(answers)
        ready = self._disk.kept(item.token) if isinstance(item, Kept) else []
        effects = self._disk.behind(effects, outcome.changes)
        if outcome.fetch:
            effects.append(Fetch(outcome.fetch))
        if outcome.timer_s is not None and outcome.timer_s != self._timer_s:
            effects.append(SetTimer(HOME_TIMER, outcome.timer_s))
        self._timer_s = outcome.timer_s
        sends = together(e for e in ready if isinstance(e, Send)) + self.hosting.told(outcome)
        return effects + self._then.finish(sends) + self.hosting.news(outcome)

    def _wishes(self, effects: list[Effect], now: float) -> list[Effect]:
        """Do what the sessions wish of the core, until they wish for nothing more; what it answers
        them is no effect."""
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
