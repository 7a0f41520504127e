"""The results of the moves of primary links that an operator asked one broker for (see `move`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from reefcast.model.messages import LinkName
from reefcast.routing.mesh.maps import Neighbourhood
from reefcast.routing.tables import Cell, TableView

ASKED, MOVING, MOVED, GIVEN_UP = "asked", "moving", "moved", "given up"
"""Not granted yet; under way; over; impossible when it was granted."""
REMEMBERED = 20


class Wish(msgspec.Struct):
    """`number`: higher than those of earlier wishes. `why`: it was given up."""

    number: int
    old: LinkName
    new: LinkName
    state: str = ASKED
    why: str = ""


class WishTable(TableView[Wish]):
    """The last `REMEMBERED` wishes, oldest first."""

    name: ClassVar[str] = "moves"
    columns = ("move", "from", "to", "state", "why")
    shown = True
    legend: ClassVar[str] = (
        "Moves of primary links that this broker was asked for. Asked: the coordinator has not "
        "granted it yet. Given up: it could not be done when it was granted."
    )

    def __init__(self) -> None:
        self._wishes: dict[int, Wish] = {}

    def __len__(self) -> int:
        return len(self._wishes)

    def __iter__(self) -> Iterator[Wish]:
        return iter(self._wishes.values())

    def describe(self, row: Wish) -> tuple[Cell, ...]:
        return (row.number, row.old, row.new, row.state, row.why)

    def asked(self, number: int, old: LinkName, new: LinkName) -> None:
        if len(self._wishes) == REMEMBERED:
            del self._wishes[next(iter(self._wishes))]
        self._wishes[number] = Wish(number, old, new)

    def became(self, number: int, state: str, why: str = "") -> None:
        wish = self._wishes.get(number)
        if wish is not None:
            wish.state, wish.why = state, why


def objection(mom: Neighbourhood, links: list[LinkName], old: LinkName, new: LinkName) -> str:
    """Return why the broker with this MOM and these primary links cannot have one to `new` in place
    of that to `old`; "" if it can."""
    if old not in links:
        return f"{mom.me} has no primary link to {old}, but to {', '.join(links) or 'nobody'}"
    if new in links:
        return f"{mom.me} has a primary link to {new} already"
    if new not in mom:
        return f"{new} is no other broker within delta hops of {mom.me}"
    if mom.branch(new) != old:
        return f"{new} is not behind {old}: the network would fall into two parts"
    return ""
