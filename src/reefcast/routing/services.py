"""Services of a broker besides routing publications. Their messages go over the same links, between
brokers and to and from clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from reefcast.model.filters import Filter
from reefcast.model.grants import Grant
from reefcast.model.keeping import Change
from reefcast.model.messages import LinkName, Publish, Send, ServiceMessage
from reefcast.model.publication import Publication, Value
from reefcast.routing.clients import ClientState
from reefcast.routing.tables import TableView

NO_FIGURES: Mapping[str, int] = {}


class Service(ABC):
    """A service at one broker. The messages that its methods return are sent in this order."""

    messages: ClassVar[tuple[type[ServiceMessage], ...]]

    @abstractmethod
    def handle(self, message: ServiceMessage, link: LinkName, *, client: bool) -> Sequence[Send]:
        """Handle one of `messages`, from a client or a neighbour. Raises `ProtocolError`, changing
        nothing, for what must not come by this link."""

    @abstractmethod
    def link_up(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        """Handle a new link to a client, or to a neighbour without memory of this broker, even if
        its link was up. A neighbour's messages may come before: a link beside the overlay becomes
        one of it at the other end first."""

    @abstractmethod
    def link_down(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        """Handle a link that is gone, or is no link of the overlay any more. Also called for links
        to brokers that never were."""

    @abstractmethod
    def away(self, client: LinkName) -> Sequence[Send]:
        """Handle a client that has lost its connection, and may come back: in that case no link
        comes up."""

    @abstractmethod
    def tables(self) -> Mapping[str, TableView[Any]]:
        """Return tables as `Router.tables` does."""

    # --- what only some services have -------------------------------------------------------------

    def pass_time(self, now: float) -> None:  # noqa: B027 (most services need no time)
        """Note that it is `now`, before an input other than publications."""

    def keep(  # noqa: B027 (most services keep nothing)
        self, rows: Mapping[str, Mapping[bytes, bytes]], write: Callable[[Change], None]
    ) -> None:
        """Take what the broker's disk held at the start (table -> key -> row), and `write` changes
        of such rows from now on."""

    def neighbour_away(self, link: LinkName) -> Sequence[Send]:
        """Handle that the connection of a neighbour is gone, which may come back: its link stays
        up until then, or until `link_down`."""
        return ()

    def neighbour_back(self, link: LinkName) -> None:  # noqa: B027 (most services need not know)
        """Handle that a neighbour that was away is connected again, and its link has gone on."""

    def granted(self, client: LinkName, grant: Grant | None) -> Sequence[Send]:
        """Note what a client may see from now on, None: everything: when it has come, and when that
        changes. A client that was never restricted is not told of."""
        return ()

    def claim(self, message: ServiceMessage) -> Publication | Mapping[str, Value] | None:
        """Return what a client must be allowed to publish in order to send this: a publication, or
        something with these values; None: anybody may."""
        return None

    def refuse(self, message: ServiceMessage, link: LinkName, reason: str) -> Sequence[Send]:
        """Return the answer to a client who may not send this, for this reason."""
        return ()

    def recalled(self, filter: Filter) -> Iterable[Publish]:
        """Return past publications that the service has, and that match."""
        return ()

    def figures(self) -> Mapping[str, int]:
        """Return what operators see among the broker's counters."""
        return NO_FIGURES


class Services(tuple[Service, ...]):
    """The services of one broker, each told of links that come up and go down."""

    @property
    def messages(self) -> list[type[ServiceMessage]]:
        return [message for service in self for message in service.messages]

    def pass_time(self, now: float) -> None:
        """Tell every service the time."""
        for service in self:
            service.pass_time(now)

    def keep(
        self, rows: Mapping[str, Mapping[bytes, bytes]], write: Callable[[Change], None]
    ) -> None:
        """Give every service what was on disk; see `Service.keep`."""
        for service in self:
            service.keep(rows, write)

    def recalled(self, filter: Filter) -> Iterator[Publish]:
        """Yield past publications that match."""
        for service in self:
            yield from service.recalled(filter)

    def link_up(self, link: LinkName, *, client: bool) -> list[Send]:
        """Report a new link to every service; see `Service.link_up`."""
        return [send for service in self for send in service.link_up(link, client=client)]

    def link_down(self, link: LinkName, *, client: bool) -> list[Send]:
        """Report a link that is gone to every service; see `Service.link_down`."""
        return [send for service in self for send in service.link_down(link, client=client)]

    def neighbour_away(self, link: LinkName) -> list[Send]:
        """Report a neighbour that is away to every service; see `Service.neighbour_away`."""
        return [send for service in self for send in service.neighbour_away(link)]

    def neighbour_back(self, link: LinkName) -> None:
        """Report a neighbour that is connected again to every service."""
        for service in self:
            service.neighbour_back(link)

    def granted(self, client: LinkName, grant: Grant | None) -> list[Send]:
        """Tell every service what a client may see; see `Service.granted`."""
        return [send for service in self for send in service.granted(client, grant)]

    def away(self, client: LinkName) -> list[Send]:
        """Report a client that is away to every service; see `Service.away`."""
        return [send for service in self for send in service.away(client)]


def serve(
    service: Service, message: ServiceMessage, link: LinkName, client: ClientState | None
) -> Sequence[Send]:
    """Have a service handle a message, unless it comes from a client that must not send it."""
    if client is not None and (claim := service.claim(message)) is not None:
        objection = client.objection_to_claim(claim)
        if objection is not None:
            return service.refuse(message, link, objection)
    return service.handle(message, link, client=client is not None)
