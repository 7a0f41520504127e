"""S0, S1, S2 and SH at one broker: the paper's Figs 2, 5 and 6, and a twin that walks paths."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_mesh_network import neighbourhood, primary_path, some_links, some_tree, tree_of

from draws import RANDOMS
from reefcast.errors import InternalError
from reefcast.overlay.topology import Graph
from reefcast.routing.mesh import strategies
from reefcast.routing.mesh.maps import Wom
from reefcast.routing.mesh.strategies import Paths, goes_direct, s1, s2

FIG_2 = tree_of("A-N1 N1-N2 N2-N3 N2-N4 N4-N5 N4-N6")
SOFT_LINKS_OF_FIG_2 = ["N2", "N3", "N5", "N6"]
FIG_3 = tree_of("A-N1 A-N2 N2-X2 N1-X4 N1-X1 X1-N3 X1-X3 X3-N4 N4-X5")


def in_fig_2(links: list[str], direct: bool) -> tuple[str, ...]:
    """Return the brokers to which A forwards p."""
    wom = Wom(neighbourhood(FIG_2, "A", 4), links)
    return Paths(wom, direct).sends(["N3", "N5", "N6"], None)


def test_fig_2a_s0_sends_one_copy_to_n1() -> None:
    assert in_fig_2([], direct=False) == ("N1",)
    assert in_fig_2([], direct=True) == ("N1",)


def test_fig_2b_s1_sends_one_copy_to_n2_which_sends_to_n3_and_n4() -> None:
    assert in_fig_2(SOFT_LINKS_OF_FIG_2, direct=False) == ("N2",)
    wom = Wom(neighbourhood(FIG_2, "N2", 4), [])
    assert Paths(wom, direct=False).sends(["N3", "N5", "N6"], "A") == ("N3", "N4")


def test_fig_2c_s2_sends_copies_to_n3_n5_and_n6() -> None:
    assert in_fig_2(SOFT_LINKS_OF_FIG_2, direct=True) == ("N3", "N5", "N6")


def wom_of_fig_4() -> Wom:
    return Wom(neighbourhood(FIG_3, "A", 4), ["N3", "N4"])


def figure(name: str, anchors: list[str]) -> set[str]:
    """Return what the algorithm of Fig. 5 or 6 gives at A with the WOM of Fig. 4."""
    wom = wom_of_fig_4()
    mask = sum(1 << wom.neighbours.index(anchor) for anchor in anchors)
    return set(wom.names({"5": s1, "6": s2}[name](wom, mask)))


def test_fig_5_s1_goes_to_the_end_of_the_intersection_in_each_branch() -> None:
    assert figure("5", []) == set()
    assert figure("5", ["N4"]) == {"N4"}
    assert figure("5", ["N3", "N4"]) == {"N1"}
    assert figure("5", ["N1", "N4"]) == {"N1"}
    assert figure("5", ["N2", "N4"]) == {"N2", "N4"}
    assert figure("5", ["N2", "N3", "N4"]) == {"N1", "N2"}


def test_fig_6_s2_goes_to_each_anchor_that_has_no_nearer_one_on_its_path() -> None:
    assert figure("6", []) == set()
    assert figure("6", ["N4"]) == {"N4"}
    assert figure("6", ["N3", "N4"]) == {"N3", "N4"}
    assert figure("6", ["N1", "N4"]) == {"N1"}
    assert figure("6", ["N2", "N3", "N4"]) == {"N2", "N3", "N4"}


def test_anchors_without_a_direct_link_count_as_what_they_were_substituted_with() -> None:
    paths = Paths(wom_of_fig_4(), direct=True)
    assert paths.sends(["X3", "N4"], None) == ("N1",)
    assert paths.sends(["X2"], None) == ("N2",)


def test_a_local_subscription_sends_no_copy() -> None:
    assert Paths(wom_of_fig_4(), direct=True).sends(["A"], None) == ()


def test_line_2_the_whole_branch_of_the_sender_is_dropped() -> None:
    """N1 and X1 on the path from N3 are dropped, and so is N4, which forks off there and is served
    from there."""
    paths = Paths(wom_of_fig_4(), direct=True)
    assert paths.sends(["N1", "N3", "N4", "N2"], "N3") == ("N2",)
    assert paths.sends(["N1", "N3", "N4", "N2"], "X3") == ("N2",)
    assert paths.sends(["N1", "N3", "N4", "N2"], "X2") == ("N1",)


def test_who_is_outside_the_map_is_a_fault() -> None:
    paths = Paths(wom_of_fig_4(), direct=True)
    with pytest.raises(InternalError, match="'A' has no broker 'X5'"):
        paths.sends(["X5"], None)
    with pytest.raises(InternalError, match="'A' has no broker 'X5'"):
        paths.sends([], "X5")


def test_sh_is_s1_above_the_threshold_and_else_s2() -> None:
    assert not goes_direct("SH", 0.81)
    assert goes_direct("SH", 0.8)
    assert goes_direct("SH", 0.5, threshold=0.5)
    assert not goes_direct("SH", 0.6, threshold=0.5)
    assert goes_direct("S2", 5.0)
    assert not goes_direct("S1", 0.0)
    assert not goes_direct("S0", 0.0)


def test_sh_may_change_its_mind_between_two_publications() -> None:
    paths = Paths(wom_of_fig_4(), direct=True)
    seen = []
    for paths.direct in (True, False, True, False):
        seen.append(paths.sends(["N3", "N4"], None))
    assert seen == [("N3", "N4"), ("N1",)] * 2


def walked(
    tree: Graph, me: str, links: set[str], anchors: list[str], came_from: str | None, direct: bool
) -> set[str]:
    """The slow twin: the strategies in words, on lists of brokers."""
    paths = [primary_path(tree, me, anchor) for anchor in anchors if anchor != me]
    if came_from is not None:
        back = primary_path(tree, me, came_from)[0]
        paths = [path for path in paths if path[0] != back]
    linked = [[broker for broker in path if broker in links] for path in paths]
    if direct:
        ends = {path[-1] for path in linked}
        return {path[-1] for path in linked if not ends & set(path[:-1])}
    chosen = set()
    for first in {path[0] for path in paths}:
        branch = [path for path in linked if path[0] == first]
        shared = [broker for broker in branch[0] if all(broker in path for path in branch)]
        chosen.add(shared[-1])
    return chosen


@given(RANDOMS, st.booleans())
def test_both_strategies_are_what_their_words_say(rng: random.Random, direct: bool) -> None:
    tree = some_tree(rng)
    me = rng.choice(sorted(tree))
    mom = neighbourhood(tree, me, rng.randint(1, 5))
    wom = Wom(mom, some_links(mom, rng))
    paths = Paths(wom, direct)
    for _ in range(20):
        anchors = rng.choices([me, *mom.brokers], k=rng.randint(0, 8))
        came_from = rng.choice([None, *mom.brokers])
        sends = paths.sends(anchors, came_from)
        expected = walked(tree, me, set(wom.neighbours), anchors, came_from, direct)
        assert set(sends) == expected
        assert list(sends) == sorted(expected, key=wom.neighbours.index)


def test_the_memory_is_bounded_and_forgetting_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strategies, "REMEMBERED", 3)
    rng = random.Random(1)
    paths = Paths(wom_of_fig_4(), direct=True)
    for _ in range(200):
        anchors = rng.sample(paths.wom.mom.brokers, 3)
        assert paths.sends(anchors, None) == Paths(paths.wom, True).sends(anchors, None)
        assert len(paths._s2) <= 3
