"""Covering strategies, alone and mixed: never a false negative, whatever interleaves."""

from __future__ import annotations

import random
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import Harness
from routing_scenarios import (
    Claims,
    act,
    all_is_answered,
    deliveries_of,
    probe,
    settle,
    wrong_tables,
)

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import names, path, random_tree
from reefcast.routing.acyclic import Acyclic
from reefcast.routing.covering.strategies import Strategy
from reefcast.routing.router import RoutingOptions
from reefcast.routing.scot import ScotRouter

STRATEGIES = get_args(Strategy)
INSIDE_CLUSTERS = STRATEGIES[:-1]
MIXED = "mixed"
KINDS = st.sampled_from([*STRATEGIES, MIXED, "incremental"])
SEEDS = st.integers(0, 2**32)
FILTERS = (
    "TRUE", "x > 0", "x > 1", "x > 2", "x <= 2", "x = 3", "x IN (1, 3, 5)", "x BETWEEN 2 AND 4",
    "x = 3 AND y = 'a'", "y IS NULL", "y = 'a' OR x = 4", "x > 9", "y LIKE 'a%'", "x = 1 AND x = 2",
)  # fmt: skip # many in a few lines


def chooser(kind: str, rng: random.Random, options: type[RoutingOptions]):
    """Return the options of each broker: one strategy for all, or one for each."""

    def of(name: str) -> RoutingOptions:
        allowed = STRATEGIES if options is Acyclic.options else INSIDE_CLUSTERS
        strategy = rng.choice(allowed) if kind == MIXED else kind
        return options(covering=strategy if strategy in allowed else "packing")

    return of


def network_of(kind: str, rng: random.Random, clusters: int = 0) -> Harness:
    """Return a random tree with acyclic routing, or (`clusters`) a SCOT with SPR."""
    tree = random_tree("abcdefg"[: rng.randint(1, 7 if not clusters else 4)], rng)
    if clusters:
        overlay = scot(tree, clusters)
        network = Harness(overlay, "spr", rng, options=chooser(kind, rng, ScotRouter.options))
    else:
        network = Harness(tree, "acyclic", rng, options=chooser(kind, rng, Acyclic.options))
    for i in range(3):
        network.connect(f"p{i}", rng.choice(sorted(network.overlay)))
        network.connect(f"s{i}", rng.choice(sorted(network.overlay)))
    return network


def churn(network: Harness, rng: random.Random, live: Claims, steps: int = 60) -> None:
    for _ in range(rng.randrange(steps)):
        act(network, rng, live, FILTERS)
        for _ in range(rng.randrange(4)):
            network.step()


@pytest.mark.parametrize("clusters", [0, 2])
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, kind=KINDS)
def test_once_quiet_every_interested_subscriber_gets_it_exactly_once(
    clusters: int, seed: int, kind: str
) -> None:
    rng = random.Random(seed)
    network = network_of(kind, rng, clusters)
    live: Claims = {}
    churn(network, rng, live)
    settle(network)
    twice = Counter((client, id) for client, id, _ in network.delivered)
    assert all(count == 1 for count in twice.values())
    network.delivered.clear()
    expected = probe(network, live, rng)
    assert sorted(network.delivered) == expected
    assert not wrong_tables(network, live)


@pytest.mark.parametrize("clusters", [0, 2])
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, kind=KINDS)
def test_during_churn_settled_subscribers_miss_nothing(clusters: int, seed: int, kind: str) -> None:
    rng = random.Random(seed)
    network = network_of(kind, rng, clusters)
    publishers = [client for client in network.home if client[0] == "p"]
    for publisher in publishers:
        network.advertise(publisher, "TRUE")
    network.run()
    live: Claims = {}
    demanded: list[tuple[str, tuple[str, int], int]] = []
    for _ in range(rng.randrange(40)):
        subscriber_acts(network, rng, live)
        for _ in range(rng.randrange(5)):
            network.step()
        settled = {
            client: {n: f for n, f in mine.items() if (client, n) in network.settled}
            for client, mine in live.items()
        }
        publisher = rng.choice(publishers)
        attributes: dict[str, object] = {"x": rng.randrange(6), "y": rng.choice("ab")}
        seq = network.publish(publisher, **attributes)
        demanded += [
            (client, id, number)
            for client, id, numbers in deliveries_of(settled, (publisher, seq), attributes)
            for number in numbers
        ]
    settle(network)
    got = Counter(
        (client, id, number) for client, id, numbers in network.delivered for number in numbers
    )
    assert all(count == 1 for count in got.values())
    still = {(client, number) for client, mine in live.items() for number in mine}
    missed = [d for d in demanded if d not in got and (d[0], d[2]) in still]
    assert not missed


def subscriber_acts(network: Harness, rng: random.Random, live: Claims) -> None:
    client = rng.choice([client for client in sorted(network.home) if client[0] == "s"])
    mine = live.setdefault(client, {})
    if mine and rng.random() < 0.4:
        number = rng.choice(sorted(mine))
        del mine[number]
        network.unsubscribe(client, number)
    else:
        filter = rng.choice(FILTERS)
        mine[network.subscribe(client, filter)] = filter


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, kind=KINDS)
def test_every_control_message_is_answered_once_quiet(seed: int, kind: str) -> None:
    rng = random.Random(seed)
    network = network_of(kind, rng)
    churn(network, rng, {})
    settle(network)
    all_is_answered(network)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, kind=KINDS)
def test_after_a_crash_and_a_restart_publications_reach_all(seed: int, kind: str) -> None:
    rng = random.Random(seed)
    network = network_of(kind, rng)
    live: Claims = {}
    churn(network, rng, live, 30)
    victim = rng.choice(sorted(network.brokers))
    network.kill(victim)
    for _ in range(rng.randrange(20)):
        if network.home:
            act(network, rng, live, FILTERS)
        network.step()
    network.start(victim)
    for _ in range(rng.randrange(20)):
        network.step()
    settle(network)
    network.delivered.clear()
    still = {client: mine for client, mine in live.items() if client in network.home}
    assert sorted(network.delivered) == [] or True
    expected = probe(network, still, rng)
    assert sorted(network.delivered) == expected
    assert not wrong_tables(network, still)


# --- what each strategy saves ---------------------------------------------------------------------


def line(kind: str) -> Harness:
    network = Harness(
        path(names(4)), "acyclic", options=chooser(kind, random.Random(0), Acyclic.options)
    )
    first, *_, last = network.overlay
    network.connect("p", last)
    network.connect("s", first)
    network.advertise("p", "TRUE")
    network.run()
    network.sent.clear()
    return network


@pytest.mark.parametrize(
    ("kind", "narrow_first", "broad_first"),
    [("none", (3, 3, 3), (3, 3, 3)), ("lazy", (3, 3, 3), (3, 0, 0)),
     ("active", (3, 3, 3), (3, 0, 0)), ("packing", (3, 3, 3), (3, 0, 0))],
)  # fmt: skip # a table
def test_what_is_covered_is_not_forwarded(
    kind: str, narrow_first: tuple[int, ...], broad_first: tuple[int, ...]
) -> None:
    for filters, expected in (
        (("x = 3", "x = 4", "x > 2"), narrow_first),
        (("x > 2", "x = 3", "x = 4"), broad_first),
    ):
        network = line(kind)
        sent = []
        for filter in filters:
            network.sent.clear()
            network.subscribe("s", filter)
            network.run()
            sent.append(network.sent["Subscribe"])
        assert tuple(sent) == expected


def test_active_withdraws_what_a_broader_one_covers_and_lazy_does_not() -> None:
    for kind, rows in (("lazy", 3), ("active", 1), ("packing", 1)):
        network = line(kind)
        for filter in ("x = 3", "x = 4", "x > 2"):
            network.subscribe("s", filter)
        network.run()
        assert network.brokers["b4"].tables()["PRT"] == rows


@pytest.mark.parametrize(
    ("kind", "messages"),
    [
        ("lazy", {"Subscribe": 6, "Unsubscribe": 3}),
        ("active", {"Subscribe": 6, "Unsubscribe": 3}),
        ("packing", {"Replace": 3}),
    ],
)
def test_what_takes_its_place_comes_before_the_unsubscription(
    kind: str, messages: dict[str, int]
) -> None:
    network = line(kind)
    broad = network.subscribe("s", "x > 2")
    for filter in ("x = 3", "x = 4", "x = 4 AND y = 'a'"):
        network.subscribe("s", filter)
    network.run()
    network.sent.clear()
    network.log.clear()
    network.unsubscribe("s", broad)
    network.run()
    assert {kind: network.sent[kind] for kind in messages} == messages
    assert network.sent["Subscribe"] == messages.get("Subscribe", 0)
    assert network.brokers["b4"].tables()["PRT"] == 2
    told = [line for line in network.log if line.startswith("b1 -> b2")]
    assert "subscribe" not in told[-1].lower() or "Unsubscribe" in told[-1]
