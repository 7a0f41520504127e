"""The subscriptions that one neighbour is told of, out of those that it wants, by four strategies.

`out[U]`, the entries that were sent to neighbour U and not withdrawn, mirrors U's rows from here.
Whatever the strategy: each subscription that U wants is covered by some entry of `out[U]`.

- *none*: U is told of all.
- *lazy*: U is not told of a subscription that an entry covers. A broader one that comes later is
  sent, too, and the narrower ones stay. When an entry is withdrawn, those that it alone had covered
  are sent, in the order of arrival.
- *active*: U is told only of the roots, those that no other one covers. When a broader one comes,
  those that it covers are withdrawn; when a root is withdrawn, the new roots take its place
  (`NRS`).
- *packing*: as active; the unsubscription and its NRS travel in one message (`Replace`).

Source: the covering paper, sections II and IV; SIENA. Cost: the covering index answers all of these
questions in microseconds (see `docs/explanation/covering-index.md`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from reefcast.matching.cover import RootChange, new_cover_index, new_roots
from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId
from reefcast.model.publication import Publication

Change = RootChange[EntityId]
"""`entered`: what must be sent now; `left`: what must be withdrawn. In this order."""
NOTHING: Change = RootChange([], [])


class Net:
    """The sum of several changes: a subscription that entered and left again needs no message.
    `again`: ids that may have left and entered with another filter; kept by the caller."""

    def __init__(self) -> None:
        self.again: dict[EntityId, None] = {}
        self.entered: dict[EntityId, None] = {}
        self.left: dict[EntityId, None] = {}

    def add(self, change: Change) -> None:
        _cross(change.left, self.entered, self.left)
        _cross(change.entered, self.left, self.entered)

    def change(self) -> Change:
        return Change(list(self.entered), list(self.left))


def _cross(
    ids: Iterable[EntityId], against: dict[EntityId, None], onto: dict[EntityId, None]
) -> None:
    for id in ids:
        if id in against:
            del against[id]
        else:
            onto[id] = None


class Outgoing(ABC):
    """The subscriptions that one neighbour wants, and those of them that it is told of (`out[U]`).

    `wanted`: their filters, by age. `packs`: whether an unsubscription and the subscriptions that
    take its place travel in one message; `prunes`: whether it may be preserved instead (see
    `ghosts`)."""

    packs: bool = False
    prunes: bool = False

    def __init__(self) -> None:
        self.wanted: dict[EntityId, Filter] = {}

    def add(self, id: EntityId, filter: Filter) -> Change:
        """Add a subscription that the neighbour wants."""
        self.wanted[id] = filter
        return self._come(id, filter)

    def remove(self, id: EntityId) -> Change:
        """Remove a subscription that is gone, or that the neighbour no longer wants."""
        return self._go(id, self.wanted.pop(id))

    @abstractmethod
    def _come(self, id: EntityId, filter: Filter) -> Change:
        """Add `id`, which is wanted from now on."""

    @abstractmethod
    def _go(self, id: EntityId, filter: Filter) -> Change:
        """Remove `id`, which is no longer wanted."""

    def drop_unwanted(self, wants: Callable[[Filter], bool]) -> Change:
        """Remove what the neighbour no longer wants."""
        net = Net()
        for id in [id for id, filter in self.wanted.items() if not wants(filter)]:
            net.add(self.remove(id))
        return net.change()

    def preserve(self, id: EntityId) -> Change:
        """Remove a subscription as `remove` does, but a strategy that prunes may keep its entry (a
        ghost)."""
        return self.remove(id)

    def observe(self, passed: Sequence[tuple[Publication, bool]]) -> bool:
        """Record publications from the neighbour, each with whether nobody here wanted it; return
        whether a ghost is overdue for it."""
        return False

    def collect_overdue(self) -> list[tuple[EntityId, Filter, Change]]:
        """Remove the ghosts that are overdue."""
        return []

    def filter_of(self, id: EntityId) -> Filter:
        """Return the filter of a wanted subscription, or of an entry."""
        return self.wanted[id]

    @abstractmethod
    def sent(self) -> list[EntityId]:
        """Return the entries of `out[U]`."""

    @abstractmethod
    def is_sent(self, id: EntityId) -> bool:
        """Return whether a wanted subscription is an entry of `out[U]`."""

    @abstractmethod
    def stand_in(self, id: EntityId) -> EntityId:
        """Return the entry that stands in for `id`, which is wanted: because of the entry, the
        neighbour sends what matches `id`."""


class Every(Outgoing):
    """Strategy *none*."""

    def _come(self, id: EntityId, filter: Filter) -> Change:
        return Change([id], [])

    def _go(self, id: EntityId, filter: Filter) -> Change:
        return Change([], [id])

    def sent(self) -> list[EntityId]:
        return list(self.wanted)

    def is_sent(self, id: EntityId) -> bool:
        return True

    def stand_in(self, id: EntityId) -> EntityId:
        return id


class Lazy(Outgoing):
    """Strategy *lazy*."""

    def __init__(self) -> None:
        super().__init__()
        self._sent = new_cover_index()
        self._quenched = new_cover_index()
        self._ages: dict[EntityId, int] = {}
        self._last_age = 0

    def _come(self, id: EntityId, filter: Filter) -> Change:
        self._last_age += 1
        self._ages[id] = self._last_age
        if self._sent.covering(filter):
            self._quenched.add(id, filter)
            return NOTHING
        self._sent.add(id, filter)
        return Change([id], [])

    def _go(self, id: EntityId, filter: Filter) -> Change:
        del self._ages[id]
        if id in self._quenched:
            self._quenched.remove(id)
            return NOTHING
        self._sent.remove(id)
        return Change(self._no_longer_covered(filter), [id])

    def _no_longer_covered(self, gone: Filter) -> list[EntityId]:
        """Return what only `gone` had covered; it is sent from now on."""
        entered = []
        for id in sorted(self._quenched.covered(gone), key=self._ages.__getitem__):
            filter = self.wanted[id]
            if not self._sent.covering(filter):
                self._quenched.remove(id)
                self._sent.add(id, filter)
                entered.append(id)
        return entered

    def sent(self) -> list[EntityId]:
        return [id for id in self.wanted if id in self._sent]

    def is_sent(self, id: EntityId) -> bool:
        return id in self._sent

    def stand_in(self, id: EntityId) -> EntityId:
        if id in self._sent:
            return id
        eldest: EntityId = min(self._sent.covering(self.wanted[id]), key=self._ages.__getitem__)
        return eldest


class Active(Outgoing):
    """Strategy *active*: `out[U]` is the roots of what is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self._roots = new_roots()

    def _come(self, id: EntityId, filter: Filter) -> Change:
        return self._roots.add(id, filter)

    def _go(self, id: EntityId, filter: Filter) -> Change:
        return self._roots.remove(id)

    def sent(self) -> list[EntityId]:
        roots: list[EntityId] = self._roots.keys()
        return roots

    def is_sent(self, id: EntityId) -> bool:
        sent: bool = self._roots.is_root(id)
        return sent

    def stand_in(self, id: EntityId) -> EntityId:
        root: EntityId = self._roots.root_of(id)
        return root


class Packing(Active):
    """Strategy *packing*."""

    packs = True
