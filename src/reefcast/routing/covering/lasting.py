"""Covering where some subscriptions are those of durable sessions: one stands for another only if
it is at least as lasting.

A passing subscription may go without notice, with its client or its broker. Brokers behind the
neighbour keep durable rows on their disks (`routing.on_disk`); one that was never told there
because a passing one stood for it would be missing there after a restart.

Source: `delivery.md`, rule 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, is_durable
from reefcast.model.publication import Publication
from reefcast.routing.covering.outgoing import Change, Net, Outgoing


class Lasting(Outgoing):
    """Two of them, for `passing` subscriptions (those that there are by now) and for `durable`
    ones: each stands only for its like. That a durable one could stand for a passing one, too, is
    not made use of."""

    def __init__(self, passing: Outgoing, durable: Outgoing) -> None:
        super().__init__()
        self.wanted.update(passing.wanted)
        self.packs, self.prunes = passing.packs, passing.prunes
        self.parts = (passing, durable)

    def _part(self, id: EntityId) -> Outgoing:
        return self.parts[is_durable(id[0])]

    def _come(self, id: EntityId, filter: Filter) -> Change:
        return self._part(id).add(id, filter)

    def _go(self, id: EntityId, filter: Filter) -> Change:
        return self._part(id).remove(id)

    def drop_unwanted(self, wants: Callable[[Filter], bool]) -> Change:
        net = Net()
        for part in self.parts:
            net.add(part.drop_unwanted(wants))
        self.wanted = {id: self.wanted[id] for id in self.wanted if id in self._part(id).wanted}
        return net.change()

    def preserve(self, id: EntityId) -> Change:
        del self.wanted[id]
        return self._part(id).preserve(id)

    def observe(self, passed: Sequence[tuple[Publication, bool]]) -> bool:
        passing, durable = self.parts
        return passing.observe(passed) | durable.observe(passed)

    def collect_overdue(self) -> list[tuple[EntityId, Filter, Change]]:
        return [each for part in self.parts for each in part.collect_overdue()]

    def filter_of(self, id: EntityId) -> Filter:
        return self._part(id).filter_of(id)

    def sent(self) -> list[EntityId]:
        return [id for part in self.parts for id in part.sent()]

    def is_sent(self, id: EntityId) -> bool:
        return self._part(id).is_sent(id)

    def stand_in(self, id: EntityId) -> EntityId:
        return self._part(id).stand_in(id)
