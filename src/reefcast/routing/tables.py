"""The tables of the papers: SRT (advertisements) and PRT (subscriptions), with their last hops.

The same id can come by two links: a client lost its broker, and another session of it subscribes
again at another one, while the first rows still stand. So there is a row for each link by which an
id came, and a link withdraws only its own rows.

A row is marked *unconfirmed* while its neighbour relearns its state after a restart; rows that the
neighbour has not repeated when it is done are removed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from reefcast.matching.interface import EventIndex
from reefcast.model.covering import covers, intersects
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import EntityId, LinkName
from reefcast.model.publication import Publication
from reefcast.routing.advertised_texts import AdvertisedTexts

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex
    from reefcast.matching.passage.leads import Leads


REPLACED = 1 << 40
"""What is added to the number of a client's subscription when its row is replaced (`granting`)."""


class Row:
    """An advertisement or a subscription and the link by which it came (its *last hop*).

    `number`: the owner's own number of it, however often it was replaced. `local`: the last hop is
    a client of this broker. `next_hop`: where its publications go; the last hop, unless given. Rows
    are compared by identity."""

    __slots__ = ("filter", "id", "last_hop", "local", "next_hop", "number")

    def __init__(
        self,
        id: EntityId,
        filter: Filter,
        last_hop: LinkName,
        local: bool,
        next_hop: LinkName | None = None,
    ) -> None:
        owner, number = id
        # A client's name is in each of its messages; its rows share that of its link.
        self.id = (last_hop, number) if owner == last_hop else id
        self.number = number if number < REPLACED else number % REPLACED
        self.filter = filter
        self.last_hop = last_hop
        self.local = local
        self.next_hop = last_hop if next_hop is None else next_hop


class NextHops(NamedTuple):
    """The next hops of the rows that match one publication.

    `local`: client -> ascending numbers of its subscriptions; `hops`: the next hops of all others
    (mostly neighbours), each once, by name; `matched`: rows."""

    local: dict[LinkName, list[int]]
    hops: list[LinkName]
    matched: int

    def and_to(self, links: Iterable[LinkName]) -> NextHops:
        """Return these next hops and those neighbours."""
        return self._replace(hops=sorted({*self.hops, *links}))


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
E = TypeVar("E")


class NextHopIndex(ABC):
    """An index of rows that returns the next hops of those that match."""

    @abstractmethod
    def add(self, key: Row, filter: Filter) -> None:
        """Add a row; see `matching.interface.EventIndex`."""

    @abstractmethod
    def remove(self, key: Row) -> None:
        """Remove a row; see `matching.interface.EventIndex`."""

    @abstractmethod
    def next_hops(self, publications: Sequence[Publication]) -> list[NextHops]:
        """Return `next_hops_of` the rows that each publication matches."""

    @abstractmethod
    def digests(
        self,
        publications: Sequence[Publication],
        keys: Sequence[K],
        digest: Callable[[list[Row], K], T],
    ) -> list[T]:
        """Return `digest(rows, key)` of the rows that each publication matches; it may be kept and
        returned again for the same rows and an equal key."""

    def compiled(self) -> tuple[CompiledIndex[Any], Leads] | None:
        """Return the filters, and the next hops of their rows, for compiled calls; None if they are
        not suitable. Both change with the table."""
        return None


def next_hops_of(rows: Sequence[Row]) -> NextHops:
    """Return matching rows, in any order, as deliveries and next hops."""
    local: dict[LinkName, list[int]] = {}
    hops: dict[LinkName, None] = {}
    known = local.get
    several = False
    for row in rows:
        hop = row.next_hop
        numbers = known(hop)
        if numbers is not None:
            numbers.append(row.number)
            several = True
        elif row.local:
            local[hop] = [row.number]
        else:
            hops[hop] = None
    if several:
        for numbers in local.values():
            numbers.sort()
    return NextHops(local, sorted(hops), len(rows))


def _enter(leads: Leads, handle: int, row: Row) -> None:
    leads.add(handle, row.next_hop, row.number, is_client=row.local)


class RowIndex(NextHopIndex):
    """Reads every row that `index` finds."""

    def __init__(self, index: EventIndex[Row]) -> None:
        self._index = index
        self._compiled: tuple[CompiledIndex[Any], Leads] | None = None

    def add(self, key: Row, filter: Filter) -> None:
        self._index.add(key, filter)
        if self._compiled is not None:
            filters, leads = self._compiled
            _enter(leads, filters.handle_of(key), key)

    def remove(self, key: Row) -> None:
        if self._compiled is not None:
            filters, leads = self._compiled
            leads.remove(filters.handle_of(key))
        self._index.remove(key)

    def compiled(self) -> tuple[CompiledIndex[Any], Leads] | None:
        return self._compiled or self._compile()

    def _compile(self) -> tuple[CompiledIndex[Any], Leads] | None:
        from reefcast.matching.index import CompiledIndex  # loads what no client has
        from reefcast.matching.passage.leads import Leads

        if not isinstance(self._index, CompiledIndex):
            return None
        leads = Leads()
        for row, handle in self._index.handles():
            _enter(leads, handle, row)
        self._compiled = self._index, leads
        return self._compiled

    def next_hops(self, publications: Sequence[Publication]) -> list[NextHops]:
        return [next_hops_of(rows) for rows in self._index.match_many(publications)]

    def digests(
        self,
        publications: Sequence[Publication],
        keys: Sequence[K],
        digest: Callable[[list[Row], K], T],
    ) -> list[T]:
        found = self._index.match_many(publications)
        return [digest(rows, key) for rows, key in zip(found, keys, strict=True)]


def together(rows: Sequence[Row]) -> Row | None:
    """Return one row in place of these, which have one id. Each may stand in for others, too, at
    its link: so their filters are joined by OR, and if their next hops differ, the row leads to
    this broker."""
    filters: list[Filter] = []
    for row in rows:
        if not any(covers(filter, row.filter) for filter in filters):
            filters = [filter for filter in filters if not covers(row.filter, filter)]
            filters.append(row.filter)
    for row in rows:
        if [row.filter] == filters and all(row.next_hop == other.next_hop for other in rows):
            return row
    if not rows:
        return None
    text = " OR ".join(f"({text})" for text in sorted(filter.text for filter in filters))
    whole = filters[0] if len(filters) == 1 else parse_filter(text)
    return Row(rows[-1].id, whole, rows[-1].last_hop, True)


R = TypeVar("R", bound=Row)
IndexFactory = Callable[[], EventIndex[Row] | NextHopIndex]


MOST_ROWS = 1000
"""The most rows of a table in one answer: nobody reads more, and a broker has other things to
do."""

Cell = str | int | float | bool
"""A cell of a table's row, as an operator sees it."""


def written(id: EntityId) -> str:
    """Return an id as operators read it."""
    return f"{id[0]}#{id[1]}"


class TableView(ABC, Generic[E]):
    """A table as an operator sees it: `columns` names the cells that `describe` returns; `shown`:
    its rows are shown without being asked for."""

    columns: ClassVar[tuple[str, ...]]
    shown: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[E]: ...

    @abstractmethod
    def describe(self, row: E) -> tuple[Cell, ...]:
        """Return a cell for each of `columns`."""


class TableLog(Protocol):
    """Who is told what comes to a table, and goes from it."""

    def came(self, row: Row) -> None: ...

    def went(self, row: Row) -> None: ...


class Table(TableView[R]):
    """Rows by id and last hop. `_rows`: the latest of each id; `_several`: all, by age, of an id
    that came by several links. `log`: see `on_disk`."""

    def __init__(self) -> None:
        self.log: TableLog | None = None
        self._rows: dict[EntityId, R] = {}
        self._several: dict[EntityId, list[R]] = {}
        self._by_hop: dict[LinkName, dict[EntityId, R]] = {}
        self._unconfirmed: dict[LinkName, dict[EntityId, None]] = {}

    def __len__(self) -> int:
        return len(self._rows) + sum(len(rows) - 1 for rows in self._several.values())

    def __iter__(self) -> Iterator[R]:
        elder = (row for rows in self._several.values() for row in rows[:-1])
        return chain(self._rows.values(), elder)

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    def describe(self, row: R) -> tuple[Cell, ...]:
        return (written(row.id), row.filter.text, row.last_hop)

    def get(self, id: EntityId) -> R | None:
        """Return the latest row of this id."""
        return self._rows.get(id)

    def all_of(self, id: EntityId) -> Sequence[R]:
        row = self._rows.get(id)
        return () if row is None else self._several.get(id, (row,))

    def by(self, id: EntityId, link: LinkName) -> R | None:
        """Return the row of this id that came by `link`."""
        row = self._rows.get(id)
        if row is None or row.last_hop == link:
            return row
        return next((row for row in self._several.get(id, ()) if row.last_hop == link), None)

    def ids(self) -> list[EntityId]:
        return list(self._rows)

    def told(self, id: EntityId, link: LinkName) -> Row | None:
        """Return the row that `link` is told for this id: that of the other links, joined if they
        have several; None if they have none."""
        several = self._several.get(id)
        if several is None:
            row = self._rows.get(id)
            return None if row is None or row.last_hop == link else row
        return together([row for row in several if row.last_hop != link])

    def from_hop(self, link: LinkName) -> list[R]:
        return list(self._by_hop.get(link, {}).values())

    def add(self, row: R) -> None:
        """Add a row; none of this id has come by this link."""
        before = self._rows.get(row.id)
        if before is not None:
            self._several.setdefault(row.id, [before]).append(row)
        self._rows[row.id] = row
        self._by_hop.setdefault(row.last_hop, {})[row.id] = row
        if self.log is not None:
            self.log.came(row)

    def remove(self, id: EntityId, link: LinkName) -> R | None:
        """Remove the row if it came by `link` and return it; None if there is none."""
        row = self.by(id, link)
        if row is None:
            return None
        several = self._several.get(id)
        if several is None:
            del self._rows[id]
        else:
            several.remove(row)
            self._rows[id] = several[-1]
            if len(several) == 1:
                del self._several[id]
        from_there = self._by_hop[link]
        del from_there[id]
        if not from_there:  # clients come and go, under new names for ever
            del self._by_hop[link]
        self._unconfirmed.get(link, {}).pop(id, None)
        if self.log is not None:
            self.log.went(row)
        return row

    def confirm(self, id: EntityId, link: LinkName) -> None:
        """Mark a row as sound: `link` has repeated it."""
        self._unconfirmed.get(link, {}).pop(id, None)

    def doubt(self, link: LinkName) -> None:
        """Mark all rows of a neighbour that restarted as stale until it repeats them."""
        self._unconfirmed[link] = dict.fromkeys(self._by_hop.get(link, ()))

    def doubts_as(self, other: Table[R], link: LinkName) -> None:
        """Take over from another table which rows of this neighbour are stale."""
        self._unconfirmed[link] = dict(other._unconfirmed.get(link, {}))

    def unconfirmed(self, link: LinkName) -> list[EntityId]:
        return list(self._unconfirmed.pop(link, ()))


def table_rows(table: TableView[Any], start: int, stop: int) -> dict[str, Any]:
    """Return the rows from `start` to before `stop` for an operator, as plain data; and how many
    more there are behind them."""
    rows = [table.describe(row) for row in islice(table, start, stop)]
    return {
        "columns": table.columns,
        "rows": rows,
        "left_out": max(0, len(table) - start - len(rows)),
    }


def meeting(filter: Filter, rows: Iterable[R]) -> list[R]:
    """Return the rows that intersect `filter`. Rows share a few texts, each of which is tried
    once."""
    known: dict[str, bool] = {}
    found = []
    for row in rows:
        text = row.filter.text
        if text not in known:
            known[text] = intersects(row.filter, filter)
        if known[text]:
            found.append(row)
    return found


class AdvertisementTable(Table[Row]):
    """SRT (subscription routing table): advertisements, which subscriptions follow."""

    columns = ("advertisement", "filter", "last hop")

    def __init__(self) -> None:
        super().__init__()
        self._advertised: dict[LinkName, AdvertisedTexts] = {}

    def add(self, row: Row) -> None:
        super().add(row)
        self._advertised.setdefault(row.last_hop, AdvertisedTexts()).add(row.filter)

    def remove(self, id: EntityId, link: LinkName) -> Row | None:
        row = super().remove(id, link)
        if row is not None:
            self._advertised[link].remove(row.filter)
            if not self._advertised[link]:
                del self._advertised[link]
        return row

    def has_text(self, link: LinkName, text: str) -> bool:
        """Return whether an advertisement with exactly this text came by `link`."""
        return text in self._advertised.get(link, ())

    def wanted_by(self, link: LinkName, subscription: Filter) -> bool:
        """Return whether some advertisement from `link` intersects `subscription`."""
        advertised = self._advertised.get(link)
        return advertised is not None and advertised.intersects(subscription)


class SubscriptionTable(Table[Row]):
    """PRT (publication routing table): subscriptions, which publications follow."""

    columns = ("subscription", "filter", "last hop")

    def __init__(self, new_index: IndexFactory) -> None:
        super().__init__()
        index = new_index()
        self._index = index if isinstance(index, NextHopIndex) else RowIndex(index)
        self.next_hops = self._index.next_hops
        """For each publication, the next hops of the rows that it matches."""
        self.digests = self._index.digests
        self.compiled = self._index.compiled

    def add(self, row: Row) -> None:
        super().add(row)
        self._index.add(row, row.filter)

    def remove(self, id: EntityId, link: LinkName) -> Row | None:
        row = super().remove(id, link)
        if row is not None:
            self._index.remove(row)
        return row
