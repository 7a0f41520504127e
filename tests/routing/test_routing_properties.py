"""Under any interleaving, deliveries are those that the filters demand, each exactly once and in
order."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import Harness
from routing_scenarios import act, all_is_answered, publish

from reefcast.model.covering import intersects
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import Graph, hops_from, names, random_tree


def churned(routing: str, seed: int) -> tuple[Harness, dict[str, dict[int, str]], random.Random]:
    rng = random.Random(seed)
    overlay = random_tree(names(rng.randint(1, 7)), rng)
    network = Harness(overlay, routing, rng)
    for i in range(3):
        network.connect(f"p{i}", rng.choice(sorted(overlay)))
        network.connect(f"s{i}", rng.choice(sorted(overlay)))
    live: dict[str, dict[int, str]] = {}
    for _ in range(rng.randrange(60)):
        act(network, rng, live)
        for _ in range(rng.randrange(4)):
            network.step()
    network.run()
    network.fire_timers()
    network.run()
    return network, live, rng


@pytest.mark.parametrize("routing", ["acyclic", "flooding"])
@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_once_quiet_every_interested_subscriber_gets_it_exactly_once(
    routing: str, seed: int
) -> None:
    network, live, rng = churned(routing, seed)
    at_most_once = Counter((client, id) for client, id, _ in network.delivered)
    assert all(count == 1 for count in at_most_once.values())
    network.delivered.clear()
    expected = []
    for publisher in sorted(c for c in network.home if c.startswith("p")):
        number = network.advertise(publisher, "TRUE")
        live.setdefault(publisher, {})[number] = "TRUE"
        network.run()
        for _ in range(3):
            seq, attributes = publish(network, publisher, rng)
            for client in sorted(c for c in live if c.startswith("s")):
                wanted = sorted(
                    n for n, f in live[client].items() if parse_filter(f).holds(attributes)
                )
                if wanted:
                    expected.append((client, (publisher, seq), tuple(wanted)))
    network.run()
    assert sorted(network.delivered) == sorted(expected)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), routing=st.sampled_from(["acyclic", "flooding"]))
def test_publications_of_one_publisher_keep_their_order(seed: int, routing: str) -> None:
    network, _, _ = churned(routing, seed)
    last: dict[tuple[str, str], int] = {}
    for client, (publisher, seq), _ in network.delivered:
        assert seq > last.get((client, publisher), 0)
        last[client, publisher] = seq


def expected_tables(
    overlay: Graph, home: dict[str, str], live: dict[str, dict[int, str]], broker: str
) -> dict[str, int]:
    """Return the tables as they must be. SRT: every advertisement. PRT: local subscriptions, and
    those for which this broker lies on the way to an intersecting advertisement."""
    advertisements = [
        (home[c], f) for c, mine in live.items() if c[0] == "p" for f in mine.values()
    ]
    hops = {name: hops_from(overlay, name) for name in overlay}
    rows = 0
    for client, mine in live.items():
        if client[0] != "s":
            continue
        for text in mine.values():
            wants = parse_filter(text)
            rows += home[client] == broker or any(
                hops[home[client]][broker] + hops[broker][source] == hops[home[client]][source]
                and intersects(parse_filter(advertisement), wants)
                for source, advertisement in advertisements
            )
    return {"SRT": len(advertisements), "PRT": rows}


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_tables_agree_with_the_truth_once_quiet(seed: int) -> None:
    network, live, _ = churned("acyclic", seed)
    for client in network.home:  # what publishing unasked advertised
        broker = network.brokers[network.home[client]]
        advertised = broker.clients[client].advertised()
        if client[0] == "p":
            live[client] = dict(enumerate(advertised))
    for name, broker in network.brokers.items():
        assert broker.tables() == expected_tables(network.overlay, network.home, live, name)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_every_control_message_is_answered_once_quiet(seed: int) -> None:
    network, _, _ = churned("acyclic", seed)
    all_is_answered(network)


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32))
def test_after_a_crash_and_a_restart_new_publications_reach_all(seed: int) -> None:
    """Settled subscriptions at other brokers are served again; nobody gets anything twice."""
    network, live, rng = churned("acyclic", seed)
    victim = rng.choice(sorted(network.brokers))
    network.kill(victim)
    for _ in range(rng.randrange(20)):
        if network.home and any(c in network.home for c in live):
            act(network, rng, live)
        network.step()
    network.start(victim)
    for _ in range(rng.randrange(20)):
        network.step()
    network.run()
    network.delivered.clear()
    publishers = sorted(c for c in network.home if c.startswith("p"))
    expected = []
    for publisher in publishers:
        network.advertise(publisher, "TRUE")
        network.run()
        seq, attributes = publish(network, publisher, rng)
        for client in sorted(c for c in network.home if c.startswith("s")):
            wanted = sorted(
                n for n, f in live.get(client, {}).items() if parse_filter(f).holds(attributes)
            )
            if wanted:
                expected.append((client, (publisher, seq), tuple(wanted)))
    network.run()
    assert sorted(network.delivered) == sorted(expected)


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_what_settles_while_a_broker_relearns_is_served(seed: int) -> None:
    """A subscription made during a restart misses nothing that is published once it has settled."""
    rng = random.Random(seed)
    overlay = random_tree(names(rng.randint(2, 7)), rng)
    network = Harness(overlay, "acyclic", rng)
    victim = rng.choice(sorted(overlay))
    publishers = [f"p{i}" for i in range(3)]
    for publisher in publishers:
        network.connect(publisher, rng.choice([name for name in overlay if name != victim]))
        network.advertise(publisher, "TRUE")
    network.run()
    network.kill(victim)
    network.start(victim)
    network.connect("s", rng.choice(sorted(overlay)))
    for _ in range(rng.randrange(12)):
        network.step()
    number = network.subscribe("s", "TRUE")
    while ("s", number) not in network.settled:
        assert network.step()
    expected = sorted(("s", (p, network.publish(p)), (number,)) for p in publishers)
    network.run()
    assert sorted(network.delivered) == expected
