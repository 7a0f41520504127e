"""TID-S and TID-D when brokers restart: what they relearn, and which trees settle anew."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import Harness
from routing_tid_scenes import Scene, check_tables, churned, deliver_all, random_overlay
from routing_tid_scripts import delivered, last_hops, move, network_of, overlay, run

BOTH = pytest.mark.parametrize("routing", ["tid-s", "tid-d"])
SEEDS = st.integers(0, 2**32)


# --- step by step ---------------------------------------------------------------------------------

FIG_1 = overlay("12", "23", "14", "25", "36", "45", "56")


def at_6(routing: str) -> Harness:
    """Return the tree of p at 1, which is 1 - 2 - 3 - 6 - 5 - 4; s at 6 wants everything, t at 4 a
    part."""
    network = network_of(routing, FIG_1, p="1", s="6", t="4")
    network.advertise("p", "TRUE")
    run(network, "14", "25")
    network.subscribe("s", "TRUE")
    network.subscribe("t", "x > 5")
    network.run()
    assert last_hops(network, ("p", 1))["6"] == "3"
    network.sent.clear()
    return network


def served(network: Harness) -> None:
    """Check that both subscribers get what is published now."""
    network.delivered.clear()
    seq = network.publish("p", x=9)
    network.run()
    assert delivered(network) == [("s", seq), ("t", seq)]
    for broker in network.brokers.values():
        assert not broker.relearning
        assert broker.tables()["SRT"] == 1


@BOTH
@pytest.mark.parametrize("victim", "235")
def test_a_broker_takes_the_same_trees_up_again(routing: str, victim: str) -> None:
    network = at_6(routing)
    before = last_hops(network, ("p", 1))
    network.kill(victim)
    network.start(victim)
    network.run()
    assert last_hops(network, ("p", 1)) == before
    assert network.sent["Torn"] == 0
    served(network)


@BOTH
def test_what_is_bound_no_more_is_swept(routing: str) -> None:
    network = at_6(routing)
    network.kill("3")
    network.unsubscribe("s", 1)
    network.unsubscribe("t", 1)
    network.run()
    assert network.brokers["2"].tables() == {"SRT": 1, "PRT": 2}
    network.start("3")
    network.run()
    assert all(b.tables() == {"SRT": 1, "PRT": 0} for b in network.brokers.values())


@BOTH
def test_a_publisher_that_left_meanwhile_is_forgotten_everywhere(routing: str) -> None:
    network = at_6(routing)
    network.kill("3")
    network.disconnect("p")
    network.run()
    assert network.brokers["6"].tables()["SRT"] == 1
    network.start("3")
    network.run()
    assert all(b.tables()["SRT"] == 0 for b in network.brokers.values())


@BOTH
def test_two_neighbours_that_restart_settle_anew(routing: str) -> None:
    """2 does not tell 3 where the tree came from; 3 told 2 only that it exists."""
    network = at_6(routing)
    for victim in "23":
        network.kill(victim)
    for victim in "32":
        network.start(victim)
    network.run()
    assert network.sent["Torn"] > 0
    served(network)


@BOTH
def test_publications_bypass_a_lost_broker(routing: str) -> None:
    network = at_6(routing)
    network.kill("3")
    for other in "26":
        network.give_up("3", other)
    network.run()
    network.publish("p", x=9)
    network.run()
    assert delivered(network) == [("s", 1), ("t", 1)]
    network.down.clear()
    network.start("3")
    network.run()
    served(network)


@BOTH
def test_a_copy_for_what_a_former_life_bound_is_not_a_second_one(routing: str) -> None:
    """c had the tree from b, and has it from a now; b has not swept what c had bound there."""
    network = network_of(routing, overlay("ab", "bc", "ca"), p="a", s="c")
    network.advertise("p", "TRUE")
    run(network, "ac")
    network.subscribe("s", "TRUE")
    network.run()
    network.kill("c")
    network.start("c")
    network.connect("t", "c")
    number = network.subscribe("t", "TRUE")
    move(network, "cb")  # that it is up again
    network.slow = {("c", "b")}
    network.run()
    network.publish("p")
    network.run()
    network.slow = set()
    network.run()
    assert network.delivered == [("t", ("p", 1), (number,))]


@BOTH
@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_client_sends_again_does_not_vanish(routing: str, restarted: bool) -> None:
    """The client's first publication advertises for it, under an id made of its number. When the
    client comes back without having been answered, it sends the same again."""
    network = network_of(routing, FIG_1, p="1", s="6")
    network.subscribe("s", "TRUE")
    network.publish("p")
    network.run()
    assert delivered(network) == [("s", 1)]
    if restarted:
        network.kill("1")
        network.start("1")
    else:
        network.disconnect("p")
    network.run()
    network.connect("t", "5")
    network.subscribe("t", "TRUE")
    network.connect("p", "1")
    network._seqs["p"] = 0
    network.publish("p")
    network.run()
    assert ("t", 1) in delivered(network)


# --- what settles ---------------------------------------------------------------------------------


def test_bindings_that_go_round_do_not_wait_for_each_other() -> None:
    """Three trees lead round a ring of three brokers: each begins at the one to which another
    leads."""
    ring = overlay("hx", "hy", "hz", "xy", "yz", "zx")
    network = network_of("tid-s", ring, p="z", q="x", r="y", s="h")
    for publisher, slow in (
        ("p", ("zx", "zh", "yh")),
        ("q", ("xy", "xh", "zh")),
        ("r", ("yz", "yh", "xh")),
    ):
        network.advertise(publisher, "TRUE")
        run(network, *slow)
    assert [last_hops(network, (publisher, 1))["h"] for publisher in "pqr"] == ["x", "y", "z"]
    network.subscribe("s", "TRUE")
    move(network, "sh", "hx", "hy", "hz", "xy", "yz", "zx")
    network.run()
    assert ("s", 1) in network.settled


def test_a_binding_that_is_told_again_settles_when_it_has_arrived() -> None:
    network = network_of("tid-s", overlay("ab", "bc", "cd"), p="a", s="d")
    network.advertise("p", "TRUE")
    network.run()
    network.subscribe("s", "TRUE")
    network.slow = {("b", "a")}
    network.run()
    network.kill("c")
    network.start("c")
    network.run()
    assert ("s", 1) not in network.settled
    network.slow = set()
    network.run()
    assert ("s", 1) in network.settled


# --- at random ------------------------------------------------------------------------------------


def restart(scene: Scene, victims: list[str]) -> None:
    """Kill these brokers and start them again at any time, while others churn; new clients replace
    theirs."""
    rng, network = scene.rng, scene.network
    scene.links_are_up = False
    for victim in victims:
        scene.lose(victim)
        some(scene, rng.randrange(3))
    for victim in rng.sample(victims, len(victims)):
        if rng.random() < 0.3:
            give_up(scene, victim)
        some(scene, rng.randrange(6))
        network.start(victim)
        some(scene, rng.randrange(6))
    while not scene.clients("s") or not scene.clients("p"):
        scene.connect("s")
        scene.connect("p")


def give_up(scene: Scene, victim: str) -> None:
    """Let the neighbours lose patience with these brokers."""
    network = scene.network
    for other in network.overlay[victim]:
        if other in network.brokers:
            network.give_up(victim, other)
            network.down.discard(frozenset((victim, other)))


def some(scene: Scene, acts: int) -> None:
    for _ in range(acts):
        scene.act()
        some_steps(scene.network, scene.rng)
    scene.network.slow = set()


def some_steps(network: Harness, rng: random.Random) -> None:
    """Run some steps, with some links that stand still for a while in one direction now and
    then."""
    if network.slow or rng.random() < 0.2:
        network.slow = set()
        if rng.random() < 0.6:
            ends = sorted((a, b) for a in network.overlay for b in network.overlay[a])
            network.slow = set(rng.sample(ends, min(len(ends), rng.randint(1, 6))))
    for _ in range(rng.randrange(12)):
        network.step()


def some_victims(scene: Scene) -> list[str]:
    """Return some brokers to kill: anywhere, or next to each other."""
    rng, brokers = scene.rng, sorted(scene.network.brokers)
    victims = rng.sample(brokers, min(len(brokers), rng.choice([1, 1, 2, 3])))
    if len(victims) == 2 and scene.network.overlay[victims[0]]:
        victims[1] = rng.choice(sorted(scene.network.overlay[victims[0]]))
    return victims


def restart_and_check(routing: str, seed: int) -> None:
    scene = churned(routing, seed)
    for _ in range(scene.rng.choice([1, 1, 2, 3])):
        restart(scene, some_victims(scene))
        if scene.rng.random() < 0.5:
            scene.run()
    scene.churn()
    assert not any(broker.relearning for broker in scene.network.brokers.values())
    check_tables(scene)
    assert set(Counter((c, id) for c, id, _ in scene.network.delivered).values()) <= {1}
    deliver_all(scene)
    check_tables(scene)
    all_is_answered(scene.network)


def all_is_answered(network: Harness) -> None:
    answered = {(client, number) for client, number in network.settled if number}
    refused = {(client, refusal.token) for client, refusal in network.refused if refusal.token}
    for client in network.home:
        asked = {(client, number) for number in range(1, network._numbers[client] + 1)}
        assert asked <= answered | refused


@pytest.mark.long
@BOTH
@settings(max_examples=30)
@given(seed=SEEDS)
def test_after_restarts_all_is_relearned(routing: str, seed: int) -> None:
    restart_and_check(routing, seed)


def settles_around_restarts(routing: str, seed: int) -> None:
    """Check that a subscription made before, during or after restarts misses nothing that is
    published once it has settled and all brokers have relearned."""
    rng = random.Random(seed)
    made = random_overlay(rng)
    network = Harness(made, routing, rng, congestion=random.Random(rng.random()))
    brokers = sorted(network.overlay)
    victims = rng.sample(brokers, min(len(brokers) - 1, rng.choice([1, 1, 2])))
    others = [name for name in brokers if name not in victims]
    publishers = [f"p{i}" for i in range(3)]
    for publisher in publishers:
        network.connect(publisher, rng.choice(others))
        network.advertise(publisher, "TRUE")
    if rng.random() < 0.7:
        network.run()
    when = {victim: rng.randrange(12) for victim in victims}
    ask, number = rng.randrange(12), 0
    for step in range(12):
        for victim in victims:
            if step == when[victim]:
                network.kill(victim)
                network.start(victim)
        if step == ask:
            network.connect("s", rng.choice(others))
            number = network.subscribe("s", "TRUE")
        some_steps(network, rng)
    asked = {("s", number), *((publisher, 1) for publisher in publishers)}
    while not asked <= network.settled or any(network.brokers[v].relearning for v in victims):
        if not network.step():
            assert network.slow
            network.slow = set()
    network.slow = set()
    expected = sorted(("s", (p, network.publish(p)), (number,)) for p in publishers)
    network.run()
    assert sorted(network.delivered) == expected


@BOTH
@settings(max_examples=60)
@given(seed=SEEDS)
def test_what_settles_around_restarts_is_served(routing: str, seed: int) -> None:
    settles_around_restarts(routing, seed)


@pytest.mark.soak
@BOTH
def test_many_random_restarts(routing: str) -> None:
    for seed in range(3_000):
        restart_and_check(routing, seed)
        settles_around_restarts(routing, seed)
