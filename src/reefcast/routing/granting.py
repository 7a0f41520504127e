"""What clients of one broker may publish and see (`model.grants`), and what changes when that does.

Rules
-----
- A subscription of a client enters the network as what it asks for AND what its user may see, at
  the client's broker: every other broker has that row only. So all indexes enforce it, and what
  nobody may see does not travel. The client's own numbers and filters stay its own.
- When what a user may see changes, each of his rows is replaced in one input of the core: what is
  matched from then on at this broker is matched by the new row. The other brokers learn of the new
  row before they forget the old one: so what both match is never missing, and what only the new
  one matches comes as soon as that has settled. A row that replaces another has an id of its own
  (ids are never used again): the client's number, and above that how often it was replaced.
- What waits in this broker for the client and lies outside now is dropped (`Ordering.withdraw`,
  `ClientPort.withdraw`, `Home`).
- What the client may publish is asked for each publication (`ClientState.objection`); what was
  accepted before goes its way.

Cost: none for clients that may do everything. For others, one index instead of none, or of that of
their advertisements, for each publication on the compiled path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from reefcast.errors import LocalError
from reefcast.model.filters import Filter
from reefcast.model.grants import NO_GRANTS, NOTHING, Grant, Grants
from reefcast.model.messages import (
    Effect,
    LinkName,
    Send,
    Subscribe,
    TableChange,
    Unsubscribe,
    is_durable,
)
from reefcast.model.subjects import Subject
from reefcast.routing.capabilities import Refuses, capability
from reefcast.routing.clients import ClientState
from reefcast.routing.consequences import Consequences
from reefcast.routing.ordering import Ordering
from reefcast.routing.router import Router
from reefcast.routing.services import Services
from reefcast.routing.tables import REPLACED


class _Narrowed(NamedTuple):
    """A subscription of a client: its `own` filter, that of its `row` (None: it has none), and how
    often that was replaced."""

    own: Filter
    row: Filter | None
    times: int = 0


class Granting:
    """The grants of one broker's clients; it uses the broker's parts."""

    def __init__(
        self,
        router: Router,
        then: Consequences,
        clients: Mapping[LinkName, ClientState],
        ordering: Ordering,
        services: Services,
        grants: Grants = NO_GRANTS,
    ) -> None:
        self.grants = grants
        self._router = router
        self._then = then
        self._clients = clients
        self._ordering = ordering
        self._services = services
        self._refuses = capability(router, Refuses)
        self._rows: dict[LinkName, dict[int, _Narrowed]] = {}
        self._last: tuple[Filter, Filter] | None = None

    def of(self, subject: Subject | None) -> Grant | None:
        """Return what a user may do; None: everything."""
        return self.grants.of(subject)

    # --- clients ----------------------------------------------------------------------------------

    def came(self, client: ClientState, subject: Subject | None, inbox: str) -> list[Send]:
        """Note who the user of a client is that has just come."""
        if subject is None:
            return []
        grant = self.grants.of(subject)
        client.take_grant(grant, inbox)
        return self._services.granted(client.name, grant)

    def left(self, client: LinkName) -> None:
        """Forget a client that is gone."""
        self._rows.pop(client, None)

    # --- subscriptions ----------------------------------------------------------------------------

    def objection(self, client: ClientState, message: TableChange, filter: Filter) -> str | None:
        """Return why a client must not advertise or subscribe to this; None if it may, and what it
        subscribes to is narrowed by `row_of`."""
        grant = client.grant
        if grant is None:
            return None
        if not isinstance(message, Subscribe):
            return grant.objection_to_advertising(filter)
        try:
            row = grant.narrowed(filter, client.inbox)
        except LocalError as error:
            if not is_durable(client.name):  # a session keeps its subscriptions, whatever comes
                return str(error)
            row = NOTHING
        self._last = (filter, row)
        return self._refuses.objection(row)

    def row_of(
        self, client: ClientState, message: TableChange, filter: Filter | None
    ) -> tuple[TableChange, Filter | None]:
        """Return a client's change of a subscription as the change of its row: with the narrowed
        filter, and under the id of the row."""
        link, number = client.name, message.id[1]
        if isinstance(message, Unsubscribe):
            known = self._rows.get(link, {}).pop(number, None)
            if known is not None and known.times:
                message = Unsubscribe(_row_id(link, number, known.times), message.token)
            return message, filter
        if client.grant is None or filter is None or self._last is None:
            return message, filter
        own, row = self._last
        assert own is filter, "`objection` was asked about it"
        self._rows.setdefault(link, {})[number] = _Narrowed(own, row)
        return replace(message, filter=row.text), row

    # --- changes ----------------------------------------------------------------------------------

    def change(self, client: ClientState, subject: Subject | None) -> list[Effect]:
        """Handle that the user of a client may do something else from now on, or is another."""
        grant = self.grants.of(subject)
        if grant == client.grant:
            return []
        client.take_grant(grant, client.inbox)
        effects: list[Effect] = []
        for number, known in self._known(client.name).items():
            effects += self._replace(client, number, known)
        self._ordering.withdraw(client.name, client.sees)
        return effects + self._then.act(self._services.granted(client.name, grant))

    def _known(self, link: LinkName) -> dict[int, _Narrowed]:
        """Return a client's subscriptions by number. If the client was not restricted before, its
        rows have its own filters."""
        rows = self._rows.get(link)
        if rows is None:
            table = self._router.prt.from_hop(link)
            rows = {row.number: _Narrowed(row.filter, row.filter) for row in table}
            self._rows[link] = rows
        return dict(sorted(rows.items()))

    def _replace(self, client: ClientState, number: int, known: _Narrowed) -> list[Effect]:
        """Replace the row of a subscription by what its client may see of it now."""
        link, row = client.name, self._row(client, known.own)
        if row == known.row:
            return []
        times = known.times + 1
        self._rows[link][number] = _Narrowed(known.own, row, times)
        effects: list[Effect] = []
        if row is not None:
            new = Subscribe(_row_id(link, number, times), row.text)
            work = self._then.begin_work(link, new)
            sends = self._router.change(new, row, link, local=True)
            self._then.wait_for_stand_ins(work, new.id)
            effects += self._then.send(work, sends)
        if known.row is not None:
            old = Unsubscribe(_row_id(link, number, known.times))
            effects += self._then.act(self._router.change(old, None, link, local=True))
        return effects

    def _row(self, client: ClientState, own: Filter) -> Filter | None:
        """Return what a client may see of a subscription; None if that is nothing, or the routing
        does not carry it."""
        if client.grant is None:
            return own
        try:
            row = client.grant.narrowed(own, client.inbox)
        except LocalError:
            return None
        return row if row.conjunctions and self._refuses.objection(row) is None else None


def _row_id(client: LinkName, number: int, times: int) -> tuple[LinkName, int]:
    return (client, number + times * REPLACED)
