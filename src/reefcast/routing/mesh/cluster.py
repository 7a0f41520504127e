"""Routings `spr-mesh` and `idr-mesh`: OctopiA with a mesh of soft links inside each cluster.

OctopiA's authors leave dynamic routing inside a cluster to future work (`octopia.txt`, section 11):
there copies follow the aLinks, a tree. Here the aLinks are the primary tree of a mesh; soft links
stay within the cluster. Between clusters nothing changes: a copy that has clusters to reach may
reach any broker of this one, as each has an iLink to each other cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reefcast.model.messages import Header, LinkName, Publish, Send
from reefcast.routing.clt import CivSet, CivUnset, civ_of
from reefcast.routing.courses import Course, Rows
from reefcast.routing.idr import Idr
from reefcast.routing.mesh.meshed import MESSAGES, Meshed
from reefcast.routing.mesh.messages import ClusterMeshHeader, Tunnel, tunnel_of
from reefcast.routing.mesh.view import SoftLinkTable
from reefcast.routing.router import Decision, Surroundings
from reefcast.routing.scot import ScotRouter, Spr, everywhere
from reefcast.routing.tables import NextHops, Row, TableView
from reefcast.routing.tree import SubscriptionTree


class ClusterMesh(Meshed, ScotRouter):
    """The shared part of both routings; see the module's docstring."""

    messages = (CivSet, CivUnset, *MESSAGES)
    header = ClusterMeshHeader
    keeps_order = False

    def new_tree(self, where: Surroundings) -> SubscriptionTree:
        return self.begin(where, self.a_links, everywhere)

    def in_tunnel(self, header: Header, tunnel: Tunnel) -> Header:
        return ClusterMeshHeader(header.hops + 1, civ_of(header), tunnel)

    def primary(self, link: LinkName) -> bool:
        return link in self.a_links

    def take_in(self, row: Row) -> list[Send]:
        return ScotRouter.take_in(self, row)

    def decide(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterable[Decision]:
        return ScotRouter.route(self, publications, found, link)

    def course(self, header: Header, link: LinkName) -> Course | None:
        course = super().course(header, link) if tunnel_of(header) is None else None
        return None if course is None else course._replace(rows=Rows.CHOSEN)

    def is_neighbour(self, link: LinkName) -> bool:
        return super().is_neighbour(link) or link in self.soft_links

    def inside(self, next_hops: list[LinkName], link: LinkName) -> Iterable[LinkName]:
        return self.sends(next_hops, link)

    def tables(self) -> dict[str, TableView[Any]]:
        return {**super().tables(), SoftLinkTable.name: SoftLinkTable(self.mesh)}


class SprMesh(ClusterMesh, Spr):
    """`spr` over meshes."""

    name = "spr-mesh"
    keeps_order = False


class IdrMesh(ClusterMesh, Idr):
    """`idr` over meshes."""

    name = "idr-mesh"
