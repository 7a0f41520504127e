"""Who gets what has a reserved topic (`model.reserved`), at one broker where there are advisory
events.

Rules
-----
- Clients neither advertise reserved topics nor publish under them.
- Advisory events reach the subscriptions that name them, and no others. The table of subscriptions
  does not know of this: rows are told, covered and matched as ever, and the choice is made where
  the client is. (A filter that matches everything may stand in for one that names advisory
  events.)
- Subscriptions that name them get nothing that only looks like an advisory event: a client's
  publication with such an attribute `topic`.

Costs: a look at each publication that takes the readable path and is delivered here. On the
compiled path, publications with topics, and clients with such subscriptions, are not plain
(`plain`); all others cost nothing.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from reefcast.model.filters import Filter
from reefcast.model.messages import (
    ADVISOR_MARK,
    LinkName,
    Subscribe,
    TableChange,
    Unsubscribe,
    is_advisory,
)
from reefcast.model.publication import Publication
from reefcast.model.reserved import (
    MAY_NOT_PUBLISH,
    any_reserved,
    claims_reserved,
    names_reserved,
)
from reefcast.routing.router import Decision

Local = dict[LinkName, list[int]]
"""Client -> ascending numbers of its subscriptions."""
NOBODY: Container[int] = ()


class Reserve:
    """`guards`: whether the network has advisory events (`advising`). `naming`: clients -> their
    subscriptions that name them."""

    def __init__(self, *, guards: bool) -> None:
        self.guards = guards
        self.naming: dict[LinkName, set[int]] = {}

    # --- what clients say -------------------------------------------------------------------------

    @staticmethod
    def objection_to_advertising(filter: Filter, client: LinkName) -> str | None:
        """Return why a client must not advertise this; None if it may."""
        if names_reserved(filter) and not client.startswith(ADVISOR_MARK):
            return MAY_NOT_PUBLISH
        return None

    def objection(self, publication: Publication) -> str | None:
        """Return why a client must not publish this; None if it may."""
        if any_reserved(publication.topics) and not is_advisory(publication.id):
            return MAY_NOT_PUBLISH
        return None

    def changed(self, message: TableChange, filter: Filter | None, client: LinkName) -> None:
        """Take note of a message of a client that changes its subscriptions."""
        number = message.id[1]
        if isinstance(message, Subscribe) and filter is not None and names_reserved(filter):
            self.naming.setdefault(client, set()).add(number)
        elif isinstance(message, Unsubscribe) and client in self.naming:
            self.naming[client].discard(number)
            if not self.naming[client]:
                del self.naming[client]

    def left(self, client: LinkName) -> None:
        """Forget a client."""
        self.naming.pop(client, None)

    # --- publications -----------------------------------------------------------------------------

    def within(self, decision: Decision, publication: Publication) -> Decision:
        """Return the decision about a publication with those who get it (`allowed`)."""
        local = self.allowed(publication, decision.local)
        if local is decision.local:
            return decision
        return msgspec.structs.replace(decision, local=local)

    def allowed(self, publication: Publication, local: Local) -> Local:
        """Return who among `local` gets a publication, by which subscriptions."""
        advises = is_advisory(publication.id)
        if not advises:
            named_by = not self.naming.keys().isdisjoint(local)
            if not (named_by and claims_reserved(publication)):
                return local
        found: Local = {}
        for link, numbers in local.items():
            naming = self.naming.get(link, NOBODY)
            if chosen := [number for number in numbers if (number in naming) is advises]:
                found[link] = chosen
        return found
