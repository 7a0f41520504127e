"""SPR and IDR under any order across links, churn and congestion: deliveries and tables are those
that the filters alone demand."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import Harness
from routing_scenarios import (
    Claims,
    act,
    deliveries_of,
    doubled,
    dump,
    probe,
    publish,
    random_scot,
    settle,
    wrong_tables,
)

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import diameter, path

SEEDS = st.integers(0, 2**32)
ROUTINGS = st.sampled_from(["spr", "idr", "idr"])  # it is the one with more to go wrong


def on_a_scot(routing: str, rng: random.Random, clients: int = 3) -> Harness:
    """Return a random SCOT with random congestion; publishers are p0..., subscribers s0..."""
    made = random_scot(rng)
    network = Harness(made, routing, rng, congestion=random.Random(rng.random()))
    for i in range(clients):
        network.connect(f"p{i}", rng.choice(sorted(made.graph)))
        network.connect(f"s{i}", rng.choice(sorted(made.graph)))
    return network


def churn(network: Harness, rng: random.Random, live: Claims, actions: int) -> None:
    for _ in range(actions):
        act(network, rng, live)
        some_steps(network, rng)


def some_steps(network: Harness, rng: random.Random) -> None:
    """Run some steps, with a link that stands still for a while now and then."""
    if network.slow or rng.random() < 0.1:
        network.slow = set()
        if rng.random() < 0.5:
            neighbours = rng.choice(sorted(network.overlay))
            network.slow = {(neighbours, other) for other in network.overlay[neighbours]}
    for _ in range(rng.randrange(4)):
        network.step()


def churned(routing: str, seed: int) -> tuple[Harness, Claims, random.Random]:
    rng = random.Random(seed)
    network = on_a_scot(routing, rng)
    live: Claims = {}
    churn(network, rng, live, rng.randrange(60))
    network.slow = set()
    settle(network)
    return network, live, rng


def all_is_well(network: Harness, live: Claims, rng: random.Random) -> None:
    """Check a quiet network: the tables are right, and what is published now reaches everybody
    once."""
    assert doubled(network) == []
    assert wrong_tables(network, live) == []
    network.delivered.clear()
    lost = unreachable(network)
    expected = probe(network, live, rng)
    assert sorted(network.delivered) == expected
    assert doubled(network) == []
    assert wrong_tables(network, live) == []
    assert unreachable(network) == lost


def unreachable(network: Harness) -> int:
    """Return how many clusters were counted as unreachable."""
    return sum(broker.counters["idr_unreachable"] for broker in network.brokers.values())


@settings(max_examples=200)
@given(seed=SEEDS, routing=ROUTINGS)
def test_once_quiet_exactly_once_with_true_tables_and_bits(seed: int, routing: str) -> None:
    all_is_well(*churned(routing, seed))


@settings(max_examples=40)
@given(seed=SEEDS, routing=ROUTINGS)
def test_every_control_message_is_answered_once_quiet(seed: int, routing: str) -> None:
    network, _, _ = churned(routing, seed)
    refused = {(client, refusal.token) for client, refusal in network.refused if refusal.token}
    asked = {(c, number) for c, last in network._numbers.items() for number in range(1, last + 1)}
    assert network.settled | refused >= asked


def keep_what_is_settled(seed: int, routing: str) -> None:
    """Check that subscriptions which settled and stay, among others that come and go, get every
    publication exactly once, from the first one on: those under new advertisements, too."""
    rng = random.Random(seed)
    network = on_a_scot(routing, rng)
    kept: Claims = {}
    for i in range(rng.randint(1, 6)):
        network.connect(f"s{i}-kept", rng.choice(sorted(network.overlay)))
        filter = rng.choice(["TRUE", "x > 2", "y = 'a'"])
        kept[f"s{i}-kept"] = {network.subscribe(f"s{i}-kept", filter): filter}
        some_steps(network, rng)
    live: Claims = {}
    expected = []
    churning = {client: home for client, home in network.home.items() if client not in kept}
    stayed = {client: home for client, home in network.home.items() if client in kept}
    for _ in range(rng.randrange(70)):
        network.home = churning
        if rng.random() < 0.4:
            publisher = rng.choice(["p0", "p1", "p2"])
            seq, attributes = publish(network, publisher, rng)
            settled = {s: mine for s, mine in kept.items() if (s, *mine) in network.settled}
            expected += deliveries_of(settled, (publisher, seq), attributes)
        else:
            act(network, rng, live)
        some_steps(network, rng)
    network.home = {**churning, **stayed}
    network.slow = set()
    network.run()
    assert doubled(network) == []
    refused = {refusal.publication for _, refusal in network.refused}
    mine = {(client, id) for client, id, _ in network.delivered if client in kept}
    assert [row for row in expected if row[1] not in refused and row[:2] not in mine] == []


@settings(max_examples=150)
@given(seed=SEEDS, routing=ROUTINGS)
def test_what_is_settled_misses_nothing_while_others_churn(seed: int, routing: str) -> None:
    keep_what_is_settled(seed, routing)


@settings(max_examples=60)
@given(seed=SEEDS)
def test_congestion_changes_no_table(seed: int) -> None:
    network, live, rng = churned("idr", seed)
    publishers = [client for client in network.home if client[0] == "p"]
    for publisher in publishers:
        live.setdefault(publisher, {})[network.advertise(publisher, "TRUE")] = "TRUE"
    network.run()
    before = dump(network)
    network.sent.clear()
    for _ in range(10):
        publish(network, rng.choice(publishers), rng)
    network.run()
    assert dump(network) == before
    assert set(network.sent) <= {"Publish"}


@settings(max_examples=60)
@given(seed=SEEDS)
def test_idr_without_congestion_is_spr(seed: int) -> None:
    """Copies are the same, and carry no header; hence so are deliveries."""
    found = []
    for routing in ("spr", "idr"):
        rng = random.Random(seed)
        network = on_a_scot(routing, rng)
        network.congestion = None
        network.lengths.clear()
        live: Claims = {}
        for i in range(3):
            live[f"s{i}"] = {network.subscribe(f"s{i}", "x > 1"): "x > 1"}
        probe(network, live, rng)
        found.append((sorted(network.copies), sorted(network.delivered)))
    assert found[0] == found[1]


# --- lengths of paths, counts of messages ---------------------------------------------------------


@settings(max_examples=80)
@given(seed=SEEDS, routing=ROUTINGS, congested=st.booleans())
def test_paths_are_no_longer_than_section_9_says(seed: int, routing: str, congested: bool) -> None:
    network, live, rng = churned(routing, seed)
    assert network.scot
    if not congested:
        network.congestion = None
        network.lengths.clear()
        network.now += 1
        for broker in network.brokers.values():
            broker.links.pass_time(network.now)
    network.copies.clear()
    probe(network, live, rng)
    d, m = diameter(network.scot.tree), network.scot.clusters
    limit = m * d + m - 1 if congested and routing == "idr" else d + (m > 1)
    assert max((copy.header.hops for copy in network.copies), default=0) <= limit


def test_the_longest_path_of_idr_is_reached() -> None:
    """With two clusters of two brokers: from b over a into the other cluster, and back to b. That
    is 2d + m-1 hops with m = 2 and d = 1."""
    network = Harness(scot(path("ab"), 2), "idr")
    for name, home in {"p": "b-0", "s0": "a-0", "s1": "b-1"}.items():
        network.connect(name, home)
    network.subscribe("s0", "TRUE")
    network.subscribe("s1", "TRUE")
    network.advertise("p", "TRUE")
    network.run()
    network.lengths["b-0", "b-1"] = 11
    network.publish("p", x=1)
    network.run()
    assert [(c.target, c.header.hops) for c in network.copies] == [
        ("a-0", 1),
        ("a-1", 2),
        ("b-1", 3),
    ]
    assert len(network.delivered) == 2


@settings(max_examples=60)
@given(seed=SEEDS, routing=ROUTINGS)
def test_messages_of_each_call(seed: int, routing: str) -> None:
    """m - 1 messages for an advertisement and |T| - 1 for a subscription; the same to withdraw
    them. A CIV_UNSET comes from each cluster that does not want what is advertised; later there is
    at most one CIV message for each iLink of the subscriber's cluster."""
    network, live, rng = churned(routing, seed)
    assert network.scot
    clusters, regions = network.scot.clusters, len(network.scot.tree)

    def sent() -> Counter[str]:
        """Return how many messages were sent since the last call, without the answers: each is
        answered once."""
        network.sent.clear()
        network.run()
        answers = network.sent.pop("Settled", 0)
        assert answers == network.sent.total()
        return Counter(network.sent)

    network.advertise("p0", "FALSE")  # supersedes the TRUE of one that published unasked
    sent()
    number = network.advertise("p0", "FALSE")
    assert sent() == +Counter(Advertise=clusters - 1, CivUnset=clusters - 1)
    network.unadvertise("p0", number)
    assert sent() == +Counter(Unadvertise=clusters - 1)
    places = network.scot.places
    here = places[network.home["p0"]].cluster
    others = {places[network.home[s]].cluster for s in live if s[0] == "s" and live[s]}
    network.advertise("p0", "TRUE")
    unset = clusters - len(others | {here})
    assert sent() == +Counter(Advertise=clusters - 1, CivUnset=unset)
    number = network.subscribe("s0", rng.choice(["x > 9", "y = 'a'"]))
    counted = sent()
    assert counted.pop("CivSet", 0) <= regions * (clusters - 1)
    assert counted == +Counter(Subscribe=regions - 1)
    network.unsubscribe("s0", number)
    counted = sent()
    assert counted.pop("CivUnset", 0) <= regions * (clusters - 1)
    assert counted == +Counter(Unsubscribe=regions - 1)


# --- restarts and links ---------------------------------------------------------------------------


def lose_clients(network: Harness, live: Claims) -> None:
    """Drop what the lost clients of a killed broker wanted."""
    for client in [client for client in live if client not in network.home]:
        del live[client]


def restart_while_others_churn(seed: int, routing: str) -> tuple[Harness, Claims, random.Random]:
    """Restart one or two brokers at any time, while others churn; their clients come back as new
    ones."""
    network, live, rng = churned(routing, seed)
    for _ in range(rng.randint(1, 2)):
        victim = rng.choice(sorted(network.brokers))
        network.kill(victim)
        lose_clients(network, live)
        if network.home:
            churn(network, rng, live, rng.randrange(12))
        network.start(victim)
        network.connect(f"s-{rng.random()}", victim)
        network.connect(f"p-{rng.random()}", victim)
        churn(network, rng, live, rng.randrange(12))
        network.slow = set()
        if rng.random() < 0.5:
            network.run()
    settle(network)
    return network, live, rng


@settings(max_examples=80)
@given(seed=SEEDS, routing=ROUTINGS)
def test_after_a_restart_all_is_relearned(seed: int, routing: str) -> None:
    network, live, rng = restart_while_others_churn(seed, routing)
    assert not any(broker.relearning for broker in network.brokers.values())
    all_is_well(network, live, rng)


def several_restart_at_once(seed: int, routing: str) -> None:
    """They do not wait for each other: without any timer everything is relearned, and every request
    is answered."""
    network, live, rng = churned(routing, seed)
    victims = [name for name in network.brokers if rng.random() < rng.choice([0.2, 0.5, 1.0])]
    for victim in victims:
        network.kill(victim)
    lose_clients(network, live)
    old = dict(network._numbers)
    for victim in victims:
        network.start(victim)
        network.connect(f"s-{victim}", victim)
        network.connect(f"p-{victim}", victim)
        churn(network, rng, live, rng.randrange(6))
    network.slow = set()
    network.run()
    assert not any(broker.relearning for broker in network.brokers.values())
    for client in network.home:
        asked = range(old.get(client, 0) + 1, network._numbers[client] + 1)
        assert {(client, number) for number in asked} <= network.settled
    all_is_well(network, live, rng)


@settings(max_examples=100)
@given(seed=SEEDS, routing=ROUTINGS)
def test_several_restart_at_once(seed: int, routing: str) -> None:
    several_restart_at_once(seed, routing)


@settings(max_examples=100)
@given(seed=SEEDS, routing=ROUTINGS)
def test_a_broker_that_stays_away_is_not_waited_for_for_ever(seed: int, routing: str) -> None:
    """Its neighbours give it up, or lose patience; later it comes back."""
    network, live, rng = churned(routing, seed)
    first, second = rng.choices(sorted(network.brokers), k=2)
    network.kill(first)
    if second != first:
        network.kill(second)
        network.start(second)
    lose_clients(network, live)
    if rng.random() < 0.5:
        network.run()
    else:
        for _ in range(rng.randrange(30)):
            network.step()
    if rng.random() < 0.7:
        for other in network.overlay[first]:
            network.give_up(first, other)
    settle(network)
    linked = [broker for broker in network.brokers.values() if broker.router.brokers]
    assert not any(broker.relearning for broker in linked)
    if network.home:
        churn(network, rng, live, rng.randrange(12))
    network.slow = set()
    network.down.clear()
    network.start(first)
    settle(network)
    all_is_well(network, live, rng)


@settings(max_examples=100)
@given(seed=SEEDS, routing=ROUTINGS)
def test_links_given_up_and_back(seed: int, routing: str) -> None:
    network, live, rng = churned(routing, seed)
    edges = [(a, b) for a in network.overlay for b in network.overlay[a] if a < b]
    gone = rng.sample(edges, min(len(edges), rng.randint(1, 3)))
    for a, b in gone:
        network.give_up(a, b)
    churn(network, rng, live, rng.randrange(20))
    network.slow = set()
    if rng.random() < 0.5:
        network.run()
    for a, b in gone:
        network.link_up(a, b)
        churn(network, rng, live, rng.randrange(4))
    network.slow = set()
    settle(network)
    all_is_well(network, live, rng)


@settings(max_examples=80)
@given(seed=SEEDS)
def test_idr_bypasses_i_links_that_are_down(seed: int) -> None:
    """Each cluster with interested subscribers is entered, or counted as unreachable: the copies
    that carry its bit may find no link that leads there."""
    network, live, rng = churned("idr", seed)
    assert network.scot
    places = network.scot.places
    for publisher in [client for client in network.home if client[0] == "p"]:
        live.setdefault(publisher, {})[network.advertise(publisher, "TRUE")] = "TRUE"
    network.run()
    for a, b in rng.sample(network.scot.i_links, len(network.scot.i_links) // 3):
        network.give_up(a, b)
    network.run()
    for publisher in [client for client in network.home if client[0] == "p"]:
        before = unreachable(network)
        network.delivered.clear()
        seq, attributes = publish(network, publisher, rng)
        network.run()
        missing = {
            places[network.home[row[0]]].cluster
            for row in deliveries_of(live, (publisher, seq), attributes)
            if row not in network.delivered
        }
        assert len(missing) <= unreachable(network) - before
    assert doubled(network) == []


# --- what settles is served -----------------------------------------------------------------------


def settles_around_a_restart(seed: int, routing: str) -> None:
    """Check that a subscription made before, during or after a broker's restart misses nothing that
    is published once it has settled and the broker has relearned."""
    rng = random.Random(seed)
    made = random_scot(rng)
    network = Harness(made, routing, rng, congestion=random.Random(rng.random()))
    victim = rng.choice(sorted(made.graph))
    others = [name for name in made.graph if name != victim]
    if not others:
        return
    publishers = [f"p{i}" for i in range(3)]
    for publisher in publishers:
        network.connect(publisher, rng.choice(others))
        network.advertise(publisher, "TRUE")
    network.run()
    restart, ask = rng.randrange(12), rng.randrange(12)
    number = 0
    for step in range(12):
        if step == restart:
            network.kill(victim)
            network.start(victim)
        if step == ask:
            network.connect("s", rng.choice(others))
            number = network.subscribe("s", "TRUE")
        some_steps(network, rng)
    while ("s", number) not in network.settled or network.brokers[victim].relearning:
        if not network.step():
            assert network.slow
            network.slow = set()
    if rng.random() < 0.5:
        network.slow = {(victim, other) for other in made.graph[victim]}
    expected = sorted(("s", (p, network.publish(p)), (number,)) for p in publishers)
    network.run()
    network.slow = set()
    network.run()
    assert sorted(network.delivered) == expected


@settings(max_examples=200)
@given(seed=SEEDS, routing=ROUTINGS)
def test_what_settles_around_a_restart_is_served(seed: int, routing: str) -> None:
    settles_around_a_restart(seed, routing)


@pytest.mark.soak
def test_many_random_scots() -> None:
    for seed in range(4_000):
        for routing in ("spr", "idr"):
            all_is_well(*churned(routing, seed))
            keep_what_is_settled(seed, routing)
            all_is_well(*restart_while_others_churn(seed, routing))
            settles_around_a_restart(seed, routing)
            several_restart_at_once(seed, routing)
