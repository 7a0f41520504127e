"""News feeds of unlike popularity: the workloads DT1 to DT5 and DT-C.

The paper names the datasets and says that they follow a Zipf distribution, as the popularity of RSS
feeds does; their figures (Fig. 8) are lost in our copy. So feeds it is. A subscription is for one
feed, drawn with probability 1 / rank ** `skew`, and for an interval of scores: the intervals are
equally wide, and lie so that each score is within one with probability `selectivity`. Hence no two
publications of a feed need match the same brokers (the paper's *selective multicast*), and none of
the intervals covers another.

With `chain` 3, subscriptions of a feed come in threes, of which the first covers the second and the
second the third: each has one more predicate than the one before it, on a score of its own (paper,
section 7: "covering subscriptions are more generic and usually come with fewer predicates").

Subscribers sit anywhere. A feed has one publisher, at a broker drawn evenly, and all feeds have as
many publications. Nobody advertises: a mesh sends subscriptions everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

from reefcast.errors import ConfigurationError
from reefcast.model.publication import Value
from reefcast_lab.experiments.mesh.parameters import section
from reefcast_lab.experiments.script import Claim, Event, Script

SCORES = 1_000_000
"""Scores are whole numbers from 0 up to this one."""


@dataclass(frozen=True)
class Dataset:
    """What the generator makes; see the module's docstring.

    `subscriptions`, `feeds`, `chain`: how many. `title_bytes`: the length of the text that makes a
    publication as long as one of the news.
    """

    subscriptions: int
    feeds: int
    skew: float
    selectivity: float
    chain: int
    title_bytes: int

    def __post_init__(self) -> None:
        if not (self.feeds > 0 and self.chain > 0 and 0 < self.selectivity < 1):
            raise ConfigurationError(
                f"a dataset of {self.feeds} feeds, chains of {self.chain} and a selectivity of "
                f"{self.selectivity}: take at least one feed, chains of one subscription or more, "
                "and a selectivity between 0 and 1"
            )


def dataset(name: str, scale: str = "paper") -> Dataset:
    """Return DT1 to DT5 or DT-C as the file of parameters defines it, for the overlay of that
    scale."""
    entries = section(name, scale)
    return Dataset(**{each.name: getattr(entries, each.name) for each in fields(Dataset)})


@dataclass(frozen=True)
class Feeds:
    """`subscriptions`: (client, broker, filter) in the order in which they are made. `publishers`:
    (client, broker) of each feed."""

    dataset: Dataset
    subscriptions: tuple[tuple[str, str, str], ...]
    publishers: tuple[tuple[str, str], ...]
    seed: int

    def claims(self, within_s: float) -> list[Claim]:
        """Return the claims: all subscribe, evenly spread from 0 to `within_s`, and stay."""
        gap_s = within_s / max(len(self.subscriptions), 1)
        return [
            Claim(client, broker, text, i * gap_s)
            for i, (client, broker, text) in enumerate(self.subscriptions)
        ]

    def events(self, per_minute: float, from_s: float, duration_s: float) -> Iterator[Event]:
        """Yield publications in the order of time; see `instants`."""
        rng = random.Random(f"{self.seed}/mesh/events")
        title = "x" * self.dataset.title_bytes
        for at_s in instants(per_minute, from_s, duration_s, rng):
            feed = rng.randrange(self.dataset.feeds)
            attributes: dict[str, Value] = {"feed": _feed(feed)}
            for level in range(self.dataset.chain):
                attributes[_score(level)] = rng.randrange(SCORES)
            attributes["title"] = title
            yield Event(*self.publishers[feed], attributes, at_s)

    def script(
        self, per_minute: float, *, subscribe_s: float, from_s: float, duration_s: float
    ) -> Script:
        """Make the script: subscriptions are made within `subscribe_s`, publications from `from_s`
        on."""
        events = self.events(per_minute, from_s, duration_s)
        return Script(self.claims(subscribe_s), list(events))


def instants(
    per_minute: float, from_s: float, duration_s: float, rng: random.Random
) -> list[float]:
    """Draw exactly this many instants, in order, each evenly. So arrivals are those of a Poisson
    process, and every run has equally many."""
    number = round(per_minute * duration_s / 60)
    return sorted(from_s + duration_s * rng.random() for _ in range(number))


def workload(brokers: Sequence[str], wanted: Dataset, seed: int) -> Feeds:
    """Make the workload: every subscription is of a client of its own; a broker's feeds are of one
    client."""
    rng = random.Random(f"{seed}/mesh/workload")
    homes = [rng.choice(brokers) for _ in range(wanted.feeds)]
    filters = list(_filters(wanted, rng))
    rng.shuffle(filters)
    return Feeds(
        dataset=wanted,
        subscriptions=tuple(
            (f"s{i:05d}", rng.choice(brokers), text) for i, text in enumerate(filters)
        ),
        publishers=tuple((f"p-{broker}", broker) for broker in homes),
        seed=seed,
    )


def _feed(number: int) -> str:
    return f"f{number:04d}"


def _score(level: int) -> str:
    return f"score{level + 1}"


def _filters(wanted: Dataset, rng: random.Random) -> Iterator[str]:
    weights = accumulate(1 / (rank + 1) ** wanted.skew for rank in range(wanted.feeds))
    cumulative = list(weights)
    left = wanted.subscriptions
    while left:
        (feed,) = rng.choices(range(wanted.feeds), cum_weights=cumulative)
        length = min(wanted.chain, left)
        yield from _chain(feed, length, wanted.selectivity, rng)
        left -= length


def _chain(feed: int, length: int, selectivity: float, rng: random.Random) -> Iterator[str]:
    """Yield filters, each of which covers the next. An interval may reach beyond the scores, so
    that all scores are equally likely to be within it."""
    width = max(round(SCORES * selectivity / (1 - selectivity)), 1)
    text = f"feed = '{_feed(feed)}'"
    for level in range(length):
        low = rng.randrange(1 - width, SCORES)
        text += f" AND {_score(level)} BETWEEN {low} AND {low + width - 1}"
        yield text
