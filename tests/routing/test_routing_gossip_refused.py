"""Messages that no correct node sends: refused without a trace, or harmless."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from gossip_network import OverlayNetwork, names, random_views
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reefcast.errors import ProtocolError
from reefcast.model.messages import Send
from reefcast.routing.gossip.messages import (
    MOST_STEPS,
    Adopt,
    Join,
    JoinWalk,
    Left,
    Linked,
    Members,
    Met,
    TopicMessage,
    Walk,
    Walked,
    Wave,
)
from reefcast.routing.gossip.topic import LOWEST, TopicOverlay

ME, NEAR, FAR = "n0", "n1", "n2"
IDS = st.sampled_from([*names(8), "", "nobody", "?"])
TUPLES = st.lists(IDS, max_size=5).map(tuple)
VIEWS = st.lists(TUPLES, max_size=5).map(tuple)
STEPS = st.integers(0, MOST_STEPS)
NUMBERS = st.integers(0, 2**64 - 1)


def said(kind: type[TopicMessage], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, topic=st.just("a"), **fields)


ANYTHING = st.one_of(
    said(Walk, path=TUPLES, views=VIEWS, nonce=NUMBERS, left=STEPS),
    said(Walked, path=TUPLES, views=VIEWS, at=STEPS),
    said(Linked, linked=st.booleans()),
    said(Join, again=st.booleans()),
    said(Members, nodes=TUPLES),
    said(JoinWalk, joiner=IDS, grows=st.booleans(), nonce=NUMBERS, left=STEPS),
    said(Met, node=IDS),
    said(Adopt, orphan=IDS, view=TUPLES, nonce=NUMBERS, left=STEPS),
    said(Left, instead=IDS),
    said(Wave, contact=IDS, life=NUMBERS, number=NUMBERS, forward=st.booleans()),
)


def network_of(seed: int) -> OverlayNetwork:
    rng = random.Random(seed)
    network = OverlayNetwork(rng, contacts=names(2))
    network.begin(random_views(names(8), rng))
    return network


def state_of(overlay: TopicOverlay) -> dict[str, Any]:
    state = {name: value for name, value in vars(overlay).items() if name != "_weights"}
    return copy.deepcopy({**state, "_passed": vars(state["_passed"])})


def walk(path: int, views: int, left: int, last: str = NEAR) -> Walk:
    """Return a walk that has collected so many nodes and views."""
    nodes = (*(FAR for _ in range(path - 1)), last)[:path]
    return Walk(topic="a", path=nodes, views=((ME,),) * views, nonce=5, left=left)


def walked(path: tuple[str, ...], views: int, at: int) -> Walked:
    return Walked(topic="a", path=path, views=((ME, FAR),) * views, at=at)


@pytest.mark.parametrize(
    "message",
    [
        walk(0, 0, 3),
        walk(1, 0, 3, last=FAR),
        walk(3, 2, 3, last=ME),
        walk(3, 3, 3),
        walk(3, 1, 3),
        walk(2, 1, MOST_STEPS - 1),
        walk(10_000, 9_999, 0),
        walked((ME, NEAR), 1, 1),
        walked((ME, NEAR), 1, 2),
        walked((ME, NEAR), 1, MOST_STEPS),
        walked((ME, NEAR), 2, 0),
        walked((ME, NEAR), 0, 0),
        walked((ME, FAR), 1, 0),
        walked((NEAR, ME), 1, 0),
        walked((NEAR, ME, FAR), 2, 1),
        walked((ME,), 0, 0),
        walked((), 0, 0),
    ],
)
def test_walks_that_cannot_be_are_refused_and_change_nothing(message: TopicMessage) -> None:
    overlay = network_of(1).overlays[ME]
    before = state_of(overlay)
    with pytest.raises(ProtocolError, match=r"neighbour 'n1' sent .* about topic 'a'"):
        overlay.handle(message, NEAR)
    assert state_of(overlay) == before


def test_the_longest_walks_are_not_refused() -> None:
    overlay = network_of(1).overlays[ME]
    assert [type(send.message) for send in overlay.handle(walk(MOST_STEPS, 63, 0), NEAR)] == [
        Walked
    ]
    assert [type(send.message) for send in overlay.handle(walk(1, 0, 63), NEAR)] == [Walk]


def test_what_only_contacts_say_is_not_believed_of_others() -> None:
    """Waves of a node that is no contact are not passed on, and no such message makes a member."""
    overlay = network_of(1).overlays[ME]
    overlay.in_links.add(FAR)
    before = state_of(overlay)
    wave = Wave(topic="a", contact=FAR, life=1, number=1, forward=True)
    assert overlay.handle(wave, FAR) == []
    assert overlay.handle(Members(topic="a", nodes=("n6", "n7")), FAR) == []
    assert state_of(overlay) == before
    assert overlay.handle(replace(wave, contact=NEAR), FAR)
    overlay.handle(Members(topic="a", nodes=("n6", "n7")), NEAR)
    assert state_of(overlay) != before


@given(st.integers(0, 20), st.lists(st.tuples(ANYTHING, st.sampled_from(names(8)[1:])), max_size=8))
@settings(max_examples=200)
def test_nonsense_is_refused_or_harmless(seed: int, heard: list[tuple[TopicMessage, str]]) -> None:
    """Views stay sets of other nodes, and grow by at most one node per message; nobody sends to
    itself. A message may well make a node believe in neighbours that do not exist."""
    overlay = network_of(seed).overlays[ME]
    for message, sender in heard:
        before, size = state_of(overlay), len(overlay.view)
        try:
            sends = overlay.handle(message, sender)
        except ProtocolError:
            assert state_of(overlay) == before
            continue
        assert ME not in overlay.view
        assert ME not in overlay.in_links
        assert len(set(overlay.view)) == len(overlay.view) <= max(size + 1, overlay.size)
        assert overlay.size <= before["size"] + 1 or overlay.size == LOWEST
        assert all(send.link != ME for send in sends)
        assert len(sends) <= 2 * len(overlay.view) + 2 * len(overlay.in_links) + 12


@given(
    st.integers(0, 20), st.lists(st.tuples(ANYTHING, *[st.sampled_from(names(8))] * 2), max_size=9)
)
@settings(max_examples=25)
def test_an_overlay_recovers_from_nonsense(
    seed: int, heard: list[tuple[TopicMessage, str, str]]
) -> None:
    """The nodes that the nonsense names do not exist, so that they cannot be reached."""
    network = network_of(seed)
    for message, sender, receiver in heard:
        if sender != receiver:
            network.send(sender, [Send(receiver, message)])
    refused = True
    while refused:
        try:
            network.settle()
            refused = False
        except ProtocolError:
            continue
    network.rounds(60)
    assert network.connected()
    assert network.dead_links() == []
    assert network.wrong_in_links() == []
