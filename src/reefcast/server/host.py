"""What the ends of connections need of their broker: its core, guarded, and its other parts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reefcast.model.messages import Discard, Input, LinkName, Publish
    from reefcast.overlay.network_file import NetworkFile
    from reefcast.server.client_session import Clients
    from reefcast.server.credit import CongestionControl


class Host(Protocol):
    """`session`: the random text drawn when this broker started."""

    name: str
    session: str
    network: NetworkFile
    loop: asyncio.AbstractEventLoop
    congestion: CongestionControl
    clients: Clients
    stopping: bool

    def input(self, item: Input, link: LinkName) -> bool:
        """One input of the core and its effects; False if the core failed on it, or an effect
        could not be carried out."""
        ...

    def publications(self, batch: list[Publish], link: LinkName) -> None:
        """Publications that came by `link`, and their effects; raises `ProtocolError` if the core
        failed on one of them (the others are done)."""
        ...

    def discarded(self, discard: Discard, link: LinkName | None) -> None:
        """A publication ended here, on its way to `link`."""
        ...

    def status(self) -> dict[str, object]: ...
