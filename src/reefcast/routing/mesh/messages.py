"""Messages between brokers of a mesh, and the headers of their copies."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from reefcast.model.messages import Control, EntityId, Header, LinkName, PeerMessage, Subscribe
from reefcast.routing.clt import ScotHeader


class Vicinity(PeerMessage, frozen=True, kw_only=True, tag="vicinity"):
    """The brokers within Delta - 1 primary hops of the sender, without those behind the receiver:
    (broker, the next one from it towards the sender). In place of all that it said before."""

    brokers: tuple[tuple[LinkName, LinkName], ...]


class Anchored(PeerMessage, frozen=True, kw_only=True, tag="anchored"):
    """A subscription, as `Subscribe` has it, with its anchor at the receiver (see `anchors`)."""

    costs_like: ClassVar[type[Control]] = Subscribe
    id: EntityId
    filter: str
    anchor: LinkName

    @property
    def brings(self) -> EntityId:
        return self.id

    @property
    def says(self) -> tuple[EntityId, ...]:
        return (self.id,)


Load = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Loads(PeerMessage, frozen=True, kw_only=True, tag="loads"):
    """Output rates of brokers within Delta - 2 primary hops of the sender, as shares of their
    capacity."""

    loads: tuple[tuple[LinkName, Load], ...]


class Tunnel(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A copy that was lost with its soft link goes from `source` to `target` along primary links,
    and is matched nowhere before."""

    source: LinkName
    target: LinkName


class Stamp(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The tables by which brokers forward a copy while `move` runs: the old ones, or the `new`."""

    move: int
    new: bool


class MeshHeader(Header, frozen=True, gc=False):
    """`tunnel`: None for what is matched at every hop. `stamp`: None for what no broker stamped
    that a move affects."""

    tunnel: Tunnel | None = None
    stamp: Stamp | None = None


class ClusterMeshHeader(ScotHeader, frozen=True, gc=False):
    """The same in the mesh of a cluster, whose copies may have clusters to reach."""

    tunnel: Tunnel | None = None

    def packed(self) -> tuple[object, ...]:
        return (*super().packed(), self.tunnel)


def stamp_of(header: Header) -> Stamp | None:
    """Return the stamp; None for an unstamped copy."""
    return header.stamp if isinstance(header, MeshHeader) else None


def tunnel_of(header: Header) -> Tunnel | None:
    """Return the tunnel; None for what is matched at every hop."""
    return header.tunnel if isinstance(header, MeshHeader | ClusterMeshHeader) else None
