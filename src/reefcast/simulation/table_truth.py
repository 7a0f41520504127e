"""What the tables of a quiet network must say: one function per routing, each the slow obvious way.

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
from reefcast.overlay.topology import Graph
from reefcast.routing.acyclic import Acyclic
from reefcast.routing.covering.outgoing import Every, Outgoing
from reefcast.routing.flooding import Flooding
from reefcast.routing.router import Router
from reefcast.routing.scot import ScotRouter
from reefcast.routing.tables import Row, Table
from reefcast.routing.tid import TidRouter
from reefcast.routing.tid_tables import VARIOUS
from reefcast.routing.tree import SubscriptionTree

Rows = dict[EntityId, object]
"""What a table says of each id: its last hop, and more where a routing keeps more."""


class Live(NamedTuple):
    """An advertisement or a subscription that a client wants now. `broker`: where the client is."""

    id: EntityId
    broker: str
    client: LinkName
    filter: str

    def meets(self, other: Live) -> bool:
        """Whether the two filters intersect."""
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
    """A subscription is known to its own broker only."""
    prt: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.subscriptions:
        prt[live.broker][live.id] = live.client
    return _compare("PRT", prt, _prt_of(scene))


# --- acyclic --------------------------------------------------------------------------------------


def acyclic(scene: Scene) -> list[str]:
    """Advertisements are everywhere; subscriptions on the ways to those that they intersect, as far
    as covering lets them."""
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
    found = {name: _hops(_acyclic(router).srt) for name, router in scene.routers.items()}
    problems = _compare("SRT", srt, found)
    if _covers(scene):
        return problems + covered(scene)
    return problems + _compare("PRT", prt, _prt_of(scene))


def _acyclic(router: Router) -> Acyclic:
    assert isinstance(router, Acyclic)
    return router


def next_hops(graph: Graph, target: str) -> dict[str, str]:
    """In a tree: from each broker the neighbour on the way to `target`."""
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
    """Those on the ways from the subscriber's broker to intersecting advertisements."""
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
    """A subscription is at every broker of its host cluster, an advertisement at every broker of
    its host region; the bits of each CIV say which clusters hold a subscription that intersects."""
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
    """The tree that one cluster is."""
    brokers = set(_scot(scene).cluster(cluster))
    return {name: [o for o in scene.graph[name] if o in brokers] for name in sorted(brokers)}


def _civ_rows(scene: Scene, advertisement: Live) -> dict[str, tuple[LinkName, str]]:
    """The CLT rows of one advertisement: last hop and CIV, by broker."""
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
        assert isinstance(router, Acyclic | ScotRouter)
        yield name, router.tree


def _covers(scene: Scene) -> bool:
    """Whether some broker need not tell all that its neighbours want."""
    outgoing = [out for _, tree in _trees(scene) for out in tree.outgoing.values()]
    return not all(isinstance(out, Every) for out in outgoing)


def covered(scene: Scene) -> list[str]:
    """Each broker has its own clients' subscriptions; what was sent to a neighbour is what this one
    has from there; and it covers all that the neighbour wants."""
    own: dict[str, Rows] = {name: {} for name in scene.graph}
    for live in scene.subscriptions:
        own[live.broker][live.id] = live.client
    found = {name: _hops(row for row in tree.prt if row.local) for name, tree in _trees(scene)}
    problems = _compare("PRT", own, found)
    for name, tree in _trees(scene):
        for link, out in tree.outgoing.items():
            problems += _unlike(name, link, out, scene.routers[link].prt)
            problems += _uncovered(name, link, tree, out)
    return problems


def _unlike(name: str, link: str, out: Outgoing, there: Table[Row]) -> list[str]:
    """Entries of `out[U]` against U's rows from here."""
    rows = {row.id for row in there.from_hop(name)}
    return [
        f"{name} and {link} do not agree on whether {id} was sent"
        for id in sorted(rows.symmetric_difference(out.sent()))
    ]


def _uncovered(name: str, link: str, tree: SubscriptionTree, out: Outgoing) -> list[str]:
    """Rows that the neighbour wants, without an entry that covers them; ghosts without use."""
    entries = [out.filter_of(id) for id in out.sent()]
    wanted = [row for row in tree.prt if row.last_hop != link and tree.wanted_by(link, row.filter)]
    problems = [
        f"{name}: nothing that was sent to {link} covers {row.id}"
        for row in wanted
        if row.filter.conjunctions and not any(covers(entry, row.filter) for entry in entries)
    ]
    problems += [
        f"{name}: {id} was sent to {link}, but stands for nothing"
        for id in out.sent()
        if not any(covers(out.filter_of(id), row.filter) for row in wanted)
    ]
    return problems


# --- tid-s and tid-d ------------------------------------------------------------------------------


def trees(scene: Scene) -> list[str]:
    """Each advertisement is everywhere, and its last hops lead to its publisher; a subscription is
    bound to a tree at the brokers on its way up this tree, and nowhere else."""
    found = {name: _hops(_tid(router).srt) for name, router in scene.routers.items()}
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
        prt[live.broker][live.id] = live.client
        for advertisement in scene.advertisements:
            if advertisement.meets(live):
                for name, hop in _way_up(live, advertisement, found):
                    bound[name][_pair(live.id, advertisement.id)] = hop
                    prt[name].setdefault(live.id, VARIOUS)
    bindings = {name: _bindings(router) for name, router in scene.routers.items()}
    return _compare("PRT", prt, _prt_of(scene)) + _compare("bindings", bound, bindings)


def _tid(router: Router) -> TidRouter:
    assert isinstance(router, TidRouter)
    return router


def _astray(live: Live, srt: Mapping[str, Rows]) -> list[str]:
    """Where the last hops do not lead to the advertisement's publisher."""
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
    """The brokers on the way, each with the link that the subscription came by."""
    name, hop = subscription.broker, subscription.client
    while name != advertisement.client:
        yield name, hop
        name, hop = str(srt[name][advertisement.id]), name


def _pair(subscription: EntityId, advertisement: EntityId) -> EntityId:
    """Both as one id, so that bindings compare like rows."""
    return f"{subscription} to {advertisement}", 0


def _bindings(router: Router) -> Rows:
    return {
        _pair(row.id, tree.id): hop for tree in _tid(router).srt for row, hop in tree.bound.items()
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
    TidRouter: trees,
}


def table_faults(routing: type[Router], scene: Scene) -> list[str]:
    """What the tables say wrongly; nothing for a routing of which no truth is known here."""
    known = [TRUTHS[kind] for kind in routing.__mro__ if kind in TRUTHS]
    return known[0](scene) if known else []
