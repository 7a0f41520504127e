"""What a routing says beforehand of publications, see `capabilities.SetsCourses`; and what of it is
a table by the handles of rows.

Such a table, of a tree, is brought up to date when a course needs it, by what has moved since; not
made anew, for a tree may have many rows, and change with each of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from reefcast.model.messages import Header, LinkName
from reefcast.routing.tables import Row

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex
    from reefcast.matching.passage.leads import Leads

MOST_TREES = 64
"""That have tables at a time."""


class Rows(Enum):
    """What the rows that a publication matches mean for copies to neighbours: each one where they
    lead gets a copy, but not the one that it came from; or those that the routing has `chosen` of
    these; or those where they lead on a tree (`Course.tree`); or it need not be matched, because
    no client here can want it."""

    FOLLOWED = "followed"
    CHOSEN = "chosen"
    BOUND = "bound"
    UNMATCHED = "unmatched"


class Binds(Protocol):
    """A tree to which rows are bound. `bound`: the link by which each row came; `moved`: the rows
    that were bound or unbound since somebody last looked, None while nobody looks."""

    bound: dict[Row, LinkName]
    moved: list[Row] | None


class Course(NamedTuple):
    """What becomes of all publications that come by one link with one header, besides what they
    match at this broker's own clients: `always`, copies to neighbours whatever they match; and
    copies with the header `onward` to neighbours where `rows` lead."""

    onward: Header
    always: Sequence[tuple[LinkName, Header]] = ()
    rows: Rows = Rows.FOLLOWED
    tree: Binds | None = None


class BoundTable:
    """The table of one tree. `leads`: numbers the destinations."""

    def __init__(self, tree: Binds, filters: CompiledIndex[Any], leads: Leads) -> None:
        from reefcast.matching.passage.leads import Words  # loads what no client has

        self._tree = tree
        self._filters = filters
        self._leads = leads
        self._words = Words(1)
        self._handles: dict[Row, int] = {}
        tree.moved = list(tree.bound)

    @property
    def address(self) -> int:
        """Where the table is now, up to date; 0 for a row that leads nowhere."""
        moved, self._tree.moved = self._tree.moved or [], []
        for row in moved:  # all of them first: another row may have the handle now
            self._take_out(row)
        for row in dict.fromkeys(moved):
            link = self._tree.bound.get(row)
            if link is not None and not row.local:
                handle = self._handles[row] = self._filters.handle_of(row)
                self._words.make_room(handle)
                self._words.values[handle] = self._leads.hold(link) + 1
        self._words.make_room(self._leads.rows.room - 1)
        return self._words.address

    def _take_out(self, row: Row) -> None:
        handle = self._handles.pop(row, None)
        if handle is not None:
            self._leads.drop(self._words.values[handle] - 1)
            self._words.values[handle] = 0

    def leave(self) -> None:
        """Drop what it holds: it is not used again."""
        self._tree.moved = None
        for row in list(self._handles):
            self._take_out(row)


class BoundTables:
    """The tables of a broker."""

    def __init__(self) -> None:
        self._tables: dict[Binds, BoundTable] = {}

    def of(self, tree: Binds, filters: CompiledIndex[Any], leads: Leads) -> int:
        """Return the address of the tree's table."""
        table = self._tables.get(tree)
        if table is None:
            if len(self._tables) >= MOST_TREES:
                self.forget()
            table = self._tables[tree] = BoundTable(tree, filters, leads)
        return table.address

    def forget(self) -> None:
        """Forget all tables."""
        for table in self._tables.values():
            table.leave()
        self._tables.clear()
