"""CLT (cluster link table): advertisements of one region, each with its CIV (cluster index vector).

A CIV is an int whose bit y stands for cluster y (the paper's Fig. 6 writes bit 0 at the right).
Section 8 of the paper gives it three contexts:

- *advertisement context*, at the publisher's host broker: its own bit is always 1, bit j says that
  cluster j is a target secondary cluster (TSC);
- *subscription context*, at the secondary broker of cluster j: the bit of the sender's cluster is
  1, bit j says that cluster j holds an intersecting subscription;
- *publication context*, in the header of a copy (`ScotHeader`).

A row in subscription context keeps a *witness*, one subscription of the cluster that intersects the
advertisement: its bit is 1 if and only if there is one. So a new subscription is compared only with
the rows without a witness, and a withdrawn one concerns only the rows whose witness it was."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Self

import msgspec

from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, Header, LinkName, PeerMessage
from reefcast.model.publication import INT64_MAX
from reefcast.routing.tables import Cell, Row, Table, written


class CivSet(PeerMessage, frozen=True, kw_only=True, tag="civ_set"):
    """The sender's cluster now holds a subscription that intersects these advertisements of the
    receiver's clients."""

    advertisements: tuple[EntityId, ...]

    @property
    def tells(self) -> tuple[EntityId, ...]:
        return self.advertisements


class CivUnset(PeerMessage, frozen=True, kw_only=True, tag="civ_unset"):
    """The sender's cluster holds no subscription (any more) that intersects these."""

    advertisements: tuple[EntityId, ...]


class ScotHeader(Header, frozen=True, gc=False):
    """The header of a copy that has clusters to reach: bit j of `civ` is set for each cluster j to
    which this copy must still be sent. A copy without any carries the plain `Header`."""

    civ: Annotated[int, msgspec.Meta(ge=0)] = 0

    def packed(self) -> tuple[object, ...]:
        """Return the fields; the CIV of more than 63 clusters is bytes, because msgpack's integers
        end there."""
        civ = self.civ
        wide = civ > INT64_MAX
        return (self.hops, civ.to_bytes((civ.bit_length() + 7) // 8) if wide else civ)

    @classmethod
    def unpacked(cls, fields: list[object]) -> Self:
        civ = [int.from_bytes(f) if isinstance(f, bytes) else f for f in fields[1:]]
        return super().unpacked([*fields[:1], *civ])


def civ_of(header: Header) -> int:
    """Return the clusters that a copy still has to be sent to."""
    return header.civ if isinstance(header, ScotHeader) else 0


class ClusterLinkRow(Row):
    """An advertisement with its CIV. `witness`: in subscription context, see above."""

    __slots__ = ("civ", "witness")

    def __init__(
        self, id: EntityId, filter: Filter, last_hop: LinkName, local: bool, civ: int
    ) -> None:
        super().__init__(id, filter, last_hop, local)
        self.civ = civ
        self.witness: EntityId | None = None


class ClusterLinkTable(Table[ClusterLinkRow]):
    """The CLT of one broker; `clusters` says how many bits a CIV has."""

    columns = ("advertisement", "filter", "last hop", "context", "CIV")
    shown: ClassVar[bool] = True

    def __init__(self, clusters: int) -> None:
        super().__init__()
        self._clusters = clusters
        self._by_witness: dict[EntityId, dict[ClusterLinkRow, None]] = {}

    def hosted_by(self, client: LinkName) -> Collection[ClusterLinkRow]:
        """Return the advertisements of one client of this broker."""
        return self._by_hop.get(client, {}).values()

    def remove(self, id: EntityId, link: LinkName) -> ClusterLinkRow | None:
        row = super().remove(id, link)
        if row is not None:
            self.set_witness(row, None)
        return row

    def set_witness(self, row: ClusterLinkRow, subscription: EntityId | None) -> None:
        if row.witness is not None:
            rows = self._by_witness[row.witness]
            del rows[row]
            if not rows:
                del self._by_witness[row.witness]
        row.witness = subscription
        if subscription is not None:
            self._by_witness.setdefault(subscription, {})[row] = None

    def witnessed_by(self, subscription: EntityId) -> list[ClusterLinkRow]:
        return list(self._by_witness.get(subscription, ()))

    def describe(self, row: ClusterLinkRow) -> tuple[Cell, ...]:
        """Return the cells of a row, the CIV as the paper writes it, with cluster 0 at the
        right."""
        context = "advertisement" if row.local else "subscription"
        civ = format(row.civ, f"0{self._clusters}b")
        return (written(row.id), row.filter.text, row.last_hop, context, civ)
