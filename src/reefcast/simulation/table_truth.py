"""Checks of the tables of a quiet network: one function per routing, each the slow obvious way.

Each takes a `Scene` and returns sentences, one for each row that is missing, too many or wrong. The
truth is what clients want now, by their scripts, and the overlay; no message is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from reefcast.model.covering import covers, intersects
from reefcast.model.filters import parse_filter
from reefcast.model.messages import EntityId, LinkName
from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import Graph, hops_from
from reefcast.routing.acyclic import Acyclic
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.covering.outgoing import Every, Outgoing
from reefcast.routing.flooding import Flooding
from reefcast.routing.mesh.cluster import ClusterMesh
from reefcast.routing.mesh.meshed import Meshed
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.router import Router
from reefcast.routing.scot import ScotRouter
from reefcast.routing.tables import Row, Table
from reefcast.routing.tid import TidRouter
from reefcast.routing.tid_tables import VARIOUS
from reefcast.routing.tree import SubscriptionTree
from reefcast.routing.tree_router import TreeRouter

Rows = dict[EntityId, object]
"""What a table holds for each id: its last hop, and more where a routing keeps more."""


class Live(NamedTuple):
    """An advertisement or a subscription that a client wants now. `broker`: where the client is."""

    id: EntityId
    broker: str
    client: LinkName
    filter: str

    def meets(self, other: Live) -> bool:
        """Return whether the two filters intersect."""
        return intersects(parse_filter(self.filter), parse_filter(other.filter))


@dataclass(frozen=True)
class Scene:
    """A network that is quiet. `routers`: of every broker, by name; `scot`: where the overlay is
    one."""

    graph: Graph
    routers: Mapping[str, Router]
    subscriptions: list[Live]
    advertisements: list[Live]
    scot: Scot | None = None


# --- flooding -------------------------------------------------------------------------------------


def flooding(scene: Scene) -> list[str]:
    """Check that each subscription is known to its own broker only."""
    prt: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.subscriptions:
        prt[live.broker][live.id] = live.client
    return _compare("PRT", prt, _prt_of(scene))


# --- acyclic --------------------------------------------------------------------------------------


def acyclic(scene: Scene) -> list[str]:
    """Check that advertisements are everywhere, and subscriptions on the paths to advertisements
    that they intersect, as far as covering spreads them."""
    ways = {name: next_hops(scene.graph, name) for name in scene.graph}
    srt: dict[str, Rows] = {
        name: {live.id: _last_hop(live, name, ways[live.broker]) for live in scene.advertisements}
        for name in scene.graph
    }
    prt: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.subscriptions:
        way = ways[live.broker]
        for name in _brokers_that_need(live, scene.advertisements, way):
            prt[name][live.id] = _last_hop(live, name, way)
    found = {name: _hops(_on_a_tree(router).srt) for name, router in scene.routers.items()}
    problems = _compare("SRT", srt, found)
    if _covers(scene):
        return problems + covered(scene)
    return problems + _compare("PRT", prt, _prt_of(scene))


def _on_a_tree(router: Router) -> TreeRouter:
    assert isinstance(router, TreeRouter)
    return router


def next_hops(graph: Graph, target: str) -> dict[str, str]:
    """Return for each broker of a tree the neighbour on the path to `target`."""
    hops: dict[str, str] = {}
    waiting = [target]
    for name in waiting:
        for other in graph[name]:
            if other != target and other not in hops:
                hops[other] = name
                waiting.append(other)
    return hops


def _last_hop(live: Live, name: str, ways: Mapping[str, str]) -> LinkName:
    return live.client if live.broker == name else ways[name]


def _brokers_that_need(
    subscription: Live, advertisements: Iterable[Live], ways: Mapping[str, str]
) -> set[str]:
    """Return the brokers on the paths from the subscriber's broker to intersecting
    advertisements."""
    need = {subscription.broker}
    for advertisement in advertisements:
        name = advertisement.broker
        if name not in need and advertisement.meets(subscription):
            while name not in need:
                need.add(name)
                name = ways[name]
    return need


# --- spr and idr ----------------------------------------------------------------------------------


def clustered(scene: Scene) -> list[str]:
    """Check that a subscription is at every broker of its host cluster, an advertisement at every
    broker of its host region, and that the bits of each CIV say which clusters hold a subscription
    that intersects."""
    prt: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.subscriptions:
        cluster = _cluster_of(scene, live.broker)
        ways = next_hops(_inside(scene, cluster), live.broker)
        for name in _scot(scene).cluster(cluster):
            prt[name][live.id] = _last_hop(live, name, ways)
    clt: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.advertisements:
        for name, row in _civ_rows(scene, live).items():
            clt[name][live.id] = row
    found = {name: _civs(router) for name, router in scene.routers.items()}
    subscriptions = covered(scene) if _covers(scene) else _compare("PRT", prt, _prt_of(scene))
    return subscriptions + _compare("CLT", clt, found)


def _scot(scene: Scene) -> Scot:
    assert scene.scot is not None
    return scene.scot


def _cluster_of(scene: Scene, broker: str) -> int:
    return _scot(scene).places[broker].cluster


def _inside(scene: Scene, cluster: int) -> Graph:
    """Return the tree of one cluster."""
    brokers = set(_scot(scene).cluster(cluster))
    return {name: [o for o in scene.graph[name] if o in brokers] for name in sorted(brokers)}


def _civ_rows(scene: Scene, advertisement: Live) -> dict[str, tuple[LinkName, str]]:
    """Return the CLT rows of one advertisement: last hop and CIV, by broker."""
    made = _scot(scene)
    home = made.places[advertisement.broker]
    wanted = 0
    for subscription in scene.subscriptions:
        bit = 1 << _cluster_of(scene, subscription.broker)
        if not wanted & bit and subscription.meets(advertisement):
            wanted |= bit
    own = 1 << home.cluster
    rows: dict[str, tuple[LinkName, str]] = {}
    for name in made.region(home.region):
        if name == advertisement.broker:
            rows[name] = (advertisement.client, _bits(own | wanted))
        else:
            rows[name] = (
                advertisement.broker,
                _bits(own | wanted & 1 << made.places[name].cluster),
            )
    return rows


def _bits(civ: int) -> str:
    return f"CIV {civ:b}"


def _civs(router: Router) -> Rows:
    assert isinstance(router, ScotRouter)
    return {row.id: (row.last_hop, _bits(row.civ)) for row in router.clt}


# --- covering -------------------------------------------------------------------------------------


def _trees(scene: Scene) -> Iterator[tuple[str, SubscriptionTree]]:
    for name, router in scene.routers.items():
        assert isinstance(router, TreeRouter | ScotRouter)
        yield name, router.tree


def _covers(scene: Scene) -> bool:
    """Return whether some broker need not tell all that its neighbours want."""
    meshed = [router for router in scene.routers.values() if isinstance(router, Meshed)]
    if meshed:
        return any(router.mesh.options.covering != "none" for router in meshed)
    outgoing = [out for _, tree in _trees(scene) for out in tree.outgoing.values()]
    return not all(isinstance(out, Every) for out in outgoing)


def covered(scene: Scene) -> list[str]:
    """Check that each broker has its own clients' subscriptions; that what was sent to a neighbour
    is what that neighbour has from there; and that it covers all that the neighbour wants, in a
    mesh with the same anchor."""
    own: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.subscriptions:
        own[live.broker][live.id] = live.client
    found = {name: _hops(row for row in tree.prt if row.local) for name, tree in _trees(scene)}
    problems = _compare("PRT", own, found)
    anchors = Anchors(scene)
    for name, tree in _trees(scene):
        for link, out in tree.outgoing.items():
            problems += _unlike(name, link, out, scene.routers[link].prt)
            problems += _uncovered(name, link, tree, out, anchors)
    return problems


def _unlike(name: str, link: str, out: Outgoing, there: Table[Row]) -> list[str]:
    """Compare entries of `out[U]` with U's rows from here."""
    rows = {row.id for row in there.from_hop(name)}
    return [
        f"{name} and {link} do not agree on whether {id} was sent"
        for id in sorted(rows.symmetric_difference(out.sent()))
    ]


def _uncovered(
    name: str, link: str, tree: SubscriptionTree, out: Outgoing, anchors: Anchors
) -> list[str]:
    """Return rows that the neighbour wants without an entry that covers them, and ghosts without
    use."""
    entries = [(out.filter_of(id), anchors.at(link, id)) for id in out.sent()]
    wanted = [row for row in tree.prt if row.last_hop != link and tree.wanted_by(link, row.filter)]
    problems = [
        f"{name}: nothing that was sent to {link} covers {row.id}"
        for row in wanted
        if row.filter.conjunctions
        and not any(
            covers(entry, row.filter) and anchor == anchors.at(link, row.id)
            for entry, anchor in entries
        )
    ]
    problems += [
        f"{name}: {id} was sent to {link}, but stands for nothing"
        for id in out.sent()
        if not any(covers(out.filter_of(id), row.filter) for row in wanted)
    ]
    return problems


# --- meshes ---------------------------------------------------------------------------------------


class Anchors:
    """The places where the anchors of a mesh must be; none for other routings."""

    def __init__(self, scene: Scene) -> None:
        self._delta = {
            name: router.mesh.options.delta
            for name, router in scene.routers.items()
            if isinstance(router, Meshed)
        }
        self._homes = {live.id: live.broker for live in scene.subscriptions}
        tree = primary_tree(scene)
        self._ways = {home: next_hops(tree, home) for home in {*self._homes.values()}}

    def at(self, broker: str, id: EntityId) -> str | None:
        """Return the broker Delta hops from `broker` towards the subscriber's, or that one
        itself."""
        home = self._homes.get(id)
        if home is None or broker not in self._delta:
            return None
        anchor = broker
        for _ in range(self._delta[broker]):
            anchor = self._ways[home].get(anchor, home)
        return anchor


def primary_tree(scene: Scene) -> Graph:
    """Return the tree of the primary links of a mesh; on a SCOT those of all clusters."""
    if scene.scot is None:
        return scene.graph
    inside = [_inside(scene, cluster) for cluster in range(scene.scot.clusters)]
    return {name: others for tree in inside for name, others in tree.items()}


def mesh(scene: Scene) -> list[str]:
    """Check a mesh on a tree: the tables as on any tree, and anchors, MOMs and soft links."""
    return acyclic(scene) + meshed(scene)


def clustered_mesh(scene: Scene) -> list[str]:
    """Check a mesh on a SCOT: the tables as on any SCOT, and those of the mesh in each cluster."""
    return clustered(scene) + meshed(scene)


def meshed(scene: Scene) -> list[str]:
    """Check that the next hops of rows are their anchors, that each MOM is the tree within Delta,
    and that both ends of a soft link agree that it is up and that one of them opened it."""
    tree, anchors = primary_tree(scene), Anchors(scene)
    problems = []
    for name, router in scene.routers.items():
        assert isinstance(router, Meshed)
        rows = [row for row in router.prt if not row.local and router.primary(row.last_hop)]
        truth: Rows = {row.id: anchors.at(name, row.id) for row in rows}
        found: Rows = {row.id: row.next_hop for row in rows}
        problems += _compare("anchors", {name: truth}, {name: found})
        problems += _wrong_mom(name, router, tree)
        problems += _loose_ends(name, router, scene)
    return problems


def _wrong_mom(name: str, router: Meshed, tree: Graph) -> list[str]:
    hops, ways = hops_from(tree, name), next_hops(tree, name)
    near = {x: ways[x] for x in ways if hops[x] <= router.mesh.options.delta}
    if router.mesh.mom.closer == near:
        return []
    return [f"MOM of {name}: it says {router.mesh.mom.closer}, but must say {near}"]


def _loose_ends(name: str, router: Meshed, scene: Scene) -> list[str]:
    problems = []
    for link, state in router.soft_links.items():
        other = scene.routers[link]
        assert isinstance(other, Meshed)
        back = other.soft_links.get(name)
        near = link in router.mesh.mom and router.mesh.mom.distance(link) > 1
        if not (near and back and state.up and back.up and SoftLink.OPENED in (state, back)):
            problems.append(f"soft links of {name}: {state} to {link}, which says {back}")
    return problems


# --- tid-s and tid-d ------------------------------------------------------------------------------


def trees(scene: Scene) -> list[str]:
    """Check that each advertisement is everywhere, with last hops that lead to its publisher; and
    that a subscription is bound to a tree at the brokers on its way up this tree, and nowhere else.
    """
    tids = {live.id: _tid_of(scene, live) for live in scene.advertisements}
    names = {tid: id for id, tid in tids.items()}
    found = {
        name: {names.get(tid, tid): hop for tid, hop in _hops(_tid(router).srt).items()}
        for name, router in scene.routers.items()
    }
    problems = [text for live in scene.advertisements for text in _astray(live, found)]
    srt: dict[str, Rows] = {
        name: {live.id: rows.get(live.id) for live in scene.advertisements}
        for name, rows in found.items()
    }
    problems += _compare("SRT", srt, found)
    if problems:
        return problems  # there are no ways to follow
    bound: dict[str, Rows] = {name: {} for name in scene.graph}
    prt: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.subscriptions:
        known_as = (f"{live.id[0]}@{live.broker}", live.id[1])
        prt[live.broker][known_as] = live.client
        for advertisement in scene.advertisements:
            if advertisement.meets(live):
                for name, hop in _way_up(live, advertisement, found):
                    bound[name][_pair(known_as, advertisement.id)] = hop
                    prt[name].setdefault(known_as, VARIOUS)
    bindings = {name: _bindings(router, names) for name, router in scene.routers.items()}
    return _compare("PRT", prt, _prt_of(scene)) + _compare("bindings", bound, bindings)


def _tid_of(scene: Scene, live: Live) -> EntityId:
    """Return the tree that publications under this advertisement take."""
    grown = _tid(scene.routers[live.broker]).grown.get(live.client, {}).get(live.id)
    return live.id if grown is None else grown.trees[0].id


def _tid(router: Router) -> TidRouter:
    assert isinstance(router, TidRouter)
    return router


def _astray(live: Live, srt: Mapping[str, Rows]) -> list[str]:
    """Return where the last hops do not lead to the advertisement's publisher."""
    problems = []
    for start in srt:
        name: object = start
        for _ in srt:
            name = srt[str(name)].get(live.id)
            if name not in srt:
                break
        if name != live.client or srt[live.broker].get(live.id) != live.client:
            problems.append(f"SRT of {start}: {live.id} does not lead to {live.broker}, but {name}")
    return problems


def _way_up(
    subscription: Live, advertisement: Live, srt: Mapping[str, Rows]
) -> Iterator[tuple[str, LinkName]]:
    """Yield the brokers on the path, each with the link that the subscription came by."""
    name, hop = subscription.broker, subscription.client
    while name != advertisement.client:
        yield name, hop
        name, hop = str(srt[name][advertisement.id]), name


def _pair(subscription: EntityId, advertisement: EntityId) -> EntityId:
    """Return both as one id, so that bindings compare like rows."""
    return f"{subscription} to {advertisement}", 0


def _bindings(router: Router, names: Mapping[EntityId, EntityId]) -> Rows:
    return {
        _pair(row.id, names.get(tree.id, tree.id)): hop
        for tree in _tid(router).srt
        for row, hop in tree.bound.items()
    }


# --- all ------------------------------------------------------------------------------------------


def _hops(rows: Iterable[Row]) -> Rows:
    return {row.id: row.last_hop for row in rows}


def _prt_of(scene: Scene) -> dict[str, Rows]:
    return {name: _hops(router.prt) for name, router in scene.routers.items()}


def _compare(table: str, truth: Mapping[str, Rows], found: Mapping[str, Rows]) -> list[str]:
    return [
        f"{table} of {name}: {id} says {found[name].get(id)}, but must say {truth[name].get(id)}"
        for name in truth
        for id in sorted({*found[name], *truth[name]})
        if found[name].get(id) != truth[name].get(id)
    ]


TRUTHS: dict[type, Callable[[Scene], list[str]]] = {
    Flooding: flooding,
    Acyclic: acyclic,
    ScotRouter: clustered,
    Mesh: mesh,
    ClusterMesh: clustered_mesh,
    TidRouter: trees,
}


def table_faults(routing: type[Router], scene: Scene) -> list[str]:
    """Return what is wrong in the tables; nothing for a routing without a check here."""
    known = [TRUTHS[kind] for kind in routing.__mro__ if kind in TRUTHS]
    return known[0](scene) if known else []
