"""Passing publications on: the router's decisions become effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from reefcast.errors import InternalError
from reefcast.model.messages import Confirmed, Deliver, Discard, Effect, LinkName, Publish, Send
from reefcast.routing.capabilities import ActsLater, capability
from reefcast.routing.consequences import Consequences
from reefcast.routing.delivering import Delivering
from reefcast.routing.failures import Failures
from reefcast.routing.reserve import Reserve
from reefcast.routing.router import Decision, Router
from reefcast.routing.together import together


class Forwarding:
    """Routes the publications of one broker; it uses the broker's parts. `routed`: the publications
    that were routed since the broker emptied it, each with its decision. `forget` is called before
    the router acts later: it may change its tables then."""

    def __init__(
        self,
        router: Router,
        then: Consequences,
        delivering: Delivering,
        failures: Failures,
        reserve: Reserve,
        forget: Callable[[], None],
    ) -> None:
        self.routed: list[tuple[Publish, Decision]] = []
        self._router = router
        self._then = then
        self._delivering = delivering
        self._failures = failures
        self._reserve = reserve
        self._forget = forget
        self._counters = router.counters
        self._acts_later = capability(router, ActsLater)

    def route(self, batch: Sequence[Publish], link: LinkName, *, hosted: bool) -> list[Effect]:
        """Return the effects of publications that came by `link`, in this order, and last what
        confirms them; `hosted`: from a client of this broker."""
        effects: list[Effect] = []
        delivered = forwarded = 0
        routed, router = self.routed, self._router
        reserve = self._reserve
        guards, naming = reserve.guards, reserve.naming
        goes, holding, sessions = router.links.goes, self._then.holding, self._delivering.sessions
        try:
            rest, found = batch, router.match(batch, link)
        except Exception:
            rest, found = self._failures.matched(router.match, batch, link)
        while rest:  # again only behind one that something fails on
            first = len(routed)
            try:
                # zip's own `strict` takes twice as long.
                for publish, made in zip_longest(rest, router.route(rest, found, link)):
                    if publish is None or made is None:
                        raise InternalError(
                            f"routing {router.name!r} must yield one decision for each publication"
                        )
                    decision = made
                    if guards and made.local and (naming or publish.publication.topics):
                        decision = reserve.within(made, publish.publication)
                    local, hops = decision.local, decision.hops
                    if publish.confirm or sessions:
                        effects += self._with_care(publish, decision, link, hosted)
                        routed.append((publish, decision))
                        continue
                    for hop, header in hops:
                        copy = Publish(publish.publication, header, publish.body, publish.again)
                        if hop in holding.closed:
                            effects += holding.pass_on(Send(hop, copy))
                            router.links.waits(hop)
                        else:
                            effects.append(Send(hop, copy))
                            goes(hop)
                    if local:
                        effects.append(Deliver(publish, local))
                        delivered += len(local)
                    elif not hops:
                        effects += self._ends_here(publish, decision, hosted)
                    forwarded += len(hops)
                    routed.append((publish, decision))
                break
            except Exception as error:
                done = len(routed) - first
                failed = rest[done] if done < len(rest) else None
                self._failures.on(failed, error)
                effects += self._delivering.failed(failed, link)
                rest, found = rest[done + 1 :], found[done + 1 :]
        self._counters["delivered"] += delivered
        self._counters["forwarded"] += forwarded
        return self._finished(effects, batch)

    def _finished(self, effects: list[Effect], batch: Sequence[Publish]) -> list[Effect]:
        if any(publish.confirm for publish in batch):
            effects = _answers_last(effects)
        return effects + self._afterwards() if self._acts_later.unfinished else effects

    def _afterwards(self) -> list[Effect]:
        self._forget()
        try:
            return self._then.act(self._acts_later.afterwards())
        except Exception as error:
            self._failures.on(None, error)
            return []

    def _with_care(
        self, publish: Publish, decision: Decision, link: LinkName, hosted: bool
    ) -> list[Effect]:
        """Route one that is to be confirmed, or may be for a durable session of this broker."""
        effects = self._delivering.pass_on(publish, decision, link)
        return self._ends_here(publish, decision, hosted) if effects is None else effects

    def _ends_here(self, publish: Publish, decision: Decision, hosted: bool) -> list[Effect]:
        """Count a publication that goes nowhere from here: a duplicate, one that a client of this
        broker published and nobody wants, or a false positive."""
        if decision.duplicate:
            self._counters["duplicate"] += 1
            return [Discard(publish, "duplicate")]
        if hosted:
            self._counters["unwanted"] += 1
            return [Discard(publish, "unwanted")]
        self._counters["false_positive"] += 1
        return []


def _answers_last(effects: Iterable[Effect]) -> list[Effect]:
    """Return effects with what confirms publications behind the others, in few messages."""
    answers: list[Send] = []
    others: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, Confirmed):
            answers.append(effect)
        else:
            others.append(effect)
    return [*others, *together(answers)]
