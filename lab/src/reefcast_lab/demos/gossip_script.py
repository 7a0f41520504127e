"""What happens in the demonstration of gossip: which peers there are, what each wants, who dies.

Peers and topics have places on a square whose opposite edges meet; a peer wants the topics that are
nearest to it. So peers that are near to each other have most of their topics in common, which is
what lets overlays of topics share connections.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.routing.gossip.router import CONTACTS as CONTACTS_OF_TOPIC

CONTACTS = 5
"""Peers that keep the memberships of topics; of these as large a share dies as of all, but one at
most: a topic that lost both of its contacts is not put together again."""
MOST_PEERS, MOST_TOPICS = 1000, 1000

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class GossipPlan:
    """`peers` in `processes`, `topics` in all, `interests` of a peer on average, `kill`: peers that
    are killed, all of one process; `rounds`: before that and after it, of `round_s` seconds;
    `rate_per_s`: publications a second, of all peers together."""

    peers: int = 100
    processes: int = 4
    topics: int = 20
    interests: int = 6
    kill: int = 20
    rounds: int = 10
    round_s: float = 4.0
    rate_per_s: float = 10.0
    seed: int = 0
    out: Path = Path("out/gossip")

    @property
    def report(self) -> Path:
        return self.out / "report.html"

    def validate(self) -> GossipPlan:
        """Check the values, and return itself. Raises `ConfigurationError` for one that is out of
        range."""
        for what, value, most in (
            ("peers", self.peers, MOST_PEERS),
            ("topics", self.topics, MOST_TOPICS),
        ):
            if not 2 <= value <= most:
                raise ConfigurationError(f"{what} must be between 2 and {most}")
        if not 1 <= self.interests <= self.topics:
            raise ConfigurationError("a peer wants 1 topic at least, and no more than there are")
        if not 0 <= self.kill <= self.peers - 2:
            raise ConfigurationError("two peers must survive")
        least = 2 if self.kill else 1
        if not least <= self.processes <= self.peers - self.kill + bool(self.kill):
            raise ConfigurationError(
                "the peers that are killed have a process of their own, and every other process "
                "has a peer"
            )
        return self


class Cast:
    """The peers by number. `wants`: of each, its topics, ascending; `members`: of each topic, its
    peers; `hosted`: by process, its peers; the first process is the one that is killed (if any
    is)."""

    def __init__(self, plan: GossipPlan) -> None:
        self.plan = plan
        rng = random.Random(f"gossip {plan.seed}")
        numbers = list(range(plan.peers))
        rng.shuffle(numbers)
        self.victims = frozenset(numbers[: plan.kill])
        survivors = numbers[plan.kill :]
        rest = plan.processes - bool(plan.kill)
        doomed = [sorted(self.victims)] if plan.kill else []
        self.hosted = [*doomed, *(sorted(survivors[i::rest]) for i in range(rest))]
        contacts = min(CONTACTS, plan.peers)
        dying = min(round(contacts * plan.kill / plan.peers), contacts - 1, CONTACTS_OF_TOPIC - 1)
        self.contacts = [*survivors[: contacts - dying], *numbers[:dying]]
        places: list[Place] = [(rng.random(), rng.random()) for _ in range(plan.topics)]
        self.wants = [self._nearest(places, rng) for _ in range(plan.peers)]

    def _nearest(self, places: list[Place], rng: random.Random) -> list[str]:
        here = (rng.random(), rng.random())
        mean = self.plan.interests
        count = min(rng.randint((mean + 1) // 2, mean + mean // 2), len(places))
        near = sorted(range(len(places)), key=lambda topic: apart(here, places[topic]))
        return sorted(f"t{topic:03}" for topic in near[:count])

    @cached_property
    def members(self) -> dict[str, frozenset[int]]:
        members: dict[str, set[int]] = {}
        for number, topics in enumerate(self.wants):
            for topic in topics:
                members.setdefault(topic, set()).add(number)
        return {topic: frozenset(peers) for topic, peers in sorted(members.items())}


def apart(a: Place, b: Place) -> float:
    """Return the square of their distance, across the edges if that is shorter."""
    return sum(min(abs(x - y), 1 - abs(x - y)) ** 2 for x, y in zip(a, b, strict=True))
