"""Strategy *incremental*: packing, but a withdrawn subscription may be preserved as a stand-in for
those that it covers.

An entry of `out[U]` whose subscription was withdrawn is a *ghost*. Only this broker knows: for U it
is a row like any other. It saves U, and all brokers beyond, the subscriptions that would take its
place; it costs *false positives*, publications that match it and nothing else here.

A ghost is collected
- when nothing is left that it stands for, or the neighbour does not want it any more;
- when a live subscription equals or covers it;
- when more than a share 1 - theta of the publications that it matches are false positives, beyond
  doubt (`suspicion`). Then U may preserve it in its turn: it moves one hop upstream. In the other
  cases it goes all the way.

Before its unsubscription, the subscriptions that take its place are sent.

Source: the covering paper, section V; the collection is ours, without it tables grow for ever. A
test that is repeated for ever, such as one of each hundred publications, would not do: every ghost
fails it sooner or later by chance, so that the bursts would only be postponed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reefcast.matching import new_index
from reefcast.matching.cover import new_cover_index
from reefcast.model.covering import covers
from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, LinkName
from reefcast.model.publication import Publication
from reefcast.routing.covering.lasting import Lasting
from reefcast.routing.covering.outgoing import NOTHING, Change, Net, Outgoing, Packing
from reefcast.routing.covering.suspicion import Suspicion
from reefcast.routing.tables import Cell, TableView, written


class Ghost:
    """A preserved entry. `seen`: publications that came from the neighbour and matched it; `false`:
    those of them that were for nobody here; `suspicion`: that these are too many, see there."""

    __slots__ = ("false", "filter", "seen", "suspicion")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.seen = 0
        self.false = 0
        self.suspicion = 0.0


class Incremental(Packing):
    """See the module's docstring. `counters`: where it counts ghosts that come and go. `suspicion`:
    the test that condemns them."""

    prunes = True

    def __init__(self, theta: float, counters: Counter[str]) -> None:
        super().__init__()
        self.suspicion = Suspicion(1 - theta)
        self._counters = counters
        self.ghosts: dict[EntityId, Ghost] = {}
        self._overdue: dict[EntityId, None] = {}
        self._covering = new_cover_index()  # of ghosts
        self._matching = new_index()  # of ghosts

    def _come(self, id: EntityId, filter: Filter) -> Change:
        net = Net()
        if id in self.ghosts:  # another session of its client has the same subscription
            net.add(self.collect(id))
        net.add(super()._come(id, filter))
        for ghost in self._covering.covered(filter):
            net.add(self.collect(ghost))
        return net.change()

    def _go(self, id: EntityId, filter: Filter) -> Change:
        net = Net()
        net.add(super()._go(id, filter))
        for ghost in self._covering.covering(filter):
            if not self._roots.has_below(ghost):
                net.add(self.collect(ghost))
        return net.change()

    def preserve(self, id: EntityId) -> Change:
        """Make a ghost of the entry whose subscription has gone, if it was sent and stands for
        others that are narrower."""
        below = self._roots.below(id) if self._roots.is_root(id) else []
        filter = self.wanted[id]
        if not below or any(covers(self.wanted[other], filter) for other in below):
            return self.remove(id)
        self._counters["ghosts_preserved"] += 1
        del self.wanted[id]
        self.ghosts[id] = Ghost(filter)
        self._covering.add(id, filter)
        self._matching.add(id, filter)
        return NOTHING

    def collect(self, ghost: EntityId) -> Change:
        """Remove a ghost."""
        self._counters["ghosts_collected"] += 1
        del self.ghosts[ghost]
        self._covering.remove(ghost)
        self._matching.remove(ghost)
        return self._roots.remove(ghost)

    def stands_for(self, ghost: EntityId) -> int:
        """Return how many subscriptions would have to be sent, or asked about, if the ghost
        went."""
        return len(self._roots.below(ghost))

    def filter_of(self, id: EntityId) -> Filter:
        ghost = self.ghosts.get(id)
        return super().filter_of(id) if ghost is None else ghost.filter

    def drop_unwanted(self, wants: Callable[[Filter], bool]) -> Change:
        net = Net()
        net.add(super().drop_unwanted(wants))
        for id in [id for id, ghost in self.ghosts.items() if not wants(ghost.filter)]:
            net.add(self.collect(id))
        return net.change()

    def observe(self, passed: Sequence[tuple[Publication, bool]]) -> bool:
        if not self.ghosts:
            return False
        found = self._matching.match_many([publication for publication, _ in passed])
        for ids, (_, useless) in zip(found, passed, strict=True):
            for id in ids:
                self._saw(id, self.ghosts[id], useless)
        return bool(self._overdue)

    def _saw(self, id: EntityId, ghost: Ghost, useless: bool) -> None:
        ghost.seen += 1
        ghost.false += useless
        ghost.suspicion = self.suspicion.after(ghost.suspicion, useless)
        if self.suspicion.is_certain(ghost.suspicion):
            self._overdue[id] = None

    def collect_overdue(self) -> list[tuple[EntityId, Filter, Change]]:
        overdue = [id for id in self._overdue if id in self.ghosts]
        self._overdue.clear()
        return [(id, self.ghosts[id].filter, self.collect(id)) for id in overdue]


class GhostRow(NamedTuple):
    """A ghost, and its neighbour."""

    id: EntityId
    ghost: Ghost
    link: LinkName
    out: Incremental


class GhostTable(TableView[GhostRow]):
    """All ghosts of a broker, which are rows at its neighbours and none here."""

    columns = ("ghost", "filter", "neighbour", "stands for", "false positives")
    shown = True

    def __init__(self, outgoing: Mapping[LinkName, Outgoing]) -> None:
        self._outgoing = outgoing

    def _by_link(self) -> Iterator[tuple[LinkName, Incremental]]:
        for link, out in self._outgoing.items():
            for part in out.parts if isinstance(out, Lasting) else (out,):
                if isinstance(part, Incremental):
                    yield link, part

    def __len__(self) -> int:
        return sum(len(out.ghosts) for _, out in self._by_link())

    def __iter__(self) -> Iterator[GhostRow]:
        for link, out in self._by_link():
            for id, ghost in out.ghosts.items():
                yield GhostRow(id, ghost, link, out)

    def describe(self, row: GhostRow) -> tuple[Cell, ...]:
        ghost = row.ghost
        return (
            written(row.id),
            ghost.filter.text,
            row.link,
            row.out.stands_for(row.id),
            f"{ghost.false} of {ghost.seen}",
        )
