"""Link management: which soft links a broker keeps, opens and tries.

Rules
-----
- A link's *gain* in a period is what it carried, times the brokers that this spared, weighted by
  how loaded these are (`gain`). Candidate links are judged alike, by what they would have carried.
- Every round the best of the links that this broker opened and of its candidates get the room that
  `fanout` leaves beside primary links and those that others opened. So weak soft links are dropped
  and good candidates promoted; where the gains are equal what is there stays. Nothing without a
  gain is kept or promoted.
- A period without publications teaches nothing: links and candidates stay, as far as the limits
  allow, and what room there is goes to further candidates.
- Each round there are new candidates, as many as `maxlinks` has room for beside the other links:
  the primary neighbours of links that carry much, first those that would bypass loaded brokers and
  slow primary links (`_promise`), then others at random. Those tried in this period come back only
  if there is room left.
- Links that another broker opened count in our fanout, and are its to drop: it sees their gain.

All of it is local to one broker: the other end of a new link is asked for it (`has_room`), nobody
else. The functions are pure; the same generator gives the same round.

Source: section 6 of the paper. Departure: it prints `1 + min(0, load - threshold)` for the scaling
factor, which would lower the gain where the bypassed brokers idle and never raise it where they are
overloaded; its text asks for a boost for the latter, which is `max`. It gives no formula for the
choice of candidates; ours are in `_promise`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from math import prod
from random import Random
from statistics import median

from reefcast.errors import ConfigurationError
from reefcast.routing.mesh.maps import Neighbourhood


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`fanout`: the most primary and soft links together; `maxlinks`: candidates included.
    `load_threshold`: the load above which a broker is worth bypassing, as a share of capacity."""

    fanout: int = 35
    maxlinks: int = 50
    load_threshold: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < self.fanout <= self.maxlinks:
            raise ConfigurationError(
                f"fanout = {self.fanout} and maxlinks = {self.maxlinks} contradict each other; "
                "maxlinks counts the candidate links too, so give 0 < fanout <= maxlinks"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The links of a broker besides its primary ones, by the broker at the other end: the soft
    links that it `opened`, those that it `accepted`, and its `candidates`. No broker is in two of
    them."""

    opened: Set[str] = frozenset()
    accepted: Set[str] = frozenset()
    candidates: Set[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The observations since the last round.

    `sent`: publications per link, primary ones included; for a candidate those that the WOM with
    candidates would have sent over it.
    `loads`: normalised output rate of brokers, 1 at capacity; 0 for those not heard of.
    `delays_s`: of the primary link from a broker to the next closer one, where known.
    """

    sent: Mapping[str, int]
    loads: Mapping[str, float] = field(default_factory=dict)
    delays_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether nothing was published over any link."""
        return not any(self.sent.values())


@dataclass(frozen=True, slots=True)
class Round:
    """The decisions of a round: soft links to `drop`, candidates to `promote` (best first, as far
    as the other ends accept), and the `candidates` from now on (best first), in place of all former
    ones."""

    drop: tuple[str, ...]
    promote: tuple[str, ...]
    candidates: tuple[str, ...]


def load_scaling(bypassed: Iterable[str], loads: Mapping[str, float], threshold: float) -> float:
    """Return `loadScalingFactor`: the product over these brokers of 1 + what their load is above
    the threshold; 1 where none is overloaded."""
    return prod(1 + max(0.0, loads.get(broker, 0.0) - threshold) for broker in bypassed)


def gain(mom: Neighbourhood, broker: str, period: Period, threshold: float) -> float:
    """Return `gain(N)` of the link to `broker`; 0 for a primary one, as it bypasses nobody."""
    bypassed = mom.path(broker)[:-1]
    scaling = load_scaling(bypassed, period.loads, threshold)
    return period.sent.get(broker, 0) * len(bypassed) * scaling


def has_room(mom: Neighbourhood, soft_links: int, limits: Limits) -> bool:
    """Return whether a broker with so many soft links, of whichever end, accepts one more."""
    return len(mom.around(mom.me)) + soft_links < limits.fanout


def one_round(
    mom: Neighbourhood, links: Links, period: Period, limits: Limits, rng: Random
) -> Round:
    """Decide what becomes of links at the end of a period. O(n log n) for n brokers within
    Delta."""
    room = max(0, limits.fanout - len(mom.around(mom.me)) - len(links.accepted))
    best = _best(mom, links, period, limits)[:room]
    promote = tuple(broker for broker in best if broker in links.candidates)
    drop = tuple(sorted(links.opened - set(best)))
    soft = {*links.accepted, *best}
    free = limits.maxlinks - len(mom.around(mom.me)) - len(soft)
    pool = _new_candidates(mom, soft, links, period, limits, rng)
    return Round(drop, promote, tuple(pool[: max(0, free)]))


def _best(mom: Neighbourhood, links: Links, period: Period, limits: Limits) -> list[str]:
    """Return the brokers that are worth a soft link, best first."""
    if period.idle:
        return sorted(links.opened)
    gains = {
        broker: gain(mom, broker, period, limits.load_threshold)
        for broker in links.opened | links.candidates
    }
    worth = [broker for broker, value in gains.items() if value > 0]
    return sorted(worth, key=lambda x: (-gains[x], x in links.candidates, x))


def _new_candidates(
    mom: Neighbourhood,
    soft: Set[str],
    links: Links,
    period: Period,
    limits: Limits,
    rng: Random,
) -> list[str]:
    """Return all possible candidates, best first; those that have been tried come last."""
    pool = [broker for broker in mom.brokers if mom.distance(broker) > 1 and broker not in soft]
    rng.shuffle(pool)
    typical_s = median(period.delays_s.values()) if period.delays_s else 0.0

    def order(broker: str) -> tuple[bool, float]:
        carried = max((period.sent.get(x, 0) for x in mom.around(broker)), default=0)
        later = (broker in links.candidates) is not period.idle
        return later, -_promise(mom, broker, carried, period, typical_s, limits.load_threshold)

    return sorted(pool, key=order)


def _promise(
    mom: Neighbourhood,
    broker: str,
    carried: int,
    period: Period,
    typical_s: float,
    threshold: float,
) -> float:
    """Return the gain that a link would have if all that a link next to it `carried` were for it,
    times by how much the primary path there is slower than usual (at least 1)."""
    path = mom.path(broker)
    scaling = load_scaling(path[:-1], period.loads, threshold)
    return carried * (len(path) - 1) * scaling * _slowness(path, period.delays_s, typical_s)


def _slowness(path: tuple[str, ...], delays_s: Mapping[str, float], typical_s: float) -> float:
    if typical_s <= 0:
        return 1.0
    mean_s = sum(delays_s.get(broker, typical_s) for broker in path) / len(path)
    return max(1.0, mean_s / typical_s)
