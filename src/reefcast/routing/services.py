"""Services of a broker besides routing publications. Their messages go over the same links, between
brokers and to and from clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from reefcast.model.messages import LinkName, Send, ServiceMessage
from reefcast.routing.tables import TableView


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


class Services(tuple[Service, ...]):
    """The services of one broker, each told of links that come up and go down."""

    @property
    def messages(self) -> list[type[ServiceMessage]]:
        return [message for service in self for message in service.messages]

    def link_up(self, link: LinkName, *, client: bool) -> list[Send]:
        """Report a new link to every service; see `Service.link_up`."""
        return [send for service in self for send in service.link_up(link, client=client)]

    def link_down(self, link: LinkName, *, client: bool) -> list[Send]:
        """Report a link that is gone to every service; see `Service.link_down`."""
        return [send for service in self for send in service.link_down(link, client=client)]

    def away(self, client: LinkName) -> list[Send]:
        """Report a client that is away to every service; see `Service.away`."""
        return [send for service in self for send in service.away(client)]
