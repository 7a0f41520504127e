"""Nodes that join and leave in good order: the overlays that arise from nothing else."""

from __future__ import annotations

import math
import random

import pytest
from gossip_network import OverlayNetwork, names
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.model.messages import Send
from reefcast.routing.gossip.messages import Join, JoinWalk, Left, Met
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.topic import LOWEST, MISSED, PATIENCE

SEEDS = st.integers(0, 2**32)
HEALED = (MISSED + 2) * GossipOptions().wave_rounds
"""After how many rounds all nodes are connected again."""


def empty_network(seed: int, contacts: int = 2) -> OverlayNetwork:
    options = GossipOptions(seed=seed)
    return OverlayNetwork(random.Random(seed), contacts=names(contacts), options=options)


def everybody_joined(seed: int, size: int, contacts: int = 2) -> OverlayNetwork:
    """Return an overlay that its nodes joined one after the other."""
    network = empty_network(seed, contacts)
    for node in names(size):
        network.join(node)
        network.settle()
    return network


def assert_sound(network: OverlayNetwork) -> None:
    """Check a quiet network."""
    assert network.connected()
    assert network.dead_links() == []
    assert network.wrong_in_links() == []
    for node, overlay in network.overlays.items():
        assert node not in overlay.view
        assert len(set(overlay.view)) == len(overlay.view)


# --- joining --------------------------------------------------------------------------------------


@given(SEEDS, st.integers(2, 25), st.integers(1, 3))
@settings(max_examples=30)
def test_one_after_the_other(seed: int, size: int, contacts: int) -> None:
    assert_sound(everybody_joined(seed, size, contacts))


@given(SEEDS, st.integers(3, 25), st.integers(1, 3))
@settings(max_examples=15)
def test_all_at_once(seed: int, size: int, contacts: int) -> None:
    """Contacts join at the same time, too, through each other; all that must be so is that they
    run."""
    network = empty_network(seed, contacts)
    nodes = names(size)
    overlays = {node: network.add(node) for node in nodes}
    random.Random(seed).shuffle(nodes)
    for node in nodes:
        network.send(node, overlays[node].join())
    network.settle()
    assert_sound(network)
    network.rounds(20)
    assert_sound(network)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("seed", "size"), [(0, 40), (1, 40), (2, 100), (3, 100)])
def test_views_have_2_ln_n_nodes(seed: int, size: int, at_once: bool) -> None:
    """Some have fewer, because a joiner may be given the same node twice; none has far more."""
    network = empty_network(seed)
    for node in names(size):
        network.join(node)
        if not at_once:
            network.settle()
    network.settle()
    expected = 2 * math.log(size)
    assert 0.8 * expected < network.mean_size() < expected + 1
    assert max(map(len, network.views().values())) < 2.5 * expected
    assert all(network.pointing_to(node) and view for node, view in network.views().items())
    assert_sound(network)


@given(SEEDS, st.integers(2, 25))
@settings(max_examples=20)
def test_a_joiner_gets_neighbours_and_is_somebodys(seed: int, size: int) -> None:
    network = everybody_joined(seed, size)
    before = sum(map(len, network.views().values()))
    network.join("new")
    network.settle()
    assert len(network.views()["new"]) >= min(size, 1)
    assert network.pointing_to("new")
    walks = max(LOWEST, round(2 * math.log(size + 1)))
    after = sum(map(len, network.views().values()))
    assert before + 2 <= after <= before + walks + LOWEST
    assert_sound(network)


def test_contacts_that_start_last_are_found_within_a_few_rounds() -> None:
    network = empty_network(0)
    for node in names(12)[2:]:
        network.join(node)
    network.rounds(7)
    assert not any(network.views().values())
    for contact in names(2):
        network.join(contact)
    network.rounds(2 * PATIENCE)
    assert len(network.overlays) == 12
    assert_sound(network)


def test_the_second_contact_knows_who_joined_through_the_first() -> None:
    """The second contact can then go on as the first one did."""
    network = everybody_joined(0, 40)
    first, second = names(2)
    sent = len(network.sent)
    network.crash(first)
    network.rounds(2)
    network.join("new")
    network.settle()
    assert ("new", second) in [(a, b) for a, b, x in network.sent[sent:] if isinstance(x, Join)]
    walks = {x.nonce for _, _, x in network.sent[sent:] if isinstance(x, JoinWalk)}
    assert len(walks) >= round(2 * math.log(40)) - 1  # one may end where it starts


def test_walks_start_at_members_at_random() -> None:
    """Otherwise, if many join at once, a contact would become a neighbour of nearly all."""
    network = everybody_joined(0, 60)
    network.join("new")
    sent = len(network.sent)
    network.settle()
    starts = [
        (to, x.left)
        for sender, to, x in network.sent[sent:]
        if isinstance(x, JoinWalk) and sender == "n0" and x.left == GossipOptions().ttl
    ]
    assert len({to for to, _ in starts}) > 4


# --- leaving --------------------------------------------------------------------------------------


@given(SEEDS, st.integers(3, 25))
@settings(max_examples=20)
def test_leavers_one_after_the_other_leave_a_connected_graph(seed: int, size: int) -> None:
    """Nodes leave until only the contacts are left: whoever points to a leaver gets one of its
    neighbours."""
    network = everybody_joined(seed, size)
    leavers = names(size)[2:]
    random.Random(seed).shuffle(leavers)
    for node in leavers:
        network.leave(node)
        network.settle()
        assert network.dead_links() == []
        assert network.wrong_in_links() == []
    network.rounds(HEALED)
    assert_sound(network)


@given(SEEDS, st.integers(6, 25))
@settings(max_examples=12)
def test_many_leave_at_once(seed: int, size: int) -> None:
    network = everybody_joined(seed, size)
    rng = random.Random(seed)
    for node in rng.sample(names(size)[2:], size // 2):
        network.leave(node)
    network.rounds(HEALED)
    assert_sound(network)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_views_do_not_grow_by_coming_and_going(seed: int) -> None:
    """In the long run a joiner brings as many links as a leaver takes away: 2 ln n + 2."""
    rng = random.Random(seed)
    network = everybody_joined(seed, 16)
    for _ in range(60):
        gone = rng.choice(sorted(set(network.overlays) - set(names(2))))
        network.leave(gone) if rng.random() < 0.5 else network.crash(gone)
        network.round(settled=True)
        network.join(gone)
        network.round(settled=True)
    assert network.mean_size() < 2 * math.log(16) + 2 + 1
    assert_sound(network)


@pytest.mark.parametrize("seed", range(3))
def test_who_pointed_to_a_leaver_gets_another_for_it(seed: int) -> None:
    """Views keep their sizes, and the overlay stays connected, without any round in between."""
    network = everybody_joined(seed, 40)
    before = network.mean_size()
    for node in names(40)[2::2]:
        network.leave(node)
        network.settle()
        assert network.connected()
    assert before - 2 < network.mean_size() < before + 1


def test_a_joiner_takes_a_place_that_is_free_before_a_view_grows() -> None:
    """Otherwise views would grow whenever nodes crash and come back."""
    overlay = everybody_joined(0, 6).overlays["n5"]
    overlay.begin(["n1", "n2", "n3"], [])
    overlay.lost("n2")
    for joiner, size in [("x", 3), ("y", 4)]:
        overlay.handle(JoinWalk(topic="a", joiner=joiner, grows=True, nonce=1, left=0), "n1")
        assert (len(overlay.view), overlay.size) == (size, size)


def test_who_joins_with_nobody_left_begins_anew() -> None:
    """Its view gets the size of the others', however large it was."""
    overlay = everybody_joined(0, 6).overlays["n5"]
    overlay.begin(["n1", "n2", "n3", "n4"], [])
    for node in ("n1", "n2", "n3", "n4"):
        overlay.lost(node)
    overlay.handle(Met(topic="a", node="n0"), "n0")
    assert overlay.view == ("n0",)
    assert overlay.size == LOWEST


def test_who_loses_the_last_neighbour_joins_at_once() -> None:
    network = everybody_joined(0, 6)
    last = network.overlays["n5"]
    last.begin(["n4"], ["n4"])
    sends = last.handle(Left(topic="a"), "n4")
    assert [(send.link, type(send.message)) for send in sends] == [("n0", Join)]
    last.begin(["n4"], ["n4"])
    assert [(send.link, type(send.message)) for send in last.lost("n4")] == [("n0", Join)]


def test_a_leaver_tells_everybody_who_points_to_it_or_keeps_its_membership() -> None:
    network = everybody_joined(0, 20)
    leaver = names(20)[-1]
    pointing = network.pointing_to(leaver)
    network.leave(leaver)
    told = {to for sender, to, _ in network.sent if sender == leaver}
    assert pointing | set(names(2)) <= told
    assert leaver not in told


def test_who_is_not_in_the_overlay_any_more_is_dropped_when_it_says_so() -> None:
    """Another node linked to it while it left."""
    network = everybody_joined(0, 6)
    leaver, other = "n5", "n3"
    network.leave(leaver)
    network.settle()
    network.send(other, network.overlays[other].handle(Met(topic="a", node=leaver), "n0"))
    assert leaver in network.views()[other]
    network.settle()
    assert leaver not in network.views()[other]


def test_nobody_is_sent_to_before_there_is_a_contact() -> None:
    alone = empty_network(0, contacts=1)
    overlay = alone.add("n0")
    sends: list[Send] = overlay.join()
    for _ in range(20):
        sends += overlay.tick()
    assert sends == []
