"""Covering in a mesh: a subscription stands for another one only where both have the same anchor.

A copy that is sent straight to the one anchor never sees the fork to the other (see `anchors`).
"""

from __future__ import annotations

from collections.abc import Callable

from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, LinkName
from reefcast.routing.covering.outgoing import Change, Outgoing


class PerAnchor(Outgoing):
    """An `Outgoing` for each anchor. `anchor_of`: the anchor of a subscription at the neighbour; it
    does not change while the subscription is here."""

    def __init__(
        self, new_outgoing: Callable[[], Outgoing], anchor_of: Callable[[EntityId], LinkName]
    ) -> None:
        super().__init__()
        self._new_outgoing = new_outgoing
        self._next = new_outgoing()  # made ahead: the first of all loads compiled code, for long
        self._anchor_of = anchor_of
        self._groups: dict[LinkName, Outgoing] = {}
        self._anchors: dict[EntityId, LinkName] = {}

    def _come(self, id: EntityId, filter: Filter) -> Change:
        anchor = self._anchors[id] = self._anchor_of(id)
        group = self._groups.get(anchor)
        if group is None:
            group = self._groups[anchor] = self._next
            self._next = self._new_outgoing()
        return group.add(id, filter)

    def _go(self, id: EntityId, filter: Filter) -> Change:
        anchor = self._anchors.pop(id)
        group = self._groups[anchor]
        change = group.remove(id)
        if not group.wanted:
            del self._groups[anchor]
        return change

    def _group(self, id: EntityId) -> Outgoing:
        return self._groups[self._anchors[id]]

    def sent(self) -> list[EntityId]:
        return [id for group in self._groups.values() for id in group.sent()]

    def is_sent(self, id: EntityId) -> bool:
        return self._group(id).is_sent(id)

    def stand_in(self, id: EntityId) -> EntityId:
        return self._group(id).stand_in(id)
