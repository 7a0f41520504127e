"""Sessions that a client begins anew at another broker, with the same ids, while what the former
session said still stands. Each link withdraws what came by it, and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import Harness
from routing_scenarios import settle

from reefcast.model.filters import parse_filter
from reefcast.model.messages import LinkDown
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import Graph, names, random_tree
from reefcast.routing.covering.strategies import CoveringOptions
from reefcast.routing.registry import routing_named
from reefcast.simulation.table_truth import Live, Scene, table_faults

ROUTINGS = ("flooding", "acyclic", "mesh", "spr", "idr", "spr-mesh", "idr-mesh", "tid-s", "tid-d")
COVERING = ("none", "lazy", "active", "packing", "incremental")
FILTERS = ("x > 2", "x <= 2", "x IN (1, 3, 5)", "TRUE", "x > 4")
ADVERTISEMENTS = ("TRUE", "x > 1", "x <= 3")


class Sessions(Harness):
    """Clients that move: each leaves a session at its old broker, which learns of it some time
    later."""

    def __init__(self, overlay: Graph | Scot, routing: str, covering: str, rng: random.Random):
        kind = routing_named(routing).options
        options = kind(covering=covering) if issubclass(kind, CoveringOptions) else kind()
        super().__init__(overlay, routing, rng, options=lambda name: options)
        self.ghosts: set[tuple[str, str]] = set()

    def move(self, client: str, broker: str) -> None:
        """Disconnect the client from its broker; it begins anew at this one, with number 1."""
        old = self.home[client]
        self.ghosts.add((client, old))
        self._numbers[client] = 0
        self.connect(client, broker)

    def ready(self, client: str) -> list[str]:
        """Return the brokers that have no session of this client, and no message about one under
        way."""
        return [
            name
            for name, broker in self.brokers.items()
            if name != self.home[client]
            and client not in broker.clients
            and not self.queues.get((client, name))
        ]

    def bury(self, ghost: tuple[str, str]) -> None:
        """Tell the old broker that the client is gone."""
        self.ghosts.discard(ghost)
        self.queues[ghost].append(LinkDown())


def say(network: Sessions, client: str, rng: random.Random, *, same: bool) -> dict[int, str]:
    """Send what a session says first; `same`: all sessions of this client say the same."""
    rng = random.Random(client) if same else rng
    said = {}
    for _ in range(2):
        if client[0] == "s":
            filter = rng.choice(FILTERS)
            said[network.subscribe(client, filter)] = filter
        else:
            filter = rng.choice(ADVERTISEMENTS)
            said[network.advertise(client, filter)] = filter
    return said


def wandered(
    routing: str, covering: str, seed: int, *, same: bool
) -> tuple[Sessions, dict[str, dict[int, str]], random.Random]:
    """Return a network in which clients have moved about over slow links, and all old sessions have
    ended."""
    rng = random.Random(seed)
    overlay: Graph | Scot = random_tree(names(rng.randint(2, 6)), rng)
    if routing in ("spr", "idr", "spr-mesh", "idr-mesh"):
        overlay = scot(random_tree("abc"[: rng.randint(1, 3)], rng), rng.randint(1, 3))
    network = Sessions(overlay, routing, covering, rng)
    settle(network)
    brokers = sorted(network.overlay)
    live: dict[str, dict[int, str]] = {}
    for client in ("p0", "p1", "s0", "s1", "s2"):
        network.connect(client, rng.choice(brokers))
        live[client] = say(network, client, rng, same=same)
    for _ in range(rng.randrange(25)):
        what = rng.random()
        client = rng.choice(sorted(network.home))
        if what < 0.35 and network.ready(client):
            network.move(client, rng.choice(sorted(network.ready(client))))
            live[client] = say(network, client, rng, same=same)
        elif what < 0.6 and network.ghosts:
            network.bury(rng.choice(sorted(network.ghosts)))
        elif what < 0.7 and live[client]:
            number = rng.choice(sorted(live[client]))
            del live[client][number]
            take_back = network.unsubscribe if client[0] == "s" else network.unadvertise
            take_back(client, number)
        elif what < 0.85:
            a = rng.choice(brokers)
            network.slow = {(a, b) for b in network.overlay[a]} | {
                (b, a) for b in network.overlay[a]
            }
            network.slow = {ends for ends in network.slow if rng.random() < 0.7}
        for _ in range(rng.choice((0, 3, 10, 40))):
            network.step()
    network.slow = set()
    for ghost in sorted(network.ghosts):
        network.bury(ghost)
    settle(network)
    for broker in network.brokers.values():
        assert not any(broker._then.settlement._waiting.values()), "a message was never answered"
    return network, live, rng


def assert_delivers(network: Sessions, live: dict[str, dict[int, str]], rng: random.Random) -> None:
    """Check that deliveries are those of the filters, and those of flooding."""
    for publisher in ("p0", "p1"):
        live[publisher][network.advertise(publisher, "TRUE")] = "TRUE"
    network.run()
    network.delivered.clear()
    expected = []
    for publisher in ("p0", "p1"):
        for _ in range(3):
            x = rng.randrange(7)
            seq = network.publish(publisher, x=x)
            for client in ("s0", "s1", "s2"):
                wanted = [n for n, f in live[client].items() if parse_filter(f).holds({"x": x})]
                if wanted:
                    expected.append((client, (publisher, seq), tuple(sorted(wanted))))
    network.run()
    assert sorted(network.delivered) == sorted(expected)


def faults(network: Sessions, live: dict[str, dict[int, str]]) -> list[str]:
    def claims(kind: str) -> list[Live]:
        return [
            Live((client, number), network.home[client], client, filter)
            for client, said in live.items()
            if client[0] == kind
            for number, filter in said.items()
        ]

    routers = {name: broker.router for name, broker in network.brokers.items()}
    scene = Scene(network.overlay, routers, claims("s"), claims("p"), network.scot)
    return table_faults(routing_named(network.routing), scene)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_once_quiet_only_the_last_session_counts(routing: str, same: bool, seed: int) -> None:
    network, live, rng = wandered(routing, "none", seed, same=same)
    assert faults(network, live) == []
    assert_delivers(network, live, rng)
    assert faults(network, live) == []


@pytest.mark.parametrize("covering", COVERING)
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_whatever_neighbours_are_told(covering: str, seed: int) -> None:
    network, live, rng = wandered("acyclic", covering, seed, same=False)
    assert_delivers(network, live, rng)
