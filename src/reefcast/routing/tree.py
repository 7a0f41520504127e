"""The subscription tree: how subscriptions spread over an acyclic set of neighbours.

Rules
-----
- A subscription is stored in the PRT and forwarded over every link that wants it, never back over
  its own link. The owner decides which links want it: `acyclic` those from which an intersecting
  advertisement came, `scot` all aLinks.
- The same id may come by several links (see `tables`). A neighbour is told what came by all others
  than its own, as one subscription; when that changes, it is told again.
- A publication follows the subscriptions back: one copy per last hop that matches, never back.
- `outgoing[U]` says which of the subscriptions that U wants it is told of: all, or those that no
  other one covers (see `covering.outgoing`) that is as durable (`covering.lasting`). What was
  sent mirrors U's rows from here.
- The subscriptions that take the place of a withdrawn one are sent before its unsubscription, or in
  the same message (`Replace`), so that no settled subscriber misses anything.
- Covering is decided for each link by what was sent there and by what it wants now, never by what a
  message brought along.

Theory of operation
-------------------
The neighbours form a tree, so that a message that never goes back over the link it came by reaches
every broker once, without ids to remember. Per-publisher order follows from links that are FIFO.

A subscription that is not sent to U, because another one is, settles when that one has settled: see
`stand_ins`.

Source: the setting of `Siena` and `PADRES`; the covering paper, sections II and IV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from reefcast.errors import ProtocolError
from reefcast.matching.cover import new_cover_index
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import (
    Control,
    ControlMessage,
    EntityId,
    LinkName,
    PeerMessage,
    Send,
    Subscribe,
    Unsubscribe,
    is_durable,
)
from reefcast.routing.covering.lasting import Lasting
from reefcast.routing.covering.outgoing import Net, Outgoing
from reefcast.routing.tables import Row, SubscriptionTable

WantedBy = Callable[[LinkName, Filter], bool]
"""Whether a subscription is to be sent over a link."""

Say = Callable[[LinkName, Row], ControlMessage]
"""Returns the message that tells a neighbour of a row's subscription."""


def plainly(link: LinkName, row: Row) -> Subscribe:
    """Return the message by which clients subscribe."""
    return Subscribe(row.id, row.filter.text)


Prune = tuple[tuple[EntityId, int], ...]
"""How far an unsubscription goes: (advertisement, hops towards it)."""


class Replace(PeerMessage, frozen=True, kw_only=True, tag="replace"):
    """An unsubscription, of `id`, and the subscriptions that take its place (NRS), each covered by
    it: (id, text of its filter).

    `prune`: with strategy *incremental*, how far it is to go, (advertisement, hops from the
    receiver on); None: all the way.
    """

    costs_like: ClassVar[type[Control]] = Unsubscribe
    id: EntityId
    subscriptions: tuple[tuple[EntityId, str], ...]
    prune: Prune | None = None

    @property
    def says(self) -> tuple[EntityId, ...]:
        return tuple(id for id, _ in self.subscriptions)


class Replacement(NamedTuple):
    """A `Replace` with its filters parsed."""

    id: EntityId
    subscriptions: list[tuple[EntityId, Filter]]
    prune: Prune | None


def understood(message: Replace) -> Replacement:
    """Return the message with its filters parsed. Raises `FilterSyntaxError` for a malformed
    filter, and `ProtocolError` for an id that comes twice."""
    ids = [message.id, *(id for id, _ in message.subscriptions)]
    if len(set(ids)) < len(ids):
        raise ProtocolError(f"Replace of {message.id} names a subscription twice")
    subscriptions = [(id, parse_filter(text)) for id, text in message.subscriptions]
    return Replacement(message.id, subscriptions, message.prune)


MOST_PACKED_CHARS = 1_000_000
"""Characters of filters in one `Replace`: a frame has room for sixteen times as many."""
ID_CHARS = 100

NO_PRUNES: Mapping[EntityId, Prune] = MappingProxyType({})
NO_FILTERS: Mapping[EntityId, Filter] = MappingProxyType({})


class SubscriptionTree:
    """The PRT and `outgoing` of one broker over the tree links `neighbours` (kept by the owner).

    `wanted_by` decides where subscriptions go; it may give another answer after the owner's tables
    changed, if `catch_up` or `withdraw_unwanted` is called then. `new_outgoing` makes the
    `Outgoing` of a neighbour, `say` the message for it. `came_by`: the link by which an
    advertisement came. `counters`: counts, for each neighbour, the subscriptions that it wants and
    is not told of ("quenched"), those withdrawn for a broader one that came ("replaced"), and those
    sent in place of a withdrawn one ("nrs")."""

    def __init__(
        self,
        prt: SubscriptionTable,
        neighbours: list[LinkName],
        wanted_by: WantedBy,
        new_outgoing: Callable[[LinkName], Outgoing],
        counters: Counter[str],
        came_by: Callable[[EntityId], LinkName | None] = lambda id: None,
        say: Say = plainly,
    ) -> None:
        self.prt = prt
        self.neighbours = neighbours
        self.outgoing: dict[LinkName, Outgoing] = {}
        self._new_outgoing = new_outgoing
        self.wanted_by = wanted_by
        self._counters = counters
        self._came_by = came_by
        self._say = say

    def _out(self, link: LinkName) -> Outgoing:
        out = self.outgoing.get(link)
        if out is None:
            out = self.outgoing[link] = self._new_outgoing(link)
        return out

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, row: Row) -> list[Send]:
        known = self.prt.by(row.id, row.last_hop)
        if known is not None and (known.filter, known.next_hop) == (row.filter, row.next_hop):
            self.prt.confirm(row.id, row.last_hop)
            return []
        if known is not None:
            self.prt.remove(row.id, row.last_hop)
        elsewhere = row.id in self.prt
        self.prt.add(row)
        if elsewhere or known is not None:
            return self._told_again(row)
        sends: list[Send] = []
        for other in self.neighbours:
            if other != row.last_hop and self.wanted_by(other, row.filter):
                net = Net()
                self._take_up(other, net, row)
                if net.left:
                    self._counters["replaced"] += len(net.left)
                sends += self._tell(other, net)
        return sends

    def _told_again(self, row: Row) -> list[Send]:
        sends: list[Send] = []
        for other in self.neighbours:
            if other != row.last_hop:
                net = Net()
                self._look_again(other, net, row.id)
                sends += self._tell(other, net)
        return sends

    def _take_up(self, link: LinkName, net: Net, row: Row) -> None:
        """Add a subscription that the neighbour wants."""
        out = self._out(link)
        if is_durable(row.id[0]) and not isinstance(out, Lasting):
            out = self.outgoing[link] = Lasting(out, self._new_outgoing(link))
        net.add(out.add(row.id, row.filter))
        if row.id not in net.entered:
            net.again[row.id] = None
        if not out.is_sent(row.id):
            self._counters["quenched"] += 1

    def unsubscribe(
        self, ids: Iterable[EntityId], link: LinkName, prunes: Mapping[EntityId, Prune] = NO_PRUNES
    ) -> list[Send]:
        """Remove those of `ids` that came by `link`, all at once; `prunes`: how far, for those that
        need not go all the way."""
        gone: dict[EntityId, Filter] = {}
        elsewhere: list[EntityId] = []
        for id in ids:
            row = self.prt.remove(id, link)
            if row is not None and id in self.prt:
                elsewhere.append(id)
            elif row is not None:
                gone[id] = row.filter
        sends: list[Send] = []
        for other in dict.fromkeys((*self.outgoing, *(self.neighbours if elsewhere else ()))):
            out, net = self._out(other), Net()
            if elsewhere and other != link:
                for id in gone:  # else they might be told in the place of one of the others
                    if id in out.wanted and not out.is_sent(id):
                        net.add(out.remove(id))
                for id in elsewhere:
                    self._look_again(other, net, id)
            sends += self._withdraw(other, net, gone, prunes)
        return sends

    def _look_again(self, link: LinkName, net: Net, id: EntityId) -> None:
        """Update what `link` is told of this id, after one of several rows with it has come or
        gone."""
        out, row = self._out(link), self.prt.told(id, link)
        if id in out.wanted:
            net.add(out.remove(id))
        if row is not None and self.wanted_by(link, row.filter):
            self._take_up(link, net, row)

    def replace(self, message: Replacement, link: LinkName) -> list[Send]:
        """Replace a subscription by those that take its place, in one step.

        The old one covers all new ones: a link that does not want the old one does not want the new
        ones either (section IV-C)."""
        old = self.prt.by(message.id, link)
        ids = [message.id, *(id for id, _ in message.subscriptions)]
        if old is None or any(self.prt.told(id, link) for id in ids):
            next_hop = None if old is None else old.next_hop
            rows = [Row(id, filter, link, False, next_hop) for id, filter in message.subscriptions]
            sends = [send for row in rows for send in self.subscribe(row)]
            return sends + self.unsubscribe([message.id], link)
        entered = [entry for entry in message.subscriptions if entry[0] not in self.prt]
        for id, _ in message.subscriptions:
            self.prt.confirm(id, link)
        new = [Row(id, filter, link, False, old.next_hop) for id, filter in entered]
        for row in new:
            self.prt.add(row)
        self.prt.remove(message.id, link)
        prunes = {} if message.prune is None else {message.id: message.prune}
        sends = []
        for other, out in list(self.outgoing.items()):
            net = Net()
            if message.id in out.wanted:
                for row in new:
                    if self.wanted_by(other, row.filter):
                        self._take_up(other, net, row)
            sends += self._withdraw(other, net, {message.id: old.filter}, prunes)
        return sends

    def _withdraw(
        self,
        link: LinkName,
        net: Net,
        gone: Mapping[EntityId, Filter],
        prunes: Mapping[EntityId, Prune],
    ) -> list[Send]:
        """Remove rows that are `gone` from `outgoing[link]`, or preserve them there; `net`: the
        changes so far."""
        out = self._out(link)
        onward: dict[EntityId, Prune] = {}
        here = [id for id in gone if id in out.wanted]
        for id in sorted(here, key=out.is_sent):  # an entry stands in for nothing that is gone, too
            prune = prunes.get(id) if out.prunes else None
            if prune is not None:
                onward[id] = self._onward(link, prune)
            if prune is not None and not onward[id]:
                net.add(out.preserve(id))
            else:
                net.add(out.remove(id))
        return self._tell(link, net, gone, {id: hops for id, hops in onward.items() if hops})

    def _onward(self, link: LinkName, prune: Prune) -> Prune:
        """Return how far an unsubscription goes beyond `link`; empty if it does not reach that
        far."""
        return tuple((id, hops - 1) for id, hops in prune if hops > 0 and self._came_by(id) == link)

    def collect_overdue(self) -> list[Send]:
        """Remove ghosts with too many false positives, one hop upstream."""
        sends: list[Send] = []
        for link, out in self.outgoing.items():
            for ghost, filter, change in out.collect_overdue():
                net = Net()
                net.add(change)
                sends += self._tell(link, net, {ghost: filter}, {ghost: ()})
        return sends

    def stand_ins(self, id: EntityId) -> list[tuple[LinkName, EntityId]]:
        """Return, for each neighbour that wants the subscription and is not told of it, the entry
        that stands in for it."""
        found = [
            (link, out.stand_in(id)) for link, out in self.outgoing.items() if id in out.wanted
        ]
        return [(link, other) for link, other in found if other != id]

    # --- what a link wants changes ----------------------------------------------------------------

    def catch_up(self, link: LinkName) -> list[Send]:
        """Send the subscriptions that are wanted over `link` now and were not before."""
        out, net = self._out(link), Net()
        for row in self.prt:
            if (
                row.last_hop != link
                and row.id not in out.wanted
                and self.wanted_by(link, row.filter)
            ):
                self._take_up(link, net, self._row(row.id, link))
        return self._tell(link, net)

    def withdraw_unwanted(self, link: LinkName) -> list[Send]:
        """Withdraw over `link` the subscriptions that are no longer wanted there."""
        out = self.outgoing.get(link)
        if out is None:
            return []
        net = Net()
        net.add(out.drop_unwanted(lambda filter: self.wanted_by(link, filter)))
        return self._tell(link, net)

    # --- messages ---------------------------------------------------------------------------------

    def _tell(
        self,
        link: LinkName,
        net: Net,
        gone: Mapping[EntityId, Filter] = NO_FILTERS,
        prunes: Mapping[EntityId, Prune] = NO_PRUNES,
    ) -> list[Send]:
        """Tell the neighbour of the changes: first of what entered, and of ids whose filter has
        changed; then of unsubscriptions, those of subscriptions that are `gone` with those that
        take their place, if the strategy packs, and with how far they are to go."""
        packed: dict[EntityId, list[EntityId]] = {}
        if net.entered and gone:
            self._counters["nrs"] += len(net.entered)
        if net.entered and gone and self.outgoing[link].packs:
            packed = self._packed(link, net, gone)
        inside = {id for ids in packed.values() for id in ids}
        alone = [id for id in net.entered if id not in inside]
        alone += [id for id in net.again if self._is_told(link, net, id)]
        sends = [Send(link, self._say(link, self._row(id, link))) for id in alone]
        for id in net.left:
            if id not in packed and id not in prunes:
                sends.append(Send(link, Unsubscribe(id)))
                continue
            entries = tuple((new, self._row(new, link).filter.text) for new in packed.get(id, ()))
            sends.append(Send(link, Replace(id=id, subscriptions=entries, prune=prunes.get(id))))
        return sends

    def _is_told(self, link: LinkName, net: Net, id: EntityId) -> bool:
        """Return whether the neighbour knows this id, and it neither enters nor leaves."""
        out = self.outgoing[link]
        return id not in net.entered and id in out.wanted and out.is_sent(id)

    def _packed(
        self, link: LinkName, net: Net, gone: Mapping[EntityId, Filter]
    ) -> dict[EntityId, list[EntityId]]:
        """Return which of the entered subscriptions take the place of which that left, as far as a
        message has room; the others are sent separately."""
        places = new_cover_index()
        for id in net.left:
            if id in gone:
                places.add(id, gone[id])
        packed: dict[EntityId, list[EntityId]] = {}
        room = dict.fromkeys(net.left, MOST_PACKED_CHARS)
        for new in net.entered:
            filter = self._row(new, link).filter
            for place in places.covering(filter)[:1]:
                room[place] -= len(filter.text) + ID_CHARS
                if room[place] > 0:
                    packed.setdefault(place, []).append(new)
        return packed

    def _row(self, id: EntityId, link: LinkName) -> Row:
        row = self.prt.told(id, link)
        assert row is not None, "what is sent is in the PRT"
        return row

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        """Tell a neighbour without memory everything that it must know; doubt what it told
        before."""
        self.prt.doubt(link)
        self.outgoing.pop(link, None)
        return self.catch_up(link)

    def synced(self, link: LinkName) -> list[Send]:
        return self.unsubscribe(self.prt.unconfirmed(link), link)

    def link_down(self, link: LinkName, prunes: Mapping[EntityId, Prune] = NO_PRUNES) -> list[Send]:
        """Handle that a neighbour or a client is gone; `prunes`: see `unsubscribe`."""
        self.outgoing.pop(link, None)
        return self.unsubscribe([row.id for row in self.prt.from_hop(link)], link, prunes)
