"""How brokers learn the primary tree within Delta from their neighbours, through restarts."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_mesh_network import neighbourhood, some_tree

from reefcast.errors import ProtocolError
from reefcast.model.messages import Send
from reefcast.overlay.topology import Graph
from reefcast.routing.mesh.messages import Vicinity
from reefcast.routing.mesh.vicinity import VicinityTable


class Tables:
    """A table for each broker of a tree. Messages keep their order on a link, and have none across
    links."""

    def __init__(self, tree: Graph, delta: int, rng: random.Random) -> None:
        self.tree, self.delta, self.rng = tree, delta, rng
        self.at = {name: VicinityTable(name, delta) for name in tree}
        self.queues: dict[tuple[str, str], deque[Vicinity]] = {}
        self.links = {(a, b) for a in tree for b in tree[a]}
        for a, b in sorted(self.links):
            self.put(a, self.at[a].up(b))

    def put(self, source: str, sends: list[Send]) -> None:
        for send in sends:
            assert isinstance(send.message, Vicinity)
            self.queues.setdefault((source, send.link), deque()).append(send.message)

    def step(self) -> bool:
        under_way = sorted(link for link, queue in self.queues.items() if queue)
        if not under_way:
            return False
        source, target = self.rng.choice(under_way)
        message = self.queues[source, target].popleft()
        if (target, source) in self.links:
            self.put(target, self.at[target].handle(message, source))
        return True

    def settle(self) -> int:
        steps = 0
        while self.step():
            steps += 1
        return steps

    def cut(self, a: str, b: str) -> None:
        for one, other in ((a, b), (b, a)):
            self.links.discard((one, other))
            self.queues.pop((one, other), None)
        for one, other in ((a, b), (b, a)):
            self.put(one, self.at[one].down(other))

    def change(self, name: str, other: str, change: str) -> None:
        """Let one end of a link have it ("up"), or leave it ("down"); what comes by one that it has
        not, or no longer, is dropped."""
        if change == "up":
            self.links.add((name, other))
            self.put(name, self.at[name].up(other))
            if (other, name) in self.links:  # it has told before, when nobody was here
                self.put(other, self.at[other].again(name))
        else:
            self.links.discard((name, other))
            self.queues.pop((other, name), None)
            self.put(name, self.at[name].down(other))

    def restart(self, name: str) -> None:
        """Restart a broker without memory; its neighbours tell it everything again."""
        self.at[name] = VicinityTable(name, self.delta)
        for other in self.tree[name]:
            self.queues.pop((name, other), None)
            self.queues.pop((other, name), None)
        for other in self.tree[name]:
            self.put(name, self.at[name].up(other))
            self.put(other, self.at[other].up(name))

    def is_right(self, name: str) -> bool:
        left = {a: [b for b in self.tree[a] if (a, b) in self.links] for a in self.tree}
        return self.at[name].mom.closer == neighbourhood(left, name, self.delta).closer


def some_tables(seed: int) -> Tables:
    rng = random.Random(seed)
    return Tables(some_tree(rng), rng.randint(1, 5), rng)


@given(st.integers(0, 2**32))
def test_what_is_told_settles_and_each_broker_knows_the_tree_within_delta(seed: int) -> None:
    tables = some_tables(seed)
    told = tables.settle()
    assert told <= len(tables.links) * (len(tables.tree) + 1)
    assert all(tables.is_right(name) for name in tables.tree)


@given(st.integers(0, 2**32))
def test_a_link_that_goes_takes_along_what_is_behind_it(seed: int) -> None:
    tables = some_tables(seed)
    for _ in range(tables.rng.randrange(30)):
        tables.step()
    for a, b in tables.rng.sample(sorted(tables.links), len(tables.links) // 4):
        if (a, b) in tables.links:
            tables.cut(a, b)
    tables.settle()
    assert all(tables.is_right(name) for name in tables.tree)


@given(st.integers(0, 2**32))
def test_while_a_neighbour_relearns_what_it_told_holds(seed: int) -> None:
    """At every step, the brokers that did not restart know everything that they knew."""
    tables = some_tables(seed)
    tables.settle()
    names = sorted(tables.tree)
    fresh = set(tables.rng.sample(names, tables.rng.randint(1, min(3, len(names)))))
    waiting = sorted(fresh)
    while waiting or any(tables.queues.values()):
        if waiting and tables.rng.random() < 0.3:
            tables.restart(waiting.pop())
        tables.step()
        assert all(tables.is_right(name) for name in names if name not in fresh)
    for a, b in sorted(tables.links):
        tables.put(a, tables.at[a].synced(b))
    assert not any(tables.queues.values())
    assert all(tables.is_right(name) for name in names)


def test_what_a_neighbour_did_not_tell_again_goes_when_it_has_told_all() -> None:
    table = VicinityTable("A", 4)
    table.up("B")
    table.handle(Vicinity(brokers=(("C", "B"), ("D", "C"))), "B")
    table.up("B")
    table.handle(Vicinity(brokers=(("E", "B"),)), "B")
    assert table.mom.closer == {"B": "A", "C": "B", "D": "C", "E": "B"}
    table.synced("B")
    assert table.mom.closer == {"B": "A", "E": "B"}
    assert table.synced("B") == []


def test_a_neighbour_is_told_of_the_other_side_and_only_when_that_changes() -> None:
    table = VicinityTable("B", 3)
    assert table.up("A") == [Send("A", Vicinity(brokers=()))]
    told = table.up("C")
    assert Send("A", Vicinity(brokers=(("C", "B"),))) in told
    assert Send("C", Vicinity(brokers=(("A", "B"),))) in told
    told = table.handle(Vicinity(brokers=(("D", "C"), ("E", "D"))), "C")
    assert told == [Send("A", Vicinity(brokers=(("C", "B"), ("D", "C"))))]  # E is too far
    assert table.handle(Vicinity(brokers=(("D", "C"), ("E", "D"))), "C") == []


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        ((("A", "C"),), "'A' itself is in it"),
        ((("D", "E"), ("E", "D")), "no tree"),
        ((("C", "D"), ("D", "C")), "no tree"),
        ((("D", "C"), ("E", "D"), ("F", "E")), "brokers 3 hops from it; give all brokers the same"),
    ],
)
def test_what_is_no_tree_is_refused_and_changes_nothing(
    brokers: tuple[tuple[str, str], ...], words: str
) -> None:
    """A has the neighbours B, with X beyond it, and C."""
    table = VicinityTable("A", 3)
    table.up("B")
    table.up("C")
    table.handle(Vicinity(brokers=(("X", "B"),)), "B")
    before = table.mom
    with pytest.raises(ProtocolError, match=words):
        table.handle(Vicinity(brokers=brokers), "C")
    assert table.mom is before


def test_of_what_does_not_fit_together_the_nearest_is_taken() -> None:
    """A has the neighbours B and C. Each says that W and X are behind it; C, that B is, too."""
    table = VicinityTable("A", 4)
    for link in ("B", "C"):
        table.up(link)
    table.handle(Vicinity(brokers=(("X", "B"), ("Y", "X"), ("W", "Y"))), "B")
    told = table.handle(Vicinity(brokers=(("B", "C"), ("W", "C"), ("Z", "C"), ("X", "Z"))), "C")
    behind_c = {"C": "A", "W": "C", "Z": "C"}
    assert table.mom.closer == {"B": "A", "X": "B", "Y": "X", **behind_c}
    # B is told what it is without B, which may be on its way out.
    assert told == [Send("B", Vicinity(brokers=(("C", "A"), ("W", "C"), ("Z", "C"), ("X", "Z"))))]
    table.down("B")
    assert table.mom.closer == {"B": "C", "X": "Z", **behind_c}


def test_what_is_told_in_this_life_comes_before_what_is_nearer_by_the_former() -> None:
    table = VicinityTable("A", 4)
    for link in ("B", "C"):
        table.up(link)
    table.handle(Vicinity(brokers=(("X", "B"),)), "B")
    table.up("B")
    table.handle(Vicinity(brokers=(("Z", "C"), ("X", "Z"))), "C")
    assert table.mom.closer == {"B": "A", "C": "A", "Z": "C", "X": "Z"}


@given(st.integers(0, 2**32))
def test_while_links_move_at_each_end_for_itself_all_that_is_told_can_be_and_comes_to_fit(
    seed: int,
) -> None:
    """Each end of a link has it, or has left it, when it hears of that: so there are cycles, and
    brokers that two neighbours say they have behind them."""
    tables = some_tables(seed)
    rng, names = tables.rng, sorted(tables.tree)
    tree = {frozenset(link) for link in tables.links}
    for _ in range(rng.randint(1, 4) if tree else 0):
        one = rng.choice(sorted(sorted(link) for link in tree))
        side, far = sides(tree, *one)
        new = sorted((rng.choice(sorted(side)), rng.choice(sorted(far))))
        changes: list[tuple[str, list[str]]] = []
        if new != one:
            changes = [
                (what, ends) for what, x in (("up", new), ("down", one)) for ends in (x, x[::-1])
            ]
        rng.shuffle(changes)
        for change, (name, other) in changes:
            for _ in range(rng.randrange(6)):
                tables.step()
            tables.change(name, other, change)
        tree = tree - {frozenset(one)} | {frozenset(new)}
    tables.settle()
    tables.tree = {name: sorted(x for x in names if frozenset((name, x)) in tree) for name in names}
    assert all(tables.is_right(name) for name in names)


def sides(tree: set[frozenset[str]], one: str, other: str) -> tuple[set[str], set[str]]:
    """Return the brokers on each side of a link."""
    found: list[set[str]] = []
    for begin, without in ((one, other), (other, one)):
        side, reached = {begin}, [begin]
        for name in reached:
            near = {x for link in tree if name in link for x in link} - side - {without}
            side |= near
            reached += sorted(near)
        found.append(side)
    return found[0], found[1]
