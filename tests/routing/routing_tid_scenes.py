"""Random scenes of TID routing: what clients do, what they may rely on, and what tables must
say."""

from __future__ import annotations

import random
from collections import Counter

from routing_harness import Harness

from reefcast.model.covering import intersects
from reefcast.model.filters import parse_filter
from reefcast.model.messages import EntityId
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import Graph, edges_of, graph, names, random_tree
from reefcast.routing.tid import TidRouter

FILTERS = ("x > 2", "x <= 2", "x IN (1, 3, 5)", "y IS NULL", "y = 'a' OR x = 4", "TRUE", "x > 9")
ADVERTISEMENTS = ("TRUE", "x > 1", "x <= 3", "y = 'a'", "x BETWEEN 2 AND 4")
ONCE = "p0"
"""The publisher that advertises only once."""
Attributes = dict[str, int | str]
Binding = tuple[EntityId, EntityId]


def random_overlay(rng: random.Random) -> Graph | Scot:
    if rng.random() < 0.25:
        return scot(random_tree(names(rng.randint(1, 4)), rng), rng.randint(1, 3))
    tree = random_tree(names(rng.randint(1, 8)), rng)
    pairs = [(a, b) for a in tree for b in tree if a < b and b not in tree[a]]
    return graph(tree, edges_of(tree) + rng.sample(pairs, rng.randint(0, len(pairs))))


class Scene:
    """Clients that come, go and speak at random, and the deliveries that they may rely on."""

    def __init__(self, routing: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.network = Harness(random_overlay(self.rng), routing, self.rng, self.rng)
        self.live: dict[str, dict[int, str]] = {}
        self.published: dict[tuple[str, int], Attributes] = {}
        self.promised: dict[tuple[str, int], set[tuple[str, int]]] = {}
        for _ in range(3):
            self.connect("p")
            self.connect("s")
        self.links_are_up = False
        if self.rng.random() < 0.8:
            self.run()
        self.advertise(ONCE, "TRUE")

    def connect(self, kind: str) -> None:
        name = f"{kind}{sum(client[0] == kind for client in self.live)}"
        self.live[name] = {}
        self.network.connect(name, self.rng.choice(sorted(self.network.brokers)))

    def clients(self, kind: str) -> list[str]:
        return sorted(client for client in self.network.home if client[0] == kind)

    def advertise(self, client: str, filter: str) -> None:
        self.live[client][self.network.advertise(client, filter)] = filter

    def publish(self, client: str) -> None:
        """Publish a random event. If all links are up, it is promised to the matching subscriptions
        that have settled."""
        attributes: Attributes = {"x": self.rng.randrange(6)}
        if self.rng.random() < 0.5:
            attributes["y"] = self.rng.choice("ab")
        id = (client, self.network.publish(client, **attributes))
        self.published[id] = attributes
        self.promised[id] = {
            (other, number)
            for other in self.clients("s")
            for number, text in self.live[other].items()
            if self.links_are_up
            and (other, number) in self.network.settled
            and parse_filter(text).holds(attributes)
        }

    def broken(self, client: str, numbers: list[int]) -> None:
        """Withdraw the promise of everything under way to these subscriptions."""
        for to in self.promised.values():
            to -= {(client, number) for number in numbers}

    def withdraw(self, client: str) -> None:
        number = self.rng.choice(sorted(self.live[client]))
        del self.live[client][number]
        if client[0] == "p":
            self.network.unadvertise(client, number)
        else:
            self.network.unsubscribe(client, number)
            self.broken(client, [number])

    def leave(self, client: str) -> None:
        self.network.disconnect(client)
        self.broken(client, list(self.live[client]))
        self.live[client] = {}
        self.connect(client[0])

    def lose(self, broker: str) -> None:
        """Lose a broker, with its clients."""
        for client, home in self.network.home.items():
            if home == broker:
                self.broken(client, list(self.live[client]))
                self.live[client] = {}
        self.network.kill(broker)

    def act(self) -> None:
        """Do one random action of a client."""
        rng = self.rng
        clients = self.clients(rng.choice("ppps"))
        if not clients:
            return
        client = rng.choice(clients)
        if rng.random() < 0.05:
            self.leave(client)
        elif client[0] == "s" and (not self.live[client] or rng.random() < 0.6):
            filter = rng.choice(FILTERS)
            self.live[client][self.network.subscribe(client, filter)] = filter
        elif client == ONCE or (client[0] == "p" and rng.random() < 0.6):
            self.publish(client)
        elif client[0] == "p" and (not self.live[client] or rng.random() < 0.6):
            self.advertise(client, rng.choice(ADVERTISEMENTS))
        else:
            self.withdraw(client)

    def run(self) -> None:
        self.network.run()
        self.network.fire_timers()
        self.network.run()
        self.links_are_up = True

    def churn(self) -> None:
        for _ in range(self.rng.randrange(80)):
            self.act()
            for _ in range(self.rng.randrange(8)):
                self.network.step()
        self.run()

    def missed(self) -> list[tuple[tuple[str, int], str, int]]:
        """Return the deliveries that were promised, and neither refused nor made."""
        refused = {refusal.publication for _, refusal in self.network.refused}
        got = {(id, client, n) for client, id, ns in self.network.delivered for n in ns}
        return sorted(
            (id, client, number)
            for id, to in self.promised.items()
            if id not in refused
            for client, number in to
            if (id, client, number) not in got
        )

    def routers(self) -> dict[str, TidRouter]:
        found: dict[str, TidRouter] = {}
        for name, broker in self.network.brokers.items():
            assert isinstance(broker.router, TidRouter)
            found[name] = broker.router
        return found


def churned(routing: str, seed: int) -> Scene:
    scene = Scene(routing, seed)
    scene.churn()
    return scene


def deliver_all(scene: Scene) -> None:
    """Let all publishers publish. Every interested subscriber must get each publication exactly
    once, and no table may change."""
    network = scene.network
    for publisher in scene.clients("p"):
        scene.advertise(publisher, "TRUE")
    scene.run()
    network.delivered.clear()
    tables = {name: dump(router) for name, router in scene.routers().items()}
    before = set(scene.published)
    for _ in range(12):
        scene.publish(scene.rng.choice(scene.clients("p")))
        for _ in range(scene.rng.randrange(4)):
            network.step()
    scene.run()
    expected = []
    for id in set(scene.published) - before:
        for client in scene.clients("s"):
            mine = sorted(number for to, number in scene.promised[id] if to == client)
            if mine:
                expected.append((client, id, tuple(mine)))
    assert sorted(network.delivered) == sorted(expected)
    assert tables == {name: dump(router) for name, router in scene.routers().items()}


# --- tables ---------------------------------------------------------------------------------------


def dump(router: TidRouter) -> dict[str, object]:
    """Return everything that the router has learned."""
    return {
        "srt": {tree.id: (tree.filter.text, tree.last_hop, tree.local) for tree in router.srt},
        "prt": {row.id: (row.filter.text, row.last_hop, row.local) for row in router.prt},
        "bound": {(row.id, t.id): hop for t in router.srt for row, hop in t.bound.items()},
        "trees": {(row.id, t.id) for row in router.prt for t in router.bindings.trees(row)},
        "hops": {tree.id: (tree.hops, tree.clients) for tree in router.srt},
    }


def way_up(routers: dict[str, TidRouter], start: str, tid: EntityId) -> list[str]:
    """Return the brokers on the way from `start` to the host broker of the advertisement."""
    way = [start]
    while True:
        tree = routers[way[-1]].srt.get(tid)
        assert tree is not None
        if tree.local:
            return way
        assert tree.last_hop not in way
        way.append(tree.last_hop)


def check_tables(scene: Scene) -> None:
    """Check that every broker knows every tree, and that the bindings are exactly the ways up the
    trees."""
    network, routers = scene.network, scene.routers()
    advertised = {tree.id: tree for router in routers.values() for tree in router.srt if tree.local}
    for client in scene.clients("p"):
        router = routers[network.home[client]]
        grown = router.grown.get(client, {}).values()
        assert all(len(each.trees) == 1 for each in grown)
        texts = [each.filter.text for each in grown]
        assert texts == network.brokers[network.home[client]].clients[client].advertised()
    bound: dict[str, dict[Binding, str]] = {name: {} for name in routers}
    stored = {name: set[EntityId]() for name in routers}
    for client in scene.clients("s"):
        home = network.home[client]
        for number, text in scene.live[client].items():
            known_as = (f"{client}@{home}", number)
            stored[home].add(known_as)
            for tid, tree in advertised.items():
                if intersects(tree.filter, parse_filter(text)):
                    way = way_up(routers, home, tid)
                    for hop, name in zip([client, *way], way, strict=False):
                        bound[name][known_as, tid] = hop
                        stored[name].add(known_as)
    for name, router in routers.items():
        assert {tree.id for tree in router.srt} == set(advertised)
        found = dump(router)
        assert found["bound"] == bound[name]
        assert found["trees"] == set(bound[name])
        assert {row.id for row in router.prt} == stored[name]
        for tree in router.srt:
            hops = Counter(h for (_, tid), h in bound[name].items() if tid == tree.id)
            local = [hop for hop in hops if hop in network.home]
            assert tree.clients == sum(hops[hop] for hop in local)
            assert tree.hops == sorted(set(hops) - set(local))
