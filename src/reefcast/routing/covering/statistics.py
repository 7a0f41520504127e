"""Statistics of deliveries, by which incremental pruning decides (covering paper, V-A).

The host broker of a subscriber records each publication that it delivers: which subscription it
matched, under which advertisement it was published, and the publication's `distance` (how many hops
ago another subscription matched it, too) and `count` (at how many brokers one did). When the
subscription is withdrawn, they give the *pruning distance*: how far the unsubscription must travel
so that at least a share theta of these publications would have met another subscriber by then.

What counts is a sliding window, the same for all that keep statistics:

- Time is what the caller says (`now`, seconds of a clock of its choice); one that goes back counts
  as standing still.
- For each *pair* of a subscription and an advertisement the latest `Window.rows` rows count, as far
  as they are younger than `Window.seconds`.
- A pair goes as a whole: with its subscription; when `expire` finds its latest row too old; and
  when more than `Window.total` rows are kept in all, those that got a row longest ago go first."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import Generic, Protocol, TypeVar

from reefcast.errors import ConfigurationError
from reefcast.model.messages import EntityId
from reefcast.model.publication import PublicationId

Pair = tuple[EntityId, EntityId]
"""A subscription and an advertisement."""

EXACT = 9
"""Decimals of a share that count, so that 0.07 * 100 is 7 in spite of binary fractions."""


class Statistics(Protocol):
    """See the module's docstring."""

    def claim(self, subscription: EntityId, filter: str) -> None:
        """Give this subscription the rows that a former life of the broker recorded for the same
        client and the same text: clients that come back subscribe again, under fresh ids."""
        ...

    def record(
        self,
        publication: PublicationId,
        advertisement: EntityId,
        subscription: EntityId,
        distance: int,
        count: int,
        now: float,
    ) -> None:
        """Record that a publication under this advertisement was delivered to this subscription;
        `distance` and `count` are those of its header, not negative and below 2^63."""
        ...

    def pruning_distance(
        self, subscription: EntityId, advertisement: EntityId, theta: float
    ) -> int:
        """Return the smallest d >= 0 such that at least a share `theta` (0 to 1) of the pair's rows
        that count has `distance <= d`; 0 if there are none."""
        ...

    def purge(self, subscription: EntityId) -> None:
        """Remove the rows of a withdrawn subscription."""
        ...

    def expire(self, now: float) -> None:
        """Drop pairs whose rows are all too old; to be called now and then."""
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """The rows that count; see the module's docstring. A thousand rows tell a share to within 1 %
    (standard error). `total` bounds memory and disk: a million rows take some 50 MB in a file.

    Raises `ConfigurationError` for a window that nothing can be seen through.
    """

    seconds: float = 3600.0
    rows: int = 1000
    total: int = 1_000_000

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and 1 <= self.rows <= self.total):
            raise ConfigurationError(
                f"a window of statistics of {self.seconds} s, {self.rows} rows for each pair and "
                f"{self.total} in all: give more than 0 s, and 1 <= rows <= total"
            )


def distance_reaching(theta: float, histogram: Mapping[int, int]) -> int:
    """Return the smallest distance that at least a share `theta` of the rows do not exceed;
    `histogram`: distance -> rows."""
    missing = ceil(round(theta * sum(histogram.values()), EXACT))
    for distance in sorted(histogram) if missing > 0 else ():
        missing -= histogram[distance]
        if missing <= 0:
            return distance
    return 0


@dataclass(slots=True)
class Kept:
    """The rows of a pair: how many, and when the latest came."""

    rows: int = 0
    at: float = -inf


K = TypeVar("K", bound=Kept)


class Pairs(Generic[K]):
    """The pairs that have rows, the one with the latest row last, and which of them to drop.

    `make` creates the record of a new pair; `gone` is called for pairs that are dropped. The cost
    of a row does not depend on the number of pairs."""

    def __init__(
        self, window: Window, make: Callable[[Pair], K], gone: Callable[[K], None]
    ) -> None:
        self._window = window
        self._make = make
        self._gone = gone
        self._kept: OrderedDict[Pair, K] = OrderedDict()
        self._of: dict[EntityId, dict[EntityId, None]] = {}
        self.rows = 0
        self.now = -inf

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[Pair, K]]:
        return iter(self._kept.items())

    def get(self, pair: Pair) -> K | None:
        return self._kept.get(pair)

    def put(self, pair: Pair, kept: K) -> None:
        """Put a new pair with its rows, as if its latest row came now."""
        self._kept[pair] = kept
        self._of.setdefault(pair[0], {})[pair[1]] = None
        self.rows += kept.rows

    def row(self, pair: Pair, now: float) -> K:
        """Count a new row of this pair; return what is kept of the pair."""
        self.now = max(self.now, now)
        kept = self._kept.get(pair)
        if kept is None:
            kept = self._make(pair)
            self.put(pair, kept)
        else:
            self._kept.move_to_end(pair)
        kept.at = self.now
        if kept.rows < self._window.rows:
            kept.rows += 1
            self.rows += 1
            while self.rows > self._window.total:
                self._drop(next(iter(self._kept)))
        return kept

    @property
    def too_old(self) -> float:
        """The time up to which rows do not count."""
        return self.now - self._window.seconds

    def expire(self, now: float) -> None:
        self.now = max(now, self.now)
        while self._kept:
            pair, kept = next(iter(self._kept.items()))
            if kept.at > self.too_old:
                return
            self._drop(pair)

    def purge(self, subscription: EntityId) -> None:
        for advertisement in list(self._of.get(subscription, ())):
            self._drop((subscription, advertisement))

    def rename(self, subscription: EntityId, new: EntityId) -> list[K]:
        """Rename the subscription of its pairs, which continues under another id."""
        moved = []
        for advertisement in self._of.pop(subscription, {}):
            kept = self._kept.pop((subscription, advertisement))
            self.rows -= kept.rows
            self.put((new, advertisement), kept)
            moved.append(kept)
        return moved

    def _drop(self, pair: Pair) -> None:
        kept = self._kept.pop(pair)
        self.rows -= kept.rows
        others = self._of[pair[0]]
        del others[pair[1]]
        if not others:
            del self._of[pair[0]]
        self._gone(kept)


@dataclass(slots=True, kw_only=True)
class _InMemory(Kept):
    """`latest`: (time, distance) of each row."""

    latest: deque[tuple[float, int]]


class MemoryStatistics:
    """`Statistics` that end with their process: the simulator's, and the twin of the store."""

    def __init__(self, window: Window | None = None) -> None:
        self._window = window or Window()
        self._pairs = Pairs(self._window, self._begin, lambda kept: None)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._pairs.rows

    def _begin(self, pair: Pair) -> _InMemory:
        return _InMemory(latest=deque(maxlen=self._window.rows))

    def claim(self, subscription: EntityId, filter: str) -> None:
        """Do nothing: the process has no former life."""

    def record(
        self,
        publication: PublicationId,
        advertisement: EntityId,
        subscription: EntityId,
        distance: int,
        count: int,
        now: float,
    ) -> None:
        kept = self._pairs.row((subscription, advertisement), now)
        kept.latest.append((kept.at, distance))

    def pruning_distance(
        self, subscription: EntityId, advertisement: EntityId, theta: float
    ) -> int:
        kept = self._pairs.get((subscription, advertisement))
        if kept is None:
            return 0
        too_old = self._pairs.too_old
        return distance_reaching(theta, Counter(d for at, d in kept.latest if at > too_old))

    def purge(self, subscription: EntityId) -> None:
        self._pairs.purge(subscription)

    def expire(self, now: float) -> None:
        self._pairs.expire(now)
