"""What the demonstration of gossip shows, as figures: connections, and who got what in time.

Due is what was published to every surviving peer that wanted it and had joined before, but the
publisher. Of a peer that was killed only what one of the survivors got: the rest may have died with
it. "At once" is within `PROMPT_US`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast_lab.demos.gossip_live import Run, Seen
from reefcast_lab.demos.gossip_protocol import Published, Views
from reefcast_lab.demos.gossip_script import Cast

PROMPT_US = 1_000_000
NEVER = -1


class Due(NamedTuple):
    """A delivery that is due: when it was published, and how long it took (microseconds), NEVER."""

    published_us: int
    delay_us: int

    @property
    def prompt(self) -> bool:
        return 0 <= self.delay_us <= PROMPT_US


@dataclass(frozen=True, slots=True)
class Moment:
    """The peers at one moment. `connections`: of each peer that lives, by the peers' own count;
    `sockets`: by the operating system's; `unshared`: if each topic had its own; `unaligned`: if
    the views of all topics, of the sizes that they have, were drawn at random; `most`: of one peer,
    by its views; `connected`: topics of which all live peers reach each other, of `topics`."""

    connections: int
    sockets: int | None
    unshared: int
    unaligned: int
    most: int
    connected: int
    topics: int


@dataclass(frozen=True, slots=True)
class Figures:
    """`peak`: the most connections that there were, which is while peers join: the first ones align
    meanwhile. `prompt_before`, `prompt_after`: the kill, the share of deliveries that came at once.
    `recovery_s`: from the kill until the last publication that a survivor did not get at once;
    None: there still were some at the end."""

    peers: int
    killed: int
    settled: Moment
    aligned: Moment
    ended: Moment
    peak: int
    joining_s: float
    published: int
    due: int
    missing: int
    twice: int
    unexpected: int
    prompt_before: float
    prompt_after: float
    recovery_s: float | None
    p50_us: float
    p99_us: float
    longest_us: int

    @property
    def passed(self) -> bool:
        """Every peer that lives got everything, once. That a topic is not in one piece at the end
        is told, but no fault: it may take five periods of waves."""
        return not self.missing + self.twice + self.unexpected


def figures(run: Run, cast: Cast) -> Figures:
    """Return all figures of a run that came to its end."""
    assert run.settled and run.aligned and run.ended
    dues = list(all_due(run, cast))
    killed_us = run.killed_us or run.aligned.at_us
    before = [due.prompt for due in dues if due.published_us < killed_us]
    after = [due.prompt for due in dues if due.published_us >= killed_us]
    delays = np.array([due.delay_us for due in dues if due.delay_us >= 0], dtype=np.int64)
    p50, p99 = np.percentile(delays, (50, 99)) if len(delays) else (0.0, 0.0)
    return Figures(
        peers=cast.plan.peers,
        killed=cast.plan.kill,
        settled=moment(run.settled, cast),
        aligned=moment(run.aligned, cast),
        ended=moment(run.ended, cast),
        peak=round(max((count for _, count in run.connections), default=0.0)),
        joining_s=(max(run.joined_us.values()) - run.started_us) / 1e6,
        published=len(run.published),
        due=len(dues),
        missing=sum(due.delay_us == NEVER for due in dues),
        twice=run.twice,
        unexpected=unexpected(run, cast),
        prompt_before=share(before),
        prompt_after=share(after),
        recovery_s=recovery_s(dues, killed_us, run.ended_us),
        p50_us=float(p50),
        p99_us=float(p99),
        longest_us=int(delays.max(initial=0)),
    )


def share(flags: list[bool]) -> float:
    return sum(flags) / len(flags) if flags else 1.0


# --- deliveries -----------------------------------------------------------------------------------


def all_due(run: Run, cast: Cast) -> Iterator[Due]:
    """Yield all deliveries that are due; see the module's docstring."""
    for each in run.published:
        publisher, seq, at_us, _ = each
        keys = [(publisher, seq, peer) for peer in wanting(each, run, cast)]
        if publisher not in cast.victims or any(key in run.came_us for key in keys):
            for key in keys:
                came_us = run.came_us.get(key)
                yield Due(at_us, NEVER if came_us is None else max(came_us - at_us, 0))


def lacks(run: Run, cast: Cast) -> bool:
    """Return whether something that is due has not come."""
    return any(due.delay_us == NEVER for due in all_due(run, cast))


def wanting(published: Published, run: Run, cast: Cast) -> list[int]:
    publisher, _, at_us, topics = published
    members = frozenset[int]().union(*(cast.members[topic] for topic in topics))
    return [
        peer
        for peer in sorted(members - cast.victims)
        if peer != publisher and run.joined_us.get(peer, at_us) < at_us
    ]


def unexpected(run: Run, cast: Cast) -> int:
    """Return deliveries to peers that want none of the topics."""
    topics = {(publisher, seq): topics for publisher, seq, _, topics in run.published}
    return sum(
        not set(topics[publisher, seq]) & set(cast.wants[peer])
        for publisher, seq, peer in run.came_us
        if (publisher, seq) in topics
    )


def recovery_s(dues: list[Due], killed_us: int, ended_us: int) -> float | None:
    """Return the recovery time; see `Figures`."""
    bad = [d.published_us for d in dues if d.published_us >= killed_us and not d.prompt]
    if not bad:
        return 0.0
    last_us = max(bad)
    return None if ended_us - last_us < PROMPT_US else (last_us - killed_us) / 1e6


Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]


def binned(dues: list[Due], origin_us: int, width_us: int) -> tuple[Numbers, Shares, Shares]:
    """Return, by time of publication, the bins that have something due, in microseconds after
    `origin_us`, and for each the share that came at once, and that came at all."""
    at = np.array([due.published_us - origin_us for due in dues], dtype=np.int64) // width_us
    prompt = np.array([due.prompt for due in dues], dtype=np.float64)
    came = np.array([due.delay_us != NEVER for due in dues], dtype=np.float64)
    bins, place, counts = np.unique(at, return_inverse=True, return_counts=True)
    prompt, came = (np.bincount(place, each, len(bins)) / counts for each in (prompt, came))
    return bins * width_us, prompt, came


# --- connections ----------------------------------------------------------------------------------


def moment(seen: Seen, cast: Cast) -> Moment:
    """Return the figures of a moment. Links to peers that are dead, and not yet found to be, do not
    count."""
    live = {
        peer: {
            topic: [other for other in view if other in seen.views] for topic, view in of.items()
        }
        for peer, of in seen.views.items()
    }
    by_topic = views_by_topic(live)
    links = {topic: pairs(views) for topic, views in by_topic.items()}
    shared = set[tuple[int, int]]().union(*links.values())
    degrees = np.bincount([peer for pair in shared for peer in pair] or [0])
    rng = random.Random(f"unaligned {cast.plan.seed}")
    drawn = (pairs(at_random(views, rng)) for views in by_topic.values())
    return Moment(
        connections=round(seen.connections),
        sockets=seen.sockets,
        unshared=sum(len(each) for each in links.values()),
        unaligned=len(set[tuple[int, int]]().union(*drawn)),
        most=int(degrees.max()),
        connected=sum(in_one_piece(views) for views in by_topic.values()),
        topics=len(by_topic),
    )


TopicViews = dict[int, list[int]]
"""By peer, the peers in its view of one topic."""


def views_by_topic(views: Views) -> dict[str, TopicViews]:
    found: dict[str, TopicViews] = {}
    for peer, topics in sorted(views.items()):
        for topic, view in topics.items():
            found.setdefault(topic, {})[peer] = view
    return dict(sorted(found.items()))


def pairs(views: TopicViews) -> set[tuple[int, int]]:
    """Return the pairs of peers that need a connection."""
    return {(min(a, b), max(a, b)) for a, view in views.items() for b in view}


def at_random(views: TopicViews, rng: random.Random) -> TopicViews:
    """Return random views of the same sizes."""
    peers = list(views)
    return {
        peer: rng.sample(others, min(len(view), len(others)))
        for peer, view in views.items()
        for others in ([other for other in peers if other != peer],)
    }


def in_one_piece(views: TopicViews) -> bool:
    """Return whether every peer reaches every other one."""
    against: TopicViews = {peer: [] for peer in views}
    for peer, view in views.items():
        for other in view:
            against.setdefault(other, []).append(peer)
    start = next(iter(views))
    return all(reached(start, way) >= views.keys() for way in (views, against))


def reached(start: int, views: TopicViews) -> set[int]:
    found, front = {start}, [start]
    while front:
        for other in views.get(front.pop(), ()):
            if other not in found:
                found.add(other)
                front.append(other)
    return found
