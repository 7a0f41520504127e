"""Random actions of clients, and the deliveries and tables that the filters alone say must
follow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from routing_harness import Harness

from reefcast.model.filters import parse_filter
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import path, random_tree
from reefcast.routing.registry import routing_named
from reefcast.routing.scot import ScotRouter
from reefcast.simulation.table_truth import Live, Scene, table_faults

FILTERS = ("x > 2", "x <= 2", "x IN (1, 3, 5)", "y IS NULL", "y = 'a' OR x = 4", "TRUE", "x > 9")
ADVERTISEMENTS = ("TRUE", "x > 1", "x <= 3", "y = 'a'", "x BETWEEN 2 AND 4")

Claims = dict[str, dict[int, str]]
"""The live subscriptions ("s...") and advertisements ("p...") by client and number."""


def act(
    network: Harness, rng: random.Random, live: Claims, filters: Sequence[str] = FILTERS
) -> None:
    """Do one random action of a client; `live` keeps the subscriptions and advertisements."""
    client = rng.choice(sorted(network.home))
    kind, mine = client[0], live.setdefault(client, {})
    if kind == "s" and mine and rng.random() < 0.4:
        number = rng.choice(sorted(mine))
        del mine[number]
        network.unsubscribe(client, number)
    elif kind == "s":
        filter = rng.choice(filters)
        mine[network.subscribe(client, filter)] = filter
    elif mine and rng.random() < 0.3:
        number = rng.choice(sorted(mine))
        del mine[number]
        network.unadvertise(client, number)
    elif rng.random() < 0.5:
        filter = rng.choice(ADVERTISEMENTS)
        mine[network.advertise(client, filter)] = filter
    else:
        publish(network, client, rng)


def publish(network: Harness, client: str, rng: random.Random) -> tuple[int, dict[str, object]]:
    attributes: dict[str, object] = {"x": rng.randrange(6)}
    if rng.random() < 0.5:
        attributes["y"] = rng.choice("ab")
    return network.publish(client, **attributes), attributes


def random_scot(rng: random.Random, regions: int = 4, clusters: int = 4) -> Scot:
    tree = random_tree("abcdefgh"[: rng.randint(1, regions)], rng)
    return scot(tree, rng.randint(1, clusters))


Delivery = tuple[str, tuple[str, int], tuple[int, ...]]


def deliveries_of(
    live: Claims, id: tuple[str, int], attributes: dict[str, object]
) -> list[Delivery]:
    """Return who must get a publication, each with the numbers of the matching subscriptions."""
    rows = []
    for client in (client for client in live if client[0] == "s"):
        wanted = [n for n, f in live[client].items() if parse_filter(f).holds(attributes)]
        if wanted:
            rows.append((client, id, tuple(sorted(wanted))))
    return rows


def settle(network: Harness) -> None:
    """Run until the network is quiet, including what waits for timers."""
    network.run()
    network.fire_timers()
    network.run()


def probe(network: Harness, live: Claims, rng: random.Random, each: int = 2) -> list[Delivery]:
    """Let every publisher publish at once, under a settled advertisement TRUE; return who must get
    what."""
    publishers = sorted(client for client in network.home if client[0] == "p")
    for publisher in publishers:
        live.setdefault(publisher, {})[network.advertise(publisher, "TRUE")] = "TRUE"
    network.run()
    expected = []
    for publisher in publishers:
        for _ in range(each):
            seq, attributes = publish(network, publisher, rng)
            expected += deliveries_of(live, (publisher, seq), attributes)
    network.run()
    return sorted(expected)


# --- what must be true of any run -----------------------------------------------------------------


def wrong_tables(network: Harness, live: Claims) -> list[str]:
    """Return the faults that `table_truth` finds in the tables of a quiet network."""
    scene = Scene(
        network.overlay,
        {name: broker.router for name, broker in network.brokers.items()},
        _live(network, live, "s"),
        _live(network, live, "p"),
        network.scot,
    )
    return table_faults(routing_named(network.routing), scene)


def _live(network: Harness, live: Claims, kind: str) -> list[Live]:
    """Return the live subscriptions or advertisements, including the implicit TRUE of clients that
    published without advertising."""
    found = []
    for client, home in network.home.items():
        if client[0] != kind:
            continue
        for number, filter in live.get(client, {}).items():
            found.append(Live((client, number), home, client, filter))
        for number in network.brokers[home].clients[client]._advertised._filters:
            if number < 0:
                found.append(Live((f"{client}@{home}", number), home, client, "TRUE"))
    return found


def dump(network: Harness) -> dict[str, object]:
    """Return everything that the tables of a SCOT's brokers say."""
    said: dict[str, object] = {}
    for name, broker in network.brokers.items():
        router = broker.router
        assert isinstance(router, ScotRouter)
        prt = {row.id: (row.last_hop, row.filter.text) for row in router.prt}
        clt = {row.id: (row.last_hop, row.filter.text, row.civ) for row in router.clt}
        sent = {link: set(out.sent()) for link, out in router.tree.outgoing.items()}
        said[name] = (prt, clt, sent)
    return said


def doubled(network: Harness) -> list[object]:
    """Return the publications that a client or a broker got twice, and those that entered a cluster
    twice or entered the cluster that they came from."""
    counted: Counter[object] = Counter()
    counted.update((client, id) for client, id, _ in network.delivered)
    counted.update((copy.target, copy.id) for copy in network.copies)
    counted.update({(copy.source, copy.id) for copy in network.copies if copy.header.hops == 1})
    if network.scot:
        cluster = {name: place.cluster for name, place in network.scot.places.items()}
        counted.update(
            {(cluster[copy.source], copy.id) for copy in network.copies if copy.header.hops == 1}
        )
        counted.update(
            (cluster[copy.target], copy.id)
            for copy in network.copies
            if cluster[copy.target] != cluster[copy.source]
        )
    return [what for what, times in counted.items() if times > 1]


def all_is_answered(network: Harness) -> None:
    """Fail unless every request of a client was settled or refused, and nothing else was."""
    answered = {(client, number) for client, number in network.settled if number}
    refused = {(client, refusal.token) for client, refusal in network.refused if refusal.token}
    asked = {
        (client, number)
        for client in network.home
        for number in range(1, network._numbers[client] + 1)
    }
    assert answered | refused == asked


def one_link() -> Harness:
    """Return brokers a - b: client p at a publishes anything, and s at b subscribes to all of
    it."""
    network = Harness(path(["a", "b"]))
    network.connect("p", "a")
    network.connect("s", "b")
    network.subscribe("s", "TRUE")
    network.advertise("p", "TRUE")
    network.run()
    return network
