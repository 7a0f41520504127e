"""The script of the demonstration of gossip, its figures, and its page."""

from __future__ import annotations

import random
import socket

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")

from reefcast_lab.demos.gossip_figures import (
    NEVER,
    PROMPT_US,
    Due,
    all_due,
    at_random,
    binned,
    figures,
    in_one_piece,
    lacks,
    moment,
    pairs,
    recovery_s,
    unexpected,
)
from reefcast_lab.demos.gossip_live import SOCKETS, Run, Seen, established
from reefcast_lab.demos.gossip_report import conclusions, render, table
from reefcast_lab.demos.gossip_script import CONTACTS, Cast, GossipPlan

# --- the script -----------------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> GossipPlan:
    peers = draw(st.integers(2, 60))
    topics = draw(st.integers(2, 30))
    kill = draw(st.integers(0, peers - 2))
    least, most = (2 if kill else 1), peers - kill + bool(kill)
    return GossipPlan(
        peers=peers,
        processes=draw(st.integers(least, most)),
        topics=topics,
        interests=draw(st.integers(1, topics)),
        kill=kill,
        seed=draw(st.integers(0, 5)),
    ).validate()


@given(plans())
def test_who_is_where_and_wants_what(plan: GossipPlan) -> None:
    cast = Cast(plan)
    assert sorted(peer for hosted in cast.hosted for peer in hosted) == list(range(plan.peers))
    assert len(cast.hosted) == plan.processes and all(cast.hosted)
    assert len(cast.victims) == plan.kill
    if plan.kill:
        assert set(cast.hosted[0]) == cast.victims
    assert len(set(cast.contacts)) == len(cast.contacts) <= CONTACTS
    assert len(cast.contacts) >= min(CONTACTS, plan.peers - plan.kill)
    assert set(cast.contacts) - cast.victims, "a contact survives"
    assert len(set(cast.contacts) & cast.victims) <= 1, "each topic has two contacts"
    for number, topics in enumerate(cast.wants):
        assert topics and set(topics) == {t for t, who in cast.members.items() if number in who}
    assert Cast(plan).wants == cast.wants


def test_neighbours_have_more_topics_in_common_than_others() -> None:
    cast = Cast(GossipPlan(peers=200, topics=50))
    sizes = [len(members) for members in cast.members.values()]
    by_chance = sum(size * (size - 1) for size in sizes)
    shared = sum(
        len(set(a) & set(b)) ** 2 for i, a in enumerate(cast.wants) for b in cast.wants[:i]
    )
    assert shared > 1.5 * by_chance / 2


# --- connections ----------------------------------------------------------------------------------

VIEWS = {0: {"x": [1], "y": [1, 2]}, 1: {"x": [0], "y": [2]}, 2: {"y": [0, 9]}}


def test_connections_of_one_moment() -> None:
    """Peer 9 is dead: links to it do not count."""
    seen = Seen(0, 3.0, None, VIEWS)
    found = moment(seen, Cast(GossipPlan(peers=10, kill=1, processes=2)))
    assert (found.connections, found.sockets) == (3, None)
    assert found.unshared == 1 + 3
    assert (found.connected, found.topics) == (2, 2)
    assert found.most == 2
    assert found.unaligned == 3


views = st.integers(1, 7).flatmap(
    lambda n: st.fixed_dictionaries(
        {i: st.lists(st.integers(0, n - 1), unique=True, max_size=3) for i in range(n)}
    )
)


@given(views)
def test_one_piece_is_strongly_connected(views: dict[int, list[int]]) -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from(views)
    graph.add_edges_from((a, b) for a, view in views.items() for b in view)
    assert in_one_piece(views) == nx.is_strongly_connected(graph)


@given(views, st.integers(0, 3))
def test_views_at_random_have_the_sizes_of_those_that_there_are(
    views: dict[int, list[int]], seed: int
) -> None:
    views = {peer: [other for other in view if other != peer] for peer, view in views.items()}
    drawn = at_random(views, random.Random(seed))
    for peer, view in drawn.items():
        assert len(set(view) - {peer}) == len(view) == len(views[peer])
    assert all(a < b for a, b in pairs(drawn))


def test_sockets_are_those_of_the_operating_system() -> None:
    """Only Linux reports them."""
    none, one = (0, 1) if SOCKETS.exists() else (None, None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert established([port]) == none
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            assert established([port]) == one
            assert established([]) == none


# --- deliveries -----------------------------------------------------------------------------------

SECOND = 1_000_000


def some_run() -> tuple[Run, Cast]:
    """Return five peers subscribed to the only topic; one is killed after ten seconds."""
    cast = Cast(GossipPlan(peers=5, processes=2, topics=2, interests=2, kill=1, seed=1))
    cast.wants = [["t000"]] * 5
    (victim,) = cast.victims
    living = [peer for peer in range(5) if peer != victim]
    run = Run(joined_us=dict.fromkeys(range(5), 0), killed_us=10 * SECOND)
    run.ended_us, run.twice = 30 * SECOND, 0
    run.connections = [(0, 0.0), (SECOND, 6.0), (11 * SECOND, 4.0)]
    seen = {peer: {"t000": [x for x in living if x != peer]} for peer in living}
    run.settled = Seen(2 * SECOND, 6.0, 6, seen)
    run.aligned = Seen(9 * SECOND, 5.0, 5, seen)
    run.ended = Seen(31 * SECOND, 4.0, 4, seen)
    run.published = [
        (living[0], 1, 5 * SECOND, ["t000"]),
        (victim, 1, 9 * SECOND, ["t000"]),
        (victim, 2, 9 * SECOND, ["t000"]),
        (living[1], 1, 12 * SECOND, ["t000"]),
    ]
    for publisher, seq, at_us, _ in run.published[:2] + run.published[3:]:
        for peer in living:
            if peer != publisher:
                run.came_us[publisher, seq, peer] = at_us + 1000
    return run, cast


def test_what_is_due() -> None:
    """Neither the publisher itself nor a killed peer is owed an event, and what died with its
    publisher is owed to nobody."""
    run, cast = some_run()
    dues = list(all_due(run, cast))
    assert len(dues) == 3 + 4 + 0 + 3
    assert {due.delay_us for due in dues} == {1000}
    assert not lacks(run, cast)
    (victim,) = cast.victims
    living = next(peer for peer in range(5) if peer != victim)
    run.came_us[victim, 2, living] = 20 * SECOND
    dues = list(all_due(run, cast))
    assert sorted(due.delay_us for due in dues[7:11]) == [NEVER] * 3 + [11 * SECOND]
    assert lacks(run, cast)
    # Who had not joined yet is owed nothing, and the second one of the victim died with it again.
    assert run.published[0][0] == living
    run.joined_us[living] = 11 * SECOND
    assert len(list(all_due(run, cast))) == 3 + 3 + 0 + 3


def test_figures_and_the_page() -> None:
    run, cast = some_run()
    found = figures(run, cast)
    assert found.passed
    assert (found.published, found.due, found.missing, found.peak) == (4, 10, 0, 6)
    assert (found.prompt_before, found.prompt_after, found.recovery_s) == (1.0, 1.0, 0.0)
    assert [row[1] for row in table(found)[:2]] == [["5", "5", "4"], ["6", "5", "4"]]
    page = render(run, cast, found)
    for sentence in conclusions(found):
        assert sentence in page
    assert "all delivered" in page and page.count("<svg") == 2


def test_what_is_lost_or_twice_fails_and_what_is_in_pieces_is_told() -> None:
    run, cast = some_run()
    run.twice = 1
    assert not figures(run, cast).passed
    run, cast = some_run()
    run.came_us.popitem()
    found = figures(run, cast)
    assert (found.missing, found.recovery_s) == (1, 2.0)
    assert not found.passed and "1 never came" in conclusions(found)[-1]
    run, cast = some_run()
    assert run.ended is not None
    run.ended.views = {peer: {"t000": []} for peer in run.ended.views}
    found = figures(run, cast)
    assert found.passed and "0 of 1 topics" in conclusions(found)[-1]
    run, cast = some_run()
    cast.wants[next(peer for _, _, peer in run.came_us)] = ["t001"]
    assert unexpected(run, cast) >= 2
    assert not figures(run, cast).passed


def test_when_all_is_as_before() -> None:
    def due(at_s: float, delay_us: int) -> Due:
        return Due(round(at_s * SECOND), delay_us)

    killed_us, ended_us = 10 * SECOND, 40 * SECOND
    slow = PROMPT_US + 1
    before = [due(9, NEVER), due(11, PROMPT_US)]
    assert recovery_s(before, killed_us, ended_us) == 0.0
    assert recovery_s([*before, due(11, slow), due(13, 5)], killed_us, ended_us) == 1.0
    assert recovery_s([due(12, NEVER), due(11, slow)], killed_us, ended_us) == 2.0
    assert recovery_s([due(39.5, NEVER)], killed_us, ended_us) is None


def test_deliveries_by_when_they_were_published() -> None:
    dues = [Due(1_500_000, 5), Due(1_700_000, NEVER), Due(3_000_000, 2 * PROMPT_US)]
    at_us, prompt, came = binned(dues, SECOND, SECOND)
    assert at_us.tolist() == [0, 2 * SECOND]
    assert prompt.tolist() == [0.5, 0.0]
    assert came.tolist() == [0.5, 1.0]
