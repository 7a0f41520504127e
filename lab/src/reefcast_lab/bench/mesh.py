"""What a mesh costs a broker: when its links change, and for each publication.

One broker, the first of the overlay, is given the tables that it has in a quiet network: the
primary tree within Delta and every subscription with its anchor. Then soft links come and go, and
publications that match are routed. Beside each figure stands a plain twin that gives the same, in
the same run: edge contraction broker by broker, an anchor substituted for each subscription, path
computation by sets of names, and for a whole publication the routing `acyclic` with the same rows.

Times are of the processor (the machine may be busy), the median over rounds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from reefcast.errors import InternalError
from reefcast.model.messages import (
    Advertise,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Subscribe,
    Synced,
)
from reefcast.model.publication import Publication, Value
from reefcast.overlay.topology import Graph, hops_from
from reefcast.routing.broker import Broker
from reefcast.routing.mesh.maps import Neighbourhood, Wom
from reefcast.routing.mesh.messages import Anchored, Vicinity
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.mesh.strategies import StrategyName
from reefcast.routing.router import Decision, Router

ROUNDS = 30
PUBLICATIONS = 3_000
CHANGES = 20
"""Changes of links in one round; rounds of quicker operations have as many calls as take that
long."""
PAPER_US = {"WOM update": 800.0, "WST update": 17_000.0}
AIMS_US = {"WOM update": 100.0, "WST update": 2_000.0, "path": 2.0}
STRATEGIES: tuple[StrategyName, ...] = ("S0", "S1", "S2")

Subscription = tuple[str, str, str]
"""Client, broker, filter."""
Event = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class MeshTiming:
    """Microseconds of the processor for each call, and of the `twin` doing the same; `ratio`: how
    many times as long that takes. `paper_us`: the paper's figure; `aim_us`: ours."""

    what: str
    n: int
    cpu_us: float
    twin: str
    twin_cpu_us: float
    ratio: float
    paper_us: float | None = None
    aim_us: float | None = None
    in_aim: bool | None = None


@dataclass(frozen=True)
class Place:
    """The broker that is measured, and what it sees. `anchors`: of each event that matches."""

    core: Broker
    links: tuple[str, ...]
    publications: list[Publish]
    anchors: list[list[str]]

    @property
    def router(self) -> Mesh:
        assert isinstance(self.core.router, Mesh)
        return self.core.router

    @property
    def mom(self) -> Neighbourhood:
        return self.router.mesh.mom


def bench(
    graph: Graph,
    subscriptions: Sequence[Subscription],
    events: Sequence[Event],
    tell: Callable[[str], None],
) -> Iterator[MeshTiming]:
    """Yield all rows; `events` are published at the measured broker and elsewhere."""
    tell(f"{len(graph)} brokers, {len(subscriptions):,} subscriptions")
    places = {name: _place(graph, subscriptions, events, name) for name in STRATEGIES}
    yield _wom_row(places["S2"])
    yield _wst_row(places["S2"])
    for name, place in places.items():
        yield _path_row(place, name)
    for name, place in places.items():
        yield _route_row(place, name, graph, subscriptions)


# --- a broker with full tables --------------------------------------------------------------------


def _place(
    graph: Graph, subscriptions: Sequence[Subscription], events: Sequence[Event], name: StrategyName
) -> Place:
    options = MeshOptions(strategy=name)
    me, near = next(iter(graph)), options.delta
    core = Broker(me, "mesh", neighbours=graph[me], options=options)
    hops = hops_from(graph, me)
    closer = {x: min(graph[x], key=hops.__getitem__) for x in graph if x != me}
    mom = Neighbourhood(me, {x: up for x, up in closer.items() if hops[x] <= near})
    for link in graph[me]:
        core.handle(LinkUp(LinkKind.BROKER), link, 0.0)
        there = tuple((x, closer[x]) for x in mom.brokers if mom.branch(x) == link and x != link)
        core.handle(Vicinity(brokers=there, token=1), link, 0.0)
    for number, (client, home, text) in enumerate(subscriptions):
        if home != me:
            path = _path(closer, home)
            anchor = path[min(near, len(path)) - 1]
            message = Anchored(id=(client, 1), filter=text, anchor=anchor, token=2 + number)
            core.handle(message, path[0], 0.0)
    for link in graph[me]:
        core.handle(Synced(), link, 0.0)
    room = options.fanout - len(graph[me])
    far = [x for x in mom.brokers if hops[x] > 1]
    links = tuple(random.Random(0).sample(far, min(room, len(far))))
    for link in links if name != "S0" else ():
        core.handle(LinkUp(LinkKind.SOFT), link, 0.0)
    publications = [Publish(Publication("p", i, 0, dict(event))) for i, event in enumerate(events)]
    found = core.router.prt.next_hops([publish.publication for publish in publications])
    matching = [i for i, next_hops in enumerate(found) if next_hops.hops]
    if not matching:
        raise InternalError(f"none of the {len(events)} events matches anything beyond {me}")
    chosen = (matching * (PUBLICATIONS // len(matching) + 1))[:PUBLICATIONS]
    return Place(core, links, [publications[i] for i in chosen], [found[i].hops for i in chosen])


def _path(closer: Mapping[str, str], to: str) -> list[str]:
    """Return the path to `to`, from the first hop on."""
    path = [to]
    while (up := closer[path[-1]]) in closer:
        path.append(up)
    return path[::-1]


# --- timing ---------------------------------------------------------------------------------------


def _timed(work: Callable[[], object], calls: int, rounds: int = ROUNDS) -> float:
    """Return the CPU microseconds of each of the `calls` that `work` makes."""
    taken = []
    for _ in range(rounds):
        start = time.thread_time_ns()
        work()
        taken.append((time.thread_time_ns() - start) / calls / 1e3)
    return median(taken)


def _row(what: str, n: int, us: float, twin: str, twin_us: float) -> MeshTiming:
    kind = next((kind for kind in AIMS_US if what.startswith(kind)), None)
    aim = None if kind is None else AIMS_US[kind]
    return MeshTiming(
        what=what,
        n=n,
        cpu_us=round(us, 3),
        twin=twin,
        twin_cpu_us=round(twin_us, 3),
        ratio=round(twin_us / us, 2),
        paper_us=PAPER_US.get(what),
        aim_us=aim,
        in_aim=None if aim is None else us < aim,
    )


def _same(ours: object, twins: object, what: str) -> None:
    if ours != twins:
        raise InternalError(f"{what}: the twin finds {twins!r}, the mesh {ours!r}")


# --- links that change ----------------------------------------------------------------------------


def _wom_row(place: Place) -> MeshTiming:
    """Measure a new WOM for links of which one has changed."""
    mom, links = place.mom, place.links
    sets = [links[:i] + links[i + 1 :] for i in range(min(CHANGES, len(links)))]
    for some in sets:
        wom = Wom(mom, some)
        _same({x: wom.substitute(x) for x in mom.brokers}, contracted(mom, some), "contraction")
    ours = _timed(lambda: [Wom(mom, some) for some in sets], len(sets))
    twins = _timed(lambda: [_sets_of(mom, contracted(mom, some)) for some in sets], len(sets))
    return _row("WOM update", len(mom.brokers), ours, "contraction", twins)


def contracted(mom: Neighbourhood, links: Sequence[str]) -> dict[str, str]:
    """Fold edges as the paper describes it: brokers without a direct link, farthest first, fold
    into the next closer one, with all that was folded into them."""
    real = {*links, *mom.around(mom.me)}
    into = {x: [x] for x in mom.brokers}
    for broker in reversed(mom.brokers):
        if broker not in real:
            into[mom.closer[broker]] += into.pop(broker)
    return {x: broker for broker, folded in into.items() for x in folded}


def _sets_of(
    mom: Neighbourhood, into: Mapping[str, str]
) -> dict[str, tuple[set[str], set[str], set[str]]]:
    """Return between, beyond and behind of each neighbour by their definitions."""
    real = {x for x in mom.brokers if into[x] == x}
    between = {x: real.intersection(mom.path(x)) for x in real}
    return {
        x: (
            between[x],
            {y for y in real if x in between[y]},
            {y for y in real if mom.branch(y) != mom.branch(x)},
        )
        for x in real
    }


def _wst_row(place: Place) -> MeshTiming:
    """Measure a soft link that goes and comes again: the whole input, after which publications are
    routed by the new tables. The twin substitutes the anchor of every subscription."""
    core, mom, links = place.core, place.mom, place.links

    def flap() -> None:
        for link in links[:CHANGES]:
            core.handle(LinkDown(), link, 0.0)
            core.handle(LinkUp(LinkKind.SOFT), link, 0.0)

    def twin() -> None:
        for i in range(min(CHANGES, len(links))):
            for some in (links[:i] + links[i + 1 :], links):
                wom = Wom(mom, some)
                _ = {row.id: wom.substitute(row.next_hop) for row in core.router.prt}

    calls = 2 * min(CHANGES, len(links))
    ours, twins = _timed(flap, calls), _timed(twin, calls, 3)
    return _row("WST update", len(core.router.prt), ours, "row by row", twins)


# --- publications ---------------------------------------------------------------------------------


def _path_row(place: Place, strategy: str) -> MeshTiming:
    """Measure the choice of next hops for the anchors of matching subscriptions, for a local
    publication."""
    mesh, anchors = place.router.mesh, place.anchors
    links = place.links if strategy != "S0" else ()
    into = contracted(place.mom, links)
    choose = by_s2 if strategy == "S2" else by_s1
    for each in anchors:
        _same(set(mesh.sends(each, "p")), choose(place.mom, into, each), f"paths of {strategy}")
    ours = _timed(lambda: [mesh.sends(each, "p") for each in anchors], len(anchors))
    twins = _timed(lambda: [choose(place.mom, into, x) for x in anchors], len(anchors), 5)
    return _row(f"path {strategy}", len(anchors), ours, "sets of names", twins)


def by_s1(mom: Neighbourhood, into: Mapping[str, str], anchors: Sequence[str]) -> set[str]:
    """Return, for each branch, the farthest neighbour that is on the path to all of its anchors."""
    branches: dict[str, list[str]] = {}
    for anchor in anchors:
        branches.setdefault(mom.branch(anchor), []).append(into[anchor])
    found = set()
    for substitutes in branches.values():
        shared = [x for x in mom.path(substitutes[0]) if into[x] == x]
        for other in substitutes[1:]:
            shared = [x for x in shared if x in mom.path(other)]
        found.add(shared[-1])
    return found


def by_s2(mom: Neighbourhood, into: Mapping[str, str], anchors: Sequence[str]) -> set[str]:
    """Return the anchors that have no nearer one on the path to them."""
    substitutes = {into[anchor] for anchor in anchors}
    return {x for x in substitutes if not substitutes.intersection(mom.path(x)[:-1])}


def _route_row(
    place: Place, strategy: str, graph: Graph, subscriptions: Sequence[Subscription]
) -> MeshTiming:
    """Measure a publication from match to next hops, in batches, beside `acyclic` with the same
    rows."""
    router, publications = place.router, place.publications
    tree = _acyclic(graph, place.core, subscriptions).router
    ours = _timed(lambda: _routed(router, publications), len(publications))
    twins = _timed(lambda: _routed(tree, publications), len(publications))
    return _row(f"route {strategy}", len(publications), ours, "acyclic", twins)


def _routed(router: Router, publications: Sequence[Publish]) -> list[Decision]:
    return list(router.route(publications, router.match(publications, "p"), "p"))


def _acyclic(graph: Graph, like: Broker, subscriptions: Sequence[Subscription]) -> Broker:
    core = Broker(like.name, "acyclic", neighbours=graph[like.name])
    for link in graph[like.name]:
        core.handle(LinkUp(LinkKind.BROKER), link, 0.0)
        core.handle(Advertise((link, 1), "TRUE", 1), link, 0.0)
    for client, _, text in subscriptions:
        row = like.router.prt.get((client, 1))
        if row is not None:
            core.handle(Subscribe(row.id, text, 2), row.last_hop, 0.0)
    return core
