"""The rounds of the overlays on arrays, for 100 000 nodes: the twin of `rounds.Rounds`.

After each round all views are equal to those of the state machine, by both rules, as long as nobody
comes, goes or fails, and no message is lost. Walks are a compiled kernel; the searches of orphans
for parents, of which there are few, are written out here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np

from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.streams import MASK, choice, mixed, weight
from reefcast_lab.rounds import kernels
from reefcast_lab.rounds.kernels import Bounds, Numbers, Words
from reefcast_lab.rounds.overlays import Overlays, packed

Key = Callable[[int, int], tuple[int, int]]
"""What one member has against another, and that one."""


@dataclass
class Topic:
    """One overlay, as in `Overlays`. `names`, `sizes`: of the members (`packed`); `weights`: of the
    views; `keys`: the members' streams; `drawn`: how many numbers each drew beside those of
    rounds."""

    members: Numbers
    names: Words
    sizes: Bounds
    keys: Words
    drawn: Bounds
    bounds: Bounds
    views: Numbers
    weights: Words

    def view(self, member: int) -> list[int]:
        view: list[int] = self.views[self.bounds[member] : self.bounds[member + 1]].tolist()
        return view

    def put(self, views: dict[int, list[int]], key: Key) -> None:
        """Give members these views from now on, which may be longer than before."""
        counts = np.diff(self.bounds)
        for member, view in views.items():
            counts[member] = len(view)
        bounds = np.concatenate(([0], np.cumsum(counts)))
        new = np.empty(bounds[-1], np.int32), np.empty(bounds[-1], np.uint64)
        same = np.ones(len(self.members), np.bool_)
        same[list(views)] = False
        old_rows, new_rows = np.repeat(same, np.diff(self.bounds)), np.repeat(same, counts)
        new[0][new_rows], new[1][new_rows] = self.views[old_rows], self.weights[old_rows]
        for member, view in views.items():
            row = slice(bounds[member], bounds[member + 1])
            new[0][row], new[1][row] = view, [key(member, other)[0] for other in view]
        self.bounds, (self.views, self.weights) = bounds, new


@dataclass
class Search:
    """An orphan's `Adopt` on its way to `to`; members by number."""

    orphan: int
    view: frozenset[int]
    nonce: int
    left: int
    to: int


class Twin:
    """The overlays of all topics in rounds, from a start that is left as it is. `number`: rounds so
    far."""

    def __init__(self, overlays: Overlays, options: GossipOptions) -> None:
        self.number = 0
        self._start = overlays
        self._options = options
        self._seed = np.uint64(options.seed)
        self._names, self._sizes = packed(overlays.nodes)
        self._topics = [self._topic(number) for number in range(len(overlays.topics))]

    def _topic(self, number: int) -> Topic:
        members = self._start.members_of(number)
        bounds, targets = self._start.graph(number)
        views, weights = targets.copy(), np.empty(len(targets), np.uint64)
        names = self._names[members], self._sizes[members]
        kernels.weigh(*names, bounds, views, weights, self._seed)
        topic, size = packed([self._start.topics[number]])
        keys = kernels.streams(*names, topic[0], int(size[0]), self._seed)
        return Topic(
            members, *names, keys, np.zeros(len(members), np.int64), bounds, views, weights
        )

    @property
    def overlays(self) -> Overlays:
        """After the last round; a copy."""
        sizes = [np.diff(topic.bounds) for topic in self._topics]
        bounds = np.cumsum(np.concatenate([[0], *sizes]), dtype=np.int64)
        targets = np.concatenate([np.empty(0, np.int32), *(t.views for t in self._topics)])
        return replace(self._start, bounds=bounds, targets=targets)

    def total(self) -> int:
        return sum(len(topic.views) for topic in self._topics)

    def unique(self) -> int:
        return self.overlays.unique()

    # --- a round ----------------------------------------------------------------------------------

    def round(self) -> int:
        """Run a round, as `Rounds.round` does."""
        self.number += 1
        return sum(map(self._round, self._topics))

    def _round(self, topic: Topic) -> int:
        to = kernels.departures(self.number, topic.keys, topic.bounds, topic.views)
        before = self._adopt(topic)
        topic.views, topic.weights, changed = kernels.walks(
            topic.names,
            topic.sizes,
            topic.keys,
            topic.bounds,
            topic.views,
            topic.weights,
            to,
            self.number,
            self._options.ttl,
            self._options.rule == "greedy",
            self._seed,
        )
        for member, view in before.items():
            changed[member] = topic.view(member) != view
        return int(changed.sum())

    # --- orphans ----------------------------------------------------------------------------------

    def _adopt(self, topic: Topic) -> dict[int, list[int]]:
        """Find parents for the orphans; return the old views of these parents."""
        before: dict[int, list[int]] = {}
        views: dict[int, list[int]] = {}
        searches = _searches(topic, self._options.ttl)
        while searches:
            searches.sort(key=attrgetter("to"))
            onward = []
            for search in searches:
                me = search.to
                before.setdefault(me, topic.view(me))
                view = views.setdefault(me, before[me])
                new = _asked(topic, search, view)
                if new is None:
                    onward.append(search)
                else:
                    views[me] = sorted(new, key=partial(self._key, topic, me))
            searches = onward
        if views != before:
            topic.put(views, partial(self._key, topic))
        return before

    def _key(self, topic: Topic, me: int, other: int) -> tuple[int, int]:
        """Return `views.Weights.key`."""
        nodes = self._start.nodes
        names = nodes[topic.members[me]], nodes[topic.members[other]]
        return weight(self._options.seed, *names), other


def _searches(topic: Topic, ttl: int) -> list[Search]:
    """Return the searches of nodes that are in nobody's view
    (`TopicOverlay._search_for_parents`)."""
    in_links = np.bincount(topic.views, minlength=len(topic.members))
    found = []
    for me in np.flatnonzero((in_links == 0) & (np.diff(topic.bounds) > 0)).tolist():
        topic.drawn[me] += 1
        key, view = int(topic.keys[me]), topic.view(me)
        nonce = mixed(key ^ MASK, int(topic.drawn[me]))
        to = view[choice(mixed(key ^ nonce, 0), len(view))]
        found.append(Search(me, frozenset(view), nonce, ttl, to))
    return found


def _asked(topic: Topic, search: Search, view: list[int]) -> list[int] | None:
    """Handle a search (`TopicOverlay._adopt`); return the new view of the node that it came to, or
    None if it goes on."""
    if search.orphan == search.to or search.orphan in view:
        return view
    common = [other for other in view if other in search.view]
    if common:
        return [*(other for other in view if other != common[-1]), search.orphan]
    if search.left and view:
        nonce = int(topic.keys[search.to]) ^ search.nonce
        search.to = view[choice(mixed(nonce, search.left), len(view))]
        search.left -= 1
        return None
    return [*view, search.orphan]
