"""The overlay maps of the mesh: the part of the primary tree that a broker `A` knows, and its
contraction by the links of `A`.

- **MOM**, the master overlay map (`Neighbourhood`): the primary tree within Delta hops of `A`. It
  changes when primary links do.
- **WOM**, the working overlay map (`Wom`): the MOM after edge contraction, so that only brokers are
  left that `A` has a direct link to. It is made anew whenever a link comes or goes.

Edge contraction folds brokers without a direct link, farthest first, into the next closer one; what
that one is folded into later takes them along. So each ends up at the farthest broker with a direct
link on the primary path to it, and there always is one, as primary links are real ones. That is
what is computed here, in one pass from near to far.

Sets of neighbours are bit vectors, Python ints: bit `i` stands for `Wom.neighbours[i]`.

Source: section 3 of the paper, its Figs 3 and 4. Departure: its step 2 sorts by the distance in the
WOM, where the own soft links would all be at 1 and the algorithms of section 5, which rely on the
order, would send copies twice; here the order is that of the *primary* distance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from reefcast.errors import ConfigurationError


class Neighbourhood:
    """The MOM of broker `me`: `closer[x]` is the next broker from `x` towards `me` over primary
    links, for every `x` within Delta hops; `me` itself has no entry.

    `brokers`: all of them, nearest first, by name where equally near. What takes a broker raises
    `KeyError` for one that is not in here.

    Raises `ConfigurationError` if `closer` does not lead to `me` from everywhere.
    """

    def __init__(self, me: str, closer: Mapping[str, str]) -> None:
        self.me = me
        self.closer = dict(closer)
        self._farther: defaultdict[str, list[str]] = defaultdict(list)
        for broker in sorted(closer):
            self._farther[closer[broker]].append(broker)
        self._paths = self._paths_from_me()
        self.brokers = tuple(sorted(self.closer, key=lambda x: (self.distance(x), x)))

    def _paths_from_me(self) -> dict[str, tuple[str, ...]]:
        paths: dict[str, tuple[str, ...]] = {self.me: ()}
        reached = [] if self.me in self.closer else [self.me]
        for broker in reached:  # it grows while we go through it
            for other in self._farther.get(broker, ()):
                paths[other] = (*paths[broker], other)
                reached.append(other)
        lost = sorted(self.closer.keys() - set(reached))
        if lost:
            raise ConfigurationError(
                f"the neighbourhood of {self.me!r} is no tree around it: {lost[0]!r} does not lead "
                "there; give for each broker the next one towards it, and none for itself"
            )
        return paths

    def __contains__(self, broker: object) -> bool:
        return broker in self.closer

    def distance(self, broker: str) -> int:
        """Return the distance in primary hops; 0 for `me`."""
        return len(self._paths[broker])

    def branch(self, broker: str) -> str:
        """Return the first primary hop from `me` towards the broker; for `me` there is none:
        `IndexError`."""
        return self._paths[broker][0]

    def path(self, broker: str) -> tuple[str, ...]:
        """Return the primary path, from the first hop to the broker itself."""
        return self._paths[broker]

    def around(self, broker: str) -> tuple[str, ...]:
        """Return the broker's primary neighbours within Delta of `me`, without `me`; of `me`, the
        first hops."""
        next_one = self.closer.get(broker, self.me)
        nearer = () if next_one == self.me else (next_one,)
        return (*nearer, *self._farther.get(broker, ()))


class Wom:
    """The WOM for the `links` that there are now, as names of brokers in the MOM.

    Primary links are always among them, whether named or not: with no others it is the map of S0.
    With candidate links it serves to count what they would carry.

    `neighbours`: the brokers with a direct link, by primary distance, then by name. By position in
    there, from the view of this broker `A`, as bit vectors:

    - `between[i]`: those on the primary path to `N_i`, itself included;
    - `beyond[i]`: those downstream of `N_i`, itself included;
    - `behind[i]`: those downstream of `A` as seen from `N_i`, that is, in the other branches.

    `place[x]`: the position of what broker `x` was substituted with. Raises `ConfigurationError`
    for a link to a broker outside the MOM.
    """

    __slots__ = ("behind", "between", "beyond", "mom", "neighbours", "place")

    def __init__(self, mom: Neighbourhood, links: Collection[str]) -> None:
        self.mom = mom
        self._require_near(links)
        real = {*links, *mom.around(mom.me)}
        self.neighbours = tuple([broker for broker in mom.brokers if broker in real])
        self.place = self._contracted()
        self._relate()

    def _require_near(self, links: Collection[str]) -> None:
        far = [broker for broker in links if broker not in self.mom.closer]
        if far:
            raise ConfigurationError(
                f"{self.mom.me!r} cannot have a link to {min(far)!r}, which is not within Delta "
                "primary hops of it; drop the link, or raise Delta at every broker"
            )

    def _contracted(self) -> dict[str, int]:
        place = {broker: i for i, broker in enumerate(self.neighbours)}
        closer = self.mom.closer
        for broker in self.mom.brokers:  # nearest first: the closer one has its place already
            if broker not in place:
                place[broker] = place[closer[broker]]
        return place

    def _relate(self) -> None:
        me, closer, place = self.mom.me, self.mom.closer, self.place
        before = [place[up] if (up := closer[x]) != me else -1 for x in self.neighbours]
        between: list[int] = []
        for i, previous in enumerate(before):
            between.append(1 << i if previous < 0 else between[previous] | 1 << i)
        beyond = [1 << i for i in range(len(before))]
        for i in range(len(before) - 1, -1, -1):
            if before[i] >= 0:
                beyond[before[i]] |= beyond[i]
        everybody = (1 << len(before)) - 1
        behind: list[int] = []
        for i, previous in enumerate(before):
            behind.append(everybody & ~beyond[i] if previous < 0 else behind[previous])
        self.between, self.beyond, self.behind = tuple(between), tuple(beyond), tuple(behind)

    def substitute(self, broker: str) -> str:
        """Return the broker into which this one was folded; itself, if there is a direct link to
        it."""
        return self.neighbours[self.place[broker]]

    def names(self, mask: int) -> tuple[str, ...]:
        """Return the neighbours of a bit vector, nearest first."""
        found = []
        while mask:
            found.append(self.neighbours[(mask & -mask).bit_length() - 1])
            mask &= mask - 1
        return tuple(found)
