"""TID-S and TID-D under any interleaving, churn and congestion, on overlays with cycles."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import rows_of
from routing_tid_scenes import ONCE, check_tables, churned, deliver_all

from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import edges_of, graph, is_connected

BOTH = pytest.mark.parametrize("routing", ["tid-s", "tid-d"])
SEEDS = st.integers(0, 2**32)


@pytest.mark.long
@BOTH
@settings(max_examples=120)
@given(seed=SEEDS)
def test_what_was_settled_misses_nothing_and_nobody_gets_anything_twice(
    routing: str, seed: int
) -> None:
    """This holds while tables change, too."""
    scene = churned(routing, seed)
    assert scene.missed() == []
    copies = Counter((client, id) for client, id, _ in scene.network.delivered)
    assert set(copies.values()) <= {1}
    for client, id, numbers in scene.network.delivered:
        for number in numbers:
            text = scene.live[client].get(number)
            assert text is None or parse_filter(text).holds(scene.published[id])


@BOTH
@settings(max_examples=60)
@given(seed=SEEDS)
def test_once_quiet_every_interested_subscriber_gets_it_exactly_once(
    routing: str, seed: int
) -> None:
    deliver_all(churned(routing, seed))


@pytest.mark.long
@BOTH
@settings(max_examples=40)
@given(seed=SEEDS)
def test_after_links_were_lost_new_publishers_reach_all(routing: str, seed: int) -> None:
    scene = churned(routing, seed)
    network, rng = scene.network, scene.rng
    links = edges_of(network.overlay)
    for link in rng.sample(links, rng.randint(0, len(links))):
        rest = [other for other in links if other != link]
        if is_connected(graph(network.overlay, rest)):
            links = rest
            network.give_up(*link)
            scene.act()
    for a, b in sorted((min(link), max(link)) for link in network.down):
        for _ in range(rng.randrange(6)):
            network.step()
        if rng.random() < 0.3:
            network.link_up(a, b)
    scene.run()
    for publisher in scene.clients("p"):
        scene.leave(publisher)
    scene.run()
    deliver_all(scene)
    check_tables(scene)


@settings(max_examples=80)
@given(seed=SEEDS)
def test_tid_s_keeps_the_order_of_a_publisher_that_advertised_once(seed: int) -> None:
    scene = churned("tid-s", seed)
    last: dict[str, int] = {}
    for client, (publisher, seq), _ in scene.network.delivered:
        if publisher == ONCE:
            assert seq > last.get(client, 0)
            last[client] = seq


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.long
@BOTH
@settings(max_examples=80)
@given(seed=SEEDS)
def test_tables_agree_with_the_truth_once_quiet(routing: str, seed: int) -> None:
    check_tables(churned(routing, seed))


@pytest.mark.long
@BOTH
@settings(max_examples=50)
@given(seed=SEEDS)
def test_nothing_is_left_when_all_is_withdrawn(routing: str, seed: int) -> None:
    scene = churned(routing, seed)
    for client in sorted(scene.network.home):
        if scene.rng.random() < 0.5:
            scene.network.disconnect(client)
        else:
            while scene.live[client]:
                scene.withdraw(client)
                scene.network.step()
    scene.run()
    for client in scene.clients("p"):  # what publishing unasked advertised
        scene.network.disconnect(client)
    scene.run()
    for name, broker in scene.network.brokers.items():
        assert broker.tables() == {"SRT": 0, "PRT": 0}, name
        assert rows_of(broker, "SRT") == []
    for router in scene.routers().values():
        assert vars(router.bindings)["_trees"] == {}


@BOTH
@settings(max_examples=50)
@given(seed=SEEDS)
def test_every_control_message_is_answered_once_quiet(routing: str, seed: int) -> None:
    network = churned(routing, seed).network
    answered = {(client, number) for client, number in network.settled if number}
    refused = {(client, refusal.token) for client, refusal in network.refused if refusal.token}
    for client in network.home:
        asked = {(client, number) for number in range(1, network._numbers[client] + 1)}
        assert asked <= answered | refused
