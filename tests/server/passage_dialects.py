"""What neighbours say to a broker under its routing: the same subscriptions, advertisements and
publications of clients beyond them, in the messages and headers of each routing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from passage_twins import control

from live_networks import make_network
from reefcast.model.messages import (
    Advertise,
    ControlMessage,
    EntityId,
    Header,
    Relearned,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from reefcast.network.file import NetworkFile, scot_network
from reefcast.network.sections import LimitsSection, OverloadSection
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import graph
from reefcast.routing.clt import CivSet, CivUnset, ScotHeader
from reefcast.routing.mesh.messages import (
    Anchored,
    ClusterMeshHeader,
    MeshHeader,
    Tunnel,
    Vicinity,
)
from reefcast.routing.tid_tables import Bind, TidHeader, Torn, Unbind
from reefcast.server.supervisor import free_ports

BEYOND = {"x": "b", "y": "c", "z": "f"}
"""Clients of other brokers, and the neighbour from which their messages come."""


class Dialect:
    """The messages of acyclic routing. `names`: the neighbours that scripts call "b", "c" and "f",
    from which publications come; `others` only say that they are there. `soft`: the neighbours by a
    soft link. `moves`: the primary link that may move, and where to."""

    me = "m"
    names: Mapping[str, str] = {"b": "b", "c": "c", "f": "c"}
    others: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()

    def __init__(self, routing: str = "acyclic", **options: Any) -> None:
        self.routing = routing
        self.options = options

    def __repr__(self) -> str:
        return "-".join([self.routing, *self.options.values()])

    def network(self, **limits: Any) -> NetworkFile:
        links = [("m", "b"), ("m", "c")]
        return make_network("mbc", links, routing=self.routing, options=self.options, **limits)

    def name(self, role: str) -> str:
        return self.names.get(role, role)

    @property
    def neighbours(self) -> list[str]:
        named = [name for name in self.names.values() if name not in self.soft]
        return [*dict.fromkeys(named), *self.others]

    def greeting(self, name: str) -> bytes:
        return control(Synced()) + control(Relearned())

    def subscribe(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        return Subscribe((who, number), filter, token)

    def advertise(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        return Advertise((who, number), filter, token)

    def take_back(
        self, kind: type[Unsubscribe | Unadvertise], who: str, number: int, token: int
    ) -> ControlMessage:
        return kind((who, number), token)

    def header(self, who: str, hops: int, way: int) -> Header:
        return Header(hops)

    def news(self, way: int, known: Mapping[str, list[int]], token: int) -> tuple[str, bytes]:
        """Return another message of a neighbour, as (neighbour, frame)."""
        return "b", b""


class AdvisoryDialect(Dialect):
    """Acyclic routing in a network with advisory events."""

    def __repr__(self) -> str:
        return "advisories"

    def network(self, **limits: Any) -> NetworkFile:
        network = super().network(**limits)
        network.sessions.advisories = True
        return network


class ScotDialect(Dialect):
    """The messages of a SCOT: m-2 has a-2 and b-2 in its cluster, e-2 behind a-2, and m-0 and m-1
    in its region."""

    me = "m-2"
    names: Mapping[str, str] = {"b": "a-2", "c": "m-0", "f": "m-1"}
    others = ("b-2",)
    tau = 3.0

    def network(self, **limits: Any) -> NetworkFile:
        made = scot(graph("eabm", [("e", "a"), ("a", "m"), ("m", "b")]), 3)
        listen = [f"127.0.0.1:{port}" for port in free_ports(len(made.graph))]
        network = scot_network(made, listen, name="test", routing=self.routing)
        network.routing = self.options
        network.limits = LimitsSection(**limits)
        network.overload = OverloadSection(tau=self.tau)
        return network.validate()

    def _over_i_link(self, who: str) -> bool:
        return self.name(BEYOND.get(who, who)).startswith("m-")

    def subscribe(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        if self._over_i_link(who):
            return CivSet(advertisements=(("p", number), ("q", number)), token=token)
        return Subscribe((who, number), filter, token)

    def advertise(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        return Advertise((who, number), filter, token) if self._over_i_link(who) else None

    def header(self, who: str, hops: int, way: int) -> Header:
        return ScotHeader(hops, way) if way else Header(hops)

    def news(self, way: int, known: Mapping[str, list[int]], token: int) -> tuple[str, bytes]:
        kind = CivSet if way % 4 == 3 else CivUnset
        ids = tuple((who, number) for who in "pq" for number in known[who][way // 2 % 2 :: 2])
        return f"m-{way & 1}", control(kind(advertisements=ids, token=token))


class MeshDialect(Dialect):
    """The messages of a mesh: f and h are behind b, and g is behind f. f and h have soft links to
    m; that of f may become a primary one. With a capacity, SH changes its strategy."""

    names: Mapping[str, str] = {"b": "b", "c": "c", "f": "f"}
    soft = ("f", "h")
    moves: tuple[str, ...] = ("b", "f")
    near: tuple[tuple[str, str], ...] = (("f", "b"), ("h", "b"), ("g", "f"))

    def network(self, **limits: Any) -> NetworkFile:
        links = [("m", "b"), ("m", "c"), ("b", "f"), ("f", "g"), ("b", "h")]
        options = {**self.options, "coordinator": "m", "capacity_per_s": 5.0}
        return make_network("mbcfgh", links, routing=self.routing, options=options, **limits)

    def greeting(self, name: str) -> bytes:
        near = self.near if name == self.name("b") else ()
        return control(Vicinity(brokers=near)) + super().greeting(name)

    def subscribe(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        anchors = [self.name("c")]
        if who != "y":
            anchors = [self.name("b"), *(broker for broker, _ in self.near)]
        anchor = anchors[number % len(anchors)]
        return Anchored(id=(who, number), filter=filter, token=token, anchor=anchor)

    def header(self, who: str, hops: int, way: int) -> Header:
        if way < 2:
            return Header(hops)
        return MeshHeader(hops, Tunnel("g", "m" if way == 2 else "c"))

    def news(self, way: int, known: Mapping[str, list[int]], token: int) -> tuple[str, bytes]:
        told = self.near[: way % 4]
        return self.name("b"), control(Vicinity(brokers=told, token=token))


class ScotMeshDialect(MeshDialect):
    """The messages of `ScotDialect`; e-2 has a soft link."""

    me = "m-2"
    names: Mapping[str, str] = {"b": "a-2", "c": "m-0", "f": "e-2"}
    others = ("b-2", "m-1")
    soft = ("e-2",)
    moves = ()
    near = (("e-2", "a-2"),)

    def __init__(self, routing: str, **options: Any) -> None:
        super().__init__(routing, **options)
        self._scot = ScotDialect(routing, **options)

    def network(self, **limits: Any) -> NetworkFile:
        return self._scot.network(**limits)

    def greeting(self, name: str) -> bytes:
        in_cluster = name.endswith("-2")
        return super().greeting(name) if in_cluster else Dialect.greeting(self, name)

    def subscribe(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        teller = self._scot if who == "y" else super()
        return teller.subscribe(who, number, filter, token)

    def advertise(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        return self._scot.advertise("y", number, filter, token) if who == "y" else None

    def header(self, who: str, hops: int, way: int) -> Header:
        if way < 4:
            return self._scot.header(who, hops, way)
        return ClusterMeshHeader(hops, way & 3, Tunnel("e-2", "m-2" if way & 1 else "b-2"))

    def news(self, way: int, known: Mapping[str, list[int]], token: int) -> tuple[str, bytes]:
        return self._scot.news(way, known, token) if way & 4 else super().news(way, known, token)


class TidDialect(Dialect):
    """The messages of TID routing, on trees of clients of m, b and c, where there are any."""

    def _of(self, who: str, number: int) -> EntityId:
        return (f"{who}@{self.name(BEYOND.get(who, 'm'))}", number)

    def _trees(self, who: str) -> tuple[EntityId, ...]:
        """Return the trees to which a subscription is bound."""
        return tuple(self._of(each, number) for each in "pqxyz" for number in range(1, 5))

    def subscribe(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        trees = self._trees(who)[number % 4 == 0 :]
        return Bind(id=self._of(who, number), filter=filter, trees=trees, token=token)

    def advertise(self, who: str, number: int, filter: str, token: int) -> ControlMessage | None:
        way = (self.name(BEYOND[who]),)
        return Advertise(self._of(who, number), filter, token, via=way)

    def take_back(
        self, kind: type[Unsubscribe | Unadvertise], who: str, number: int, token: int
    ) -> ControlMessage:
        if who not in BEYOND:
            return super().take_back(kind, who, number, token)
        id = self._of(who, number)
        if kind is Unadvertise:
            return Unadvertise(id, token)
        return Unbind(id=id, trees=self._trees(who)[number % 2 :], token=token)

    def header(self, who: str, hops: int, way: int) -> Header:
        return TidHeader(hops, self._of(who, 1 + way // 2), way == 3) if way < 5 else Header(hops)

    def news(self, way: int, known: Mapping[str, list[int]], token: int) -> tuple[str, bytes]:
        who, teller = ("pb", "qc", "xc", "yb")[way % 4]
        tree, said = self._of(who, 1), b""
        if way > 3:  # and nothing is bound to it any more
            for each in (each for each, via in BEYOND.items() if self.name(via) == teller):
                for number in known[each]:
                    said += control(Unbind(id=self._of(each, number), trees=(tree,)))
        return teller, said + control(Torn(tree=tree, token=token))
