"""The state of one client at its broker: its advertisements, and the publications that wait for
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reefcast.model.covering import may_hold
from reefcast.model.filters import TRUE, Filter
from reefcast.model.grants import Grant
from reefcast.model.messages import (
    Advertise,
    EntityId,
    LinkName,
    Publish,
    TableChange,
    Unadvertise,
)
from reefcast.model.publication import Publication, Value
from reefcast.routing.advertised import Advertised
from reefcast.routing.tables import REPLACED

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex


class ClientState:
    """`unsettled`: advertisements under way; `holding`: publications wait for them, in `held`;
    `withdrawn`: advertisements withdrawn since, whose routes these publications still need;
    `superseded`: withdraws the implicit TRUE when all of the client's own advertisements have
    settled; `leaving`: its link is down, but the held publications have not been sent yet.
    `grant`: what its user may do, None: everything; `inbox`: its address for replies.
    `registered`: how many advertisements and subscriptions of its own it has, whose filters have
    `filter_bytes`."""

    def __init__(self, name: LinkName) -> None:
        self.name = name
        self.unsettled = 0
        self.holding = False
        self.leaving = False
        self.held: list[Publish] = []
        self.withdrawn: list[Unadvertise] = []
        self.superseded: Unadvertise | None = None
        self.ever_advertised = False
        self.grant: Grant | None = None
        self.inbox = ""
        self._implicit: EntityId | None = None
        self._advertised = Advertised()
        self._subscriptions: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._last_number = 0
        self.filter_bytes = 0

    @property
    def registered(self) -> int:
        return len(self._sizes)

    @property
    def subscribed(self) -> int:
        """How many of these are subscriptions."""
        return len(self._subscriptions)

    def take_grant(self, grant: Grant | None, inbox: str) -> None:
        """Note what its user may do from now on."""
        self.grant, self.inbox = grant, inbox
        self._advertised.grant(None if grant is None else grant.publish)

    def sees(self, publication: Publication) -> bool:
        """Return whether its user may see a publication that waits for it."""
        return self.grant is None or self.grant.sees(publication, self.inbox)

    def advertise_implicitly(self, broker: str, seq: int) -> EntityId:
        """Note an advertisement TRUE, under an id of its own, for a client that publishes without
        ever advertising.

        `seq` is the publication's number; clients' own numbers are above 0. The broker is part of
        the id: a client that lost it sends the same publication again through another one, while
        the rows of the first may still stand.
        """
        self._advertised.add(-seq, TRUE)
        self.ever_advertised = True
        self._implicit = (f"{self.name}@{broker}", -seq)
        return self._implicit

    def change(self, message: TableChange, filter: Filter | None) -> str | None:
        """Note a control message of this client; return what is wrong with it, if anything."""
        owner, number = message.id
        if owner != self.name:
            return f"the id ({owner!r}, {number}) is not one of client {self.name!r}"
        if filter is not None:
            return self._add(message, number, filter)
        known: Advertised | set[int] = (
            self._advertised if isinstance(message, Unadvertise) else self._subscriptions
        )
        if number not in known:
            kind = "advertisement" if isinstance(message, Unadvertise) else "subscription"
            return f"there is no {kind} number {number} of client {self.name!r}"
        known.remove(number)
        self.filter_bytes -= self._sizes.pop(number)
        return None

    def _add(self, message: object, number: int, filter: Filter) -> str | None:
        if number <= self._last_number:
            return f"number {number} is not above {self._last_number}; ids are never used again"
        if number >= REPLACED:
            return f"number {number} is too large: a client's numbers are below {REPLACED}"
        self._last_number = number
        if isinstance(message, Advertise):
            self._supersede_implicit()
            self._advertised.add(number, filter)
            self.ever_advertised = True
        else:
            self._subscriptions.add(number)
        self._sizes[number] = len(filter.text.encode())
        self.filter_bytes += self._sizes[number]
        return None

    def _supersede_implicit(self) -> None:
        """Let only the client's own advertisements count from now on; the network learns of it
        later, so that earlier publications still find their way."""
        if self._implicit is not None:
            self._advertised.remove(self._implicit[1])
            self.superseded, self._implicit = Unadvertise(self._implicit), None

    def take_ended(self) -> list[Unadvertise]:
        """Return the advertisements whose routes nothing needs any more, now that nothing is held,
        and forget them."""
        ended, self.withdrawn = self.withdrawn, []
        if self.superseded is not None and not self.unsettled:
            ended.append(self.superseded)
            self.superseded = None
        return ended

    def advertised(self) -> list[str]:
        """Return the texts of the client's advertisements, in their order."""
        return [filter.text for filter in self._advertised]

    def advertised_index(self) -> CompiledIndex[Any] | None:
        """Return the index of the client's advertisements; see `Advertised.index`."""
        return self._advertised.index()

    def objection(self, publication: Publication) -> str | None:
        """Return why this client must not publish this; None if it may."""
        if publication.publisher != self.name:
            return f"publisher {publication.publisher!r} is not this client ({self.name!r})"
        if self.grant is not None and (why := self.grant.objection(publication)) is not None:
            return why
        for filter in self._advertised.asked:
            if filter.matches(publication):
                return None
        return "it lies outside what this client advertised: " + (
            "; ".join(self.advertised()) or "nothing any more"
        )

    def objection_to_claim(self, claim: Publication | Mapping[str, Value]) -> str | None:
        """Return why this client must not say that it publishes this, or something that has these
        values; None if it may. One that has never advertised may publish anything."""
        if isinstance(claim, Publication):
            if self.ever_advertised or claim.publisher != self.name:
                return self.objection(claim)
            return None if self.grant is None else self.grant.objection(claim)
        if self.grant is not None and (why := self.grant.objection_to_key(claim)) is not None:
            return why
        if not self.ever_advertised or any(may_hold(each, claim) for each in self._advertised):
            return None
        key = " and ".join(f"{name} {value!r}" for name, value in claim.items())
        return f"{key} lies outside what this client advertised: " + (
            "; ".join(self.advertised()) or "nothing any more"
        )
