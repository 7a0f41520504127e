"""When the old copies of a move have drained, against networks in which copies go wherever they
may."""

from __future__ import annotations

import random
from collections import deque
from typing import Literal, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from routing_mesh_network import neighbourhood, some_tree

from reefcast.routing.capabilities import SoftLink
from reefcast.routing.mesh.drain import Drain


class Item(NamedTuple):
    """A message on a link. A copy in a tunnel has a `source`, whose link to `target` failed."""

    kind: Literal["copy", "drained", "answer"]
    source: str = ""
    target: str = ""


class Region:
    """The affected brokers, which form a tree, with random soft links, some of which fail. Until
    *switch* reaches a broker, it makes copies that follow the old tables."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tree = some_tree(self.rng, 12)
        delta = self.rng.randint(1, 4)
        names = sorted(self.tree)
        self.moms = {me: neighbourhood(self.tree, me, delta) for me in names}
        self.soft: dict[str, dict[str, SoftLink]] = {me: {} for me in names}
        self.links: dict[tuple[str, str], deque[Item]] = {
            (a, b): deque() for a in names for b in self.tree[a]
        }
        for a in names:
            for b in self.moms[a].brokers:
                if a < b and b not in self.tree[a] and self.rng.random() < 0.4:
                    self.soft[a][b], self.soft[b][a] = SoftLink.OPENED, SoftLink.ACCEPTED
                    self.links[a, b], self.links[b, a] = deque(), deque()
        self.drains = {
            me: Drain(self.moms[me], sorted(self.tree[me]), frozenset(names), self.soft[me])
            for me in names
        }
        self.failed: dict[tuple[str, str], list[Item]] = {}
        """Failures that the link's first end does not know of yet, and the copies that will come
        back to it."""
        self.switched: set[str] = set()
        self.over: set[str] = set()
        self.copies = 0

    # --- copies -----------------------------------------------------------------------------------

    def goes_on(self, me: str, came_by: str | None) -> None:
        """Pass a copy on by the old tables, into any branches except the one that it came from."""
        mom = self.moms[me]
        self.copies += 1
        assert me not in self.over, "a copy by the old tables came after they had drained"
        for branch in self.tree[me]:
            if came_by is not None and mom.branch(came_by) == branch:
                continue
            if self.rng.random() < 0.6:
                into = [x for x, s in self.soft[me].items() if s.up and mom.branch(x) == branch]
                self.put(me, self.rng.choice([branch, *into]), Item("copy"))

    def put(self, me: str, to: str, item: Item) -> None:
        if (me, to) in self.failed:
            if item.kind == "copy":
                self.failed[me, to].append(item)
        else:
            self.links[me, to].append(item)

    def arrive(self, source: str, me: str) -> None:
        item = self.links[source, me].popleft()
        if item.kind == "drained":
            self.drains[me].heard(source)
            if self.drains[source].is_soft(me):
                self.put(me, source, Item("answer"))
        elif item.kind == "answer":
            self.drains[me].confirmed(source)
        elif item.target in ("", me):
            self.goes_on(me, item.source or source)
        else:
            assert me not in self.over, "a copy in a tunnel passed after the old tables had drained"
            self.put(me, self.moms[me].branch(item.target), item)
        self.look(me)

    # --- failures ---------------------------------------------------------------------------------

    def fail(self, a: str, b: str) -> None:
        for ends in ((a, b), (b, a)):
            self.failed[ends] = [item for item in self.links.pop(ends) if item.kind == "copy"]

    def handle_of_failure(self, me: str, other: str) -> None:
        lost = self.failed[me, other]
        del self.soft[me][other]
        for _ in lost:
            self.put(me, self.moms[me].branch(other), Item("copy", me, other))
        self.look(me)
        self.drains[me].confirmed(other)  # nobody will answer
        self.look(me)
        self.failed[me, other] = []

    # --- what happens -----------------------------------------------------------------------------

    def look(self, me: str) -> None:
        if me not in self.switched:
            return
        for link in self.drains[me].to_say():
            self.put(me, link, Item("drained"))
        if self.drains[me].over:
            self.over.add(me)

    def step(self) -> bool:
        """Let one random thing happen; return False if nothing is left to happen."""
        rng = self.rng
        waiting = [ends for ends, items in self.links.items() if items]
        unheard = [ends for ends in self.failed if ends[1] in self.soft[ends[0]]]
        unswitched = sorted(self.tree.keys() - self.switched)
        softs = [ends for ends in self.links if ends[1] in self.soft[ends[0]]]
        chance = rng.random()
        if unswitched and (chance < 0.1 or (not waiting and not unheard)):
            me = rng.choice(unswitched)
            self.switched.add(me)
            self.look(me)
        elif unheard and (chance < 0.2 or not waiting):
            self.handle_of_failure(*rng.choice(sorted(unheard)))
        elif softs and chance < 0.22:
            self.fail(*rng.choice(sorted(softs)))
        elif unswitched and chance < 0.5:
            self.goes_on(rng.choice(unswitched), None)
        elif waiting:
            self.arrive(*rng.choice(sorted(waiting)))
        return bool(waiting or unheard or unswitched)


@given(st.integers(0, 2**32))
def test_all_run_dry_and_no_old_copy_is_seen_after_that(seed: int) -> None:
    region = Region(seed)
    while region.step():
        pass
    assert region.over == region.tree.keys()


def test_the_networks_of_this_test_have_copies_and_failures() -> None:
    regions = [Region(seed) for seed in range(100)]
    for region in regions:
        while region.step():
            pass
    assert sum(region.copies for region in regions) > 1000
    assert sum(len(region.failed) for region in regions) > 100


def test_a_link_that_opens_later_is_waited_for() -> None:
    """Nothing crosses the link yet, but its other end may already regard it as up."""
    mom = neighbourhood({"a": ["b"], "b": ["a", "c"], "c": ["b"]}, "a", 2)
    soft = {"c": SoftLink.OPENING}
    drain = Drain(mom, ["b"], frozenset("abc"), soft)
    assert drain.to_say() == ["b"]
    drain.heard("b")
    drain.heard("c")
    assert not drain.over
    soft["c"] = SoftLink.OPENED
    assert drain.to_say() == ["c"]
    assert not drain.over
    drain.confirmed("c")
    assert drain.over


def test_nothing_is_said_to_be_drained_on_a_link_for_which_copies_wait_here() -> None:
    held = {"b"}
    mom = neighbourhood({"a": ["b"], "b": ["a"]}, "a", 2)
    drain = Drain(mom, ["b"], frozenset("ab"), {}, lambda link: link in held)
    drain.heard("b")
    assert not drain.to_say()
    assert not drain.over
    held.clear()
    assert drain.to_say() == ["b"]
    assert drain.over
