"""Checkers: what must be true of a run, judged from outside the brokers.

The truth comes from the scripts and from `Filter.matches`, the slow obvious way: no index, no
table, no routing. One function per invariant; each returns sentences, one for each violation.

What the checkers demand
- At most once, always.
- Exactly once for *settled pairs*: the subscription had settled when the event was published, and
  was not withdrawn before the network was quiet again; the publication was not refused, and lies in
  an advertisement of its publisher that settled within the time for which the publisher's broker
  holds publications for it.
- A publication that a fault touched need not arrive (`Result.damaged`). Nor need one from around a
  crash after which neighbours gave up the broker: they withdrew the rows that came from there.
- Order per publisher and subscription, where the routing declares it (`keeps_order`); and a routing
  that promises only its best effort (`best_effort`) may lose publications.
- Quiet at the end, unless the routing never is (`restless`): then the end must be late enough for
  all to have settled.
- Tables that say what the scripts say, once quiet and with all brokers up (`table_truth`; of a
  routing that is not known there the other invariants are judged)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from reefcast.errors import InternalError
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import Publication
from reefcast.routing.gate import HOLD_S
from reefcast.routing.registry import routing_named
from reefcast.simulation.clients import Claim
from reefcast.simulation.faults import Crash
from reefcast.simulation.recording import Deliveries
from reefcast.simulation.simulation import Published, Result, Simulation
from reefcast.simulation.table_truth import Live, Scene, table_faults

Pair = tuple[str, int, str, int]
"""Publisher, seq, client, number of the subscription."""

PAIR_BUDGET = 2_000_000
"""Publications times different filters for which the truth is computed; with more, every n-th
publication stands for the others."""


class CheckFailedError(InternalError):
    """A run broke an invariant; the text lists the violations."""


class Evidence:
    """A finished run, in the form that checkers ask for."""

    def __init__(self, simulation: Simulation) -> None:
        self.setup = simulation.setup
        self.routing = routing_named(self.setup.routing)
        self.result: Result = simulation.result()
        self.quiet_at = simulation.quiet_at
        self.nodes = simulation.world.nodes
        self.clients = simulation.world.clients
        self.deliveries: Deliveries = simulation.deliveries()
        texts = {claim.filter for claim in self.result.claims if claim.subscription}
        self.stride = -(-len(self.result.published) * len(texts) // PAIR_BUDGET) or 1

    @cached_property
    def delivered(self) -> list[Pair]:
        rows = self.deliveries
        return list(
            zip(rows.publisher, rows.seq.tolist(), rows.client, rows.number.tolist(), strict=True)
        )

    @cached_property
    def demanded(self) -> set[Pair]:
        """The settled pairs whose filter holds."""
        return {pair for publication in self._judged() for pair in self.settled_pairs(publication)}

    def _judged(self) -> Iterator[Published]:
        """Yield the publications that must arrive wherever they are wanted."""
        result = self.result
        excused = [self._around(f) for f in self.setup.faults if isinstance(f, Crash)]
        for published in result.published[:: self.stride]:
            publication = published.publication
            at = publication.time_us / 1e6
            if publication.id in result.refused or publication.id in result.damaged:
                continue
            if any(start <= at <= end for start, end in excused):
                continue
            if self._advertised(publication, at):
                yield published

    def _advertised(self, publication: Publication, at: float) -> bool:
        """Return whether the publication matches an advertisement, and its broker held it until
        that had settled."""
        client = self.clients[publication.publisher]
        at = client.resent.get(publication.seq, at)
        return any(
            claim.requested_s <= at < claim.ended_s
            and claim.settled_s <= claim.requested_s + HOLD_S
            and parse_filter(claim.filter).matches(publication)
            for claim in client.claims
            if not claim.subscription
        ) or (at < client.implicit_until_s)

    def _quiet_after(self, at: float) -> float:
        return min((q for q in self.quiet_at if q >= at), default=math.inf)

    def _around(self, crash: Crash) -> tuple[float, float]:
        """Return the time from quiet to quiet around a crash, if neighbours gave up; else
        nothing."""
        if crash.restart_s <= crash.at_s + crash.link_patience_s:
            return (math.inf, math.inf)
        before = [at for at in self.quiet_at if at < crash.at_s]
        after = [at for at in self.quiet_at if at > crash.restart_s]
        return (before[-1] if before else 0.0, after[0] if after else math.inf)

    @cached_property
    def _subscriptions(self) -> dict[Filter, list[Claim]]:
        """Settled subscriptions by filter."""
        claims: dict[Filter, list[Claim]] = {}
        for claim in self.result.claims:
            if claim.subscription and claim.settled_s < math.inf:
                claims.setdefault(parse_filter(claim.filter), []).append(claim)
        return claims

    def settled_pairs(self, published: Published) -> Iterator[Pair]:
        """Yield this publication with each subscription that had settled before, still holds, and
        matches it."""
        publication = published.publication
        at = publication.time_us / 1e6
        quiet = self._quiet_after(at)
        for filter, claims in self._subscriptions.items():
            if not filter.matches(publication):
                continue
            for claim in claims:
                if claim.settled_s < at and quiet <= claim.ended_s:
                    yield (*publication.id, claim.client, claim.number)

    # --- the truth about tables -------------------------------------------------------------------

    def live(self, *, subscriptions: bool) -> list[Live]:
        """Return the claims that clients hold at the end, by the scripts: subscriptions, or
        advertisements."""
        rows = []
        for client in self.clients.values():
            for claim in client.standing():
                if claim.subscription is subscriptions and not claim.refused:
                    id = (claim.client, claim.number)
                    rows.append(Live(id, client.broker, claim.client, claim.filter))
            if not subscriptions:
                owner = f"{client.name}@{client.broker}"
                if client.implicit is not None:
                    id = (owner, client.implicit)
                    rows.append(Live(id, client.broker, client.name, "TRUE"))
        return rows

    @property
    def all_up(self) -> bool:
        return all(node.up for node in self.nodes.values())


# --- invariants --------------------------------------------------------------------------------


def no_loss(evidence: Evidence) -> list[str]:
    """Return settled pairs that were not delivered; none for a routing that promises only its best
    effort."""
    if evidence.routing.best_effort:
        return []
    missing = evidence.demanded - set(evidence.delivered)
    return [f"{p}#{seq} never reached subscription {n} of {c}" for p, seq, c, n in sorted(missing)]


def no_duplicates(evidence: Evidence) -> list[str]:
    """Return pairs that were delivered more than once."""
    counted = Counter(evidence.delivered)
    return [
        f"{p}#{seq} reached subscription {n} of {c} {times} times"
        for (p, seq, c, n), times in counted.items()
        if times > 1
    ]


def nothing_unexpected(evidence: Evidence) -> list[str]:
    """Return deliveries that no subscription asked for, or that do not match it."""
    claims = {(claim.client, claim.number): claim for claim in evidence.result.claims}
    published = {p.publication.id: p.publication for p in evidence.result.published}
    times = evidence.deliveries.time_us.tolist()
    problems = []
    for row, (publisher, seq, client, number) in enumerate(evidence.delivered):
        claim = claims.get((client, number))
        name = f"{publisher}#{seq} at subscription {number} of {client}"
        if claim is None or not claim.subscription or claim.requested_s * 1e6 > times[row] + 1:
            problems.append(f"{name}: there was no such subscription")
        elif seq % evidence.stride == 0 and not parse_filter(claim.filter).matches(
            published[publisher, seq]
        ):
            problems.append(f"{name}: it does not match {claim.filter}")
    return problems


def order_kept(evidence: Evidence) -> list[str]:
    """Return deliveries to a subscription that break the order of a publisher, on routings that
    keep it."""
    if not evidence.routing.keeps_order:
        return []
    newest: dict[tuple[str, str, int], int] = {}
    problems = []
    for publisher, seq, client, number in evidence.delivered:
        key = (publisher, client, number)
        if seq < newest.get(key, 0):
            problems.append(
                f"{publisher}#{seq} reached subscription {number} of {client} after #{newest[key]}"
            )
        newest[key] = max(seq, newest.get(key, 0))
    return problems


def quiet_at_last(evidence: Evidence) -> list[str]:
    """Return a problem if messages never end, unless the routing works that way."""
    if evidence.result.quiet or evidence.routing.restless:
        return []
    return ["the run ended before the network was quiet"]


def all_settled(evidence: Evidence) -> list[str]:
    """Return, once the network is quiet, claims that still hold and are neither settled nor
    refused."""
    if not (evidence.result.quiet or evidence.routing.restless):
        return []
    return [
        f"{claim.client}'s claim {claim.number} ({claim.filter}) never settled"
        for client in evidence.clients.values()
        if evidence.nodes[client.broker].up
        for claim in client.standing()
        if math.isinf(claim.settled_s) and not claim.refused
    ]


def tables_true(evidence: Evidence) -> list[str]:
    """Return, once the network is quiet, where the brokers' tables differ from what the scripts
    imply."""
    if not evidence.result.quiet or not evidence.all_up:
        return []
    scene = Scene(
        {name: list(node.neighbours) for name, node in evidence.nodes.items()},  # as it is now
        {name: node.core.router for name, node in evidence.nodes.items()},
        evidence.live(subscriptions=True),
        evidence.live(subscriptions=False),
        evidence.setup.scot,
    )
    return table_faults(evidence.routing, scene)


CHECKERS: dict[str, Callable[[Evidence], list[str]]] = {
    "lost": no_loss,
    "duplicated": no_duplicates,
    "unexpected": nothing_unexpected,
    "reordered": order_kept,
    "not_quiet": quiet_at_last,
    "unsettled": all_settled,
    "tables": tables_true,
}


@dataclass(frozen=True, slots=True)
class Report:
    """`problems`: sentences by checker. `expected`: settled pairs that match; of one in `stride`
    publications. `delivered`: pairs of these that were expected and arrived."""

    expected: int
    delivered: int
    stride: int
    problems: dict[str, list[str]]

    @property
    def correct(self) -> bool:
        return not any(self.problems.values())

    def require(self) -> Report:
        """Return the report itself. Raises `CheckFailedError`, which lists the first violations."""
        if not self.correct:
            lines = [f"{name}: {text}" for name, found in self.problems.items() for text in found]
            raise CheckFailedError(f"{len(lines)} violations:\n" + "\n".join(lines[:20]))
        return self


def check(simulation: Simulation) -> Report:
    """Check all invariants of a run so far."""
    evidence = Evidence(simulation)
    problems = {name: checker(evidence) for name, checker in CHECKERS.items()}
    arrived = len(evidence.demanded & set(evidence.delivered))
    return Report(len(evidence.demanded), arrived, evidence.stride, problems)
