"""Permissions to move a link, in random networks with slow messages, whose brokers restart without
memory."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from routing_mesh_network import some_tree

from reefcast.model.keeping import Change, PutRow
from reefcast.routing.mesh.move_messages import Permission, Step, Wish
from reefcast.routing.mesh.permissions import GRANTED_MOVES, Permissions

SEEDS = st.integers(0, 2**32)


class Network:
    """A tree of brokers that pass on what is new to them; each link keeps its order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tree = some_tree(self.rng, 12)
        self.coordinator = self.rng.choice(sorted(self.tree))
        self.now = 0.0
        self.brokers = {name: self.fresh(name) for name in self.tree}
        self.links: dict[tuple[str, str], deque[Permission | None]] = {
            (a, b): deque() for a in self.tree for b in self.tree[a]
        }
        """The messages under way; None: the sender has told everything that it knows."""
        self.missing: set[tuple[str, str]] = set()
        self.moving: dict[str, Permission] = {}
        self.granted: Counter[Wish] = Counter()
        self.heard: Counter[tuple[str, Permission]] = Counter()

    def fresh(self, name: str) -> Permissions:
        return Permissions(name, self.coordinator, lambda: self.now)

    def ask(self, name: str) -> Wish:
        message = self.brokers[name].ask("old", "new")
        self.spread(name, message, None)
        return message.wish

    def spread(self, me: str, message: Permission, came_by: str | None) -> None:
        if not self.brokers[me].handle(message):
            return
        self.heard[me, message] += 1
        for other in self.tree[me]:
            if other != came_by:
                self.links[me, other].append(message)
        if message.step == "grant" and message.mover == me:
            if self.brokers[me].granted(message) is None:
                self.give_up(me)
            else:
                self.granted[message.wish] += 1
                self.moving[me] = message
                assert len(self.moving) == 1, "two moves at once"
        self.grant(me)

    def relearns(self, me: str) -> bool:
        return any(target == me for _, target in self.missing)

    def give_up(self, me: str) -> None:
        """Give up a move of the broker's former life, unless a neighbour may know that it is
        over."""
        last = self.brokers[me].last
        known = me in self.moving or self.relearns(me)
        if last is not None and last.mover == me and last.step == "grant" and not known:
            self.spread(me, last.then("abandon", last.move), None)

    def grant(self, me: str) -> None:
        if self.relearns(me):
            return
        grant = self.brokers[me].grant()
        if grant is not None:
            assert not self.moving, "two moves at once"
            self.spread(me, grant, None)

    def restart(self, name: str) -> None:
        """Restart a broker: what is on its links is lost, and its neighbours tell it everything
        that is open."""
        self.brokers[name] = self.fresh(name)
        for other in self.tree[name]:
            self.links[name, other].clear()
            self.links[other, name] = deque([*self.brokers[other].open(), None])
            self.missing.add((other, name))

    def step(self) -> bool:
        """Let one random thing happen; return False if nothing is left to happen."""
        self.now += 0.1
        busy = sorted(ends for ends, waiting in self.links.items() if waiting)
        if self.moving and (not busy or self.rng.random() < 0.05):
            name, grant = self.moving.popitem()
            self.spread(name, grant.then(self.rng.choice(("done", "abandon")), grant.move), None)
        elif busy:
            source, target = ends = self.rng.choice(busy)
            message = self.links[ends].popleft()
            if message is not None:
                self.spread(target, message, source)
            else:
                self.missing.discard(ends)
                self.give_up(target)
                self.grant(target)
        return bool(self.moving) or any(self.links.values())

    def run(self) -> None:
        """Run until nothing is left to happen."""
        for _ in range(100_000):
            if not self.step():
                return
        raise AssertionError("messages never ended")


@given(SEEDS)
def test_all_that_is_asked_is_granted_one_after_the_other_and_told_once(seed: int) -> None:
    network = Network(seed)
    asked = []
    for _ in range(network.rng.randint(1, 12)):
        asked.append(network.ask(network.rng.choice(sorted(network.tree))))
        for _ in range(network.rng.randrange(20)):
            network.step()
    network.run()
    assert network.granted == Counter(asked)
    assert set(network.heard.values()) == {1}
    assert len(network.heard) == 3 * len(asked) * len(network.tree)
    assert not any(broker.grant() for broker in network.brokers.values())


@example(2327)
@example(10774)
@given(SEEDS)
def test_brokers_that_restart_take_nobodys_wish_along_and_let_no_two_move(seed: int) -> None:
    network = Network(seed)
    asked: set[Wish] = set()
    for _ in range(network.rng.randint(1, 25)):
        name = network.rng.choice(sorted(network.tree))
        if network.rng.random() < 0.6:
            asked.add(network.ask(name))
        elif name not in network.moving and not network.missing:
            network.restart(name)
            asked = {wish for wish in asked if wish[0] != name}
        for _ in range(network.rng.randrange(20)):
            network.step()
    network.run()
    assert asked <= network.granted.keys()
    assert max(network.granted.values(), default=1) == 1
    last = {broker.open()[-1] for broker in network.brokers.values() if broker.open()}
    assert len(last) <= 1
    assert all(message.step in ("done", "abandon") for message in last)


def test_an_ask_that_comes_again_after_it_was_forgotten_is_no_wish_any_more() -> None:
    """The mover can then finish the request at once."""
    coordinator, mover = (Permissions(name, "c", lambda: 1.0) for name in "cm")
    ask = mover.ask("old", "new")
    assert coordinator.handle(ask)
    grant = coordinator.grant()
    assert grant is not None
    assert mover.granted(grant) == ("old", "new")
    coordinator.handle(grant.then("done", grant.move))
    assert not coordinator.handle(ask)
    for number in range(3000):
        other = Permission(step="ask", mover="x", life=1, number=number)
        coordinator.handle(other)
        coordinator.handle(other.then("done", grant.move + 1 + number))
    assert coordinator.handle(ask)
    again = coordinator.grant()
    assert again is not None
    assert again.wish == ask.wish
    assert again.move > grant.move
    assert mover.granted(again) is None


def test_of_a_move_that_is_at_its_end_nothing_else_is_granted_and_it_is_not_abandoned() -> None:
    coordinator, other = (Permissions(name, "c", lambda: 1.0) for name in "co")
    for mover in ("m", "n"):
        coordinator.handle(Permission(step="ask", mover=mover, life=1, number=1))
    grant = coordinator.grant()
    assert grant is not None
    assert other.handle(grant)
    assert coordinator.handle(grant)
    end = other.follow("end", grant.move, "old")
    assert end is not None
    assert end.old == "old"
    assert coordinator.handle(end)
    assert coordinator.runs(grant.move)
    assert not coordinator.runs(grant.move + 1)
    assert coordinator.grant() is None
    assert coordinator.follow("abandon", grant.move) is None
    assert not coordinator.handle(grant)
    assert coordinator.handle(end.then("done", end.move))
    assert not coordinator.runs(grant.move)
    following = coordinator.grant()
    assert following is not None
    assert (following.mover, following.move) == ("n", grant.move + 1)


def test_of_a_move_of_which_nothing_was_heard_nothing_follows() -> None:
    here = Permissions("b", "c", lambda: 1.0)
    assert not here.runs(1)
    assert here.follow("end", 1) is None


def test_a_wish_of_a_later_life_is_another_one_however_soon_that_begins() -> None:
    coordinator = Permissions("c", "c", lambda: 0.0)
    first = Permissions("b", "c", iter((7.0, 8.0)).__next__)
    asks = [first.ask("old", "new"), first.ask("old", "new")]
    assert [ask.wish for ask in asks] == [("b", 7_000_000, 1), ("b", 7_000_000, 2)]
    again = Permissions("b", "c", lambda: 7.001).ask("old", "new")
    assert all(coordinator.handle(ask) for ask in (*asks, again))


@given(st.lists(st.sampled_from(["restart", "crash", "ask", "done", "abandon"]), max_size=12))
def test_a_coordinator_with_a_disk_grants_nothing_before_it_knows_what_became_of_the_last_move(
    events: list[str],
) -> None:
    """It tells of the same grant again, under the same number; a number is never given twice."""
    disk: dict[bytes, bytes] = {}

    def started() -> Permissions:
        permissions = Permissions("c", "c", lambda: 0.0)
        permissions.keep(write, dict(disk))
        return permissions

    def write(change: Change) -> None:
        assert isinstance(change, PutRow)
        assert change.table == GRANTED_MOVES
        disk[change.key] = change.row

    coordinator, runs, granted = started(), None, list[Permission]()
    for number, event in enumerate(events):
        coordinator.handle(Permission(step="ask", mover="m", life=number, number=1))
        grant = coordinator.grant()
        if runs is None:
            assert grant is not None
            runs = grant
            granted.append(grant)
            if event != "crash":
                coordinator.handle(grant)
        else:
            assert grant is None
        if event in ("restart", "crash"):
            coordinator = started()
            assert coordinator.open() == [runs]
        elif event in ("done", "abandon"):
            assert coordinator.handle(
                runs.then("done" if event == "done" else "abandon", runs.move)
            )
            runs = None
            coordinator = started()
            assert coordinator.open() == []
    assert [each.move for each in granted] == list(range(1, len(granted) + 1))
    assert len(disk) <= 1


def test_what_was_asked_for_by_a_grant_that_is_told_again_is_granted_once() -> None:
    disk: dict[bytes, bytes] = {}
    before, after = (Permissions("c", "c", lambda: 0.0) for _ in range(2))

    def write(change: Change) -> None:
        assert isinstance(change, PutRow)
        disk[change.key] = change.row

    before.keep(write, {})
    ask = Permission(step="ask", mover="m", life=1, number=1)
    before.handle(ask)
    grant = before.grant()
    assert grant is not None
    after.keep(write, disk)
    assert not after.handle(ask)
    assert after.handle(grant.then("done", grant.move))
    assert after.grant() is None


def test_who_comes_up_is_told_of_the_last_move_of_each_mover_that_was_carried_out() -> None:
    here, late = (Permissions(name, "c", lambda: 1.0) for name in "bz")
    for move, mover in enumerate("mnm", 1):
        grant = Permission(step="grant", mover=mover, life=1, number=move, move=move)
        here.handle(grant)
        here.handle(grant.carried_out(move, left=((f"old{move}", move),)))
    for message in here.open():
        assert late.handle(message)
    assert late.last == here.last
    assert {name: each.left for name, each in late.carried_out.items()} == {
        "n": (("old2", 2),),
        "m": (("old3", 3),),
    }
    assert late.carried_out == here.carried_out


def test_of_brokers_that_were_taken_out_links_and_wishes_are_forgotten() -> None:
    """That their moves were carried out stays known: others have reached these epochs."""
    here, late = (Permissions(name, "c", lambda: 1.0) for name in "bz")
    for move, mover in enumerate("mn", 1):
        grant = Permission(step="grant", mover=mover, life=1, number=1, move=move)
        links = (("m", move), ("x", move))
        here.handle(grant.carried_out(move, left=(("o", move),), come=links))
    for mover in "mn":
        here.handle(Permission(step="ask", mover=mover, life=1, number=2))
    assert here.forget(["m"]) is None
    for message in here.open():
        late.handle(message)
    for known in (here, late):
        assert [each.mover for each in known.open() if each.step == "ask"] == ["n"]
        assert {name: (x.move, x.left, x.come) for name, x in known.carried_out.items()} == {
            "m": (1, (), ()),
            "n": (2, (("o", 2),), (("x", 2),)),
        }


@pytest.mark.parametrize("step", ["grant", "end", "done", "abandon"])
def test_whose_mover_was_taken_out_a_move_that_runs_is_to_be_concluded(step: Step) -> None:
    here = Permissions("b", "c", lambda: 1.0)
    grant = Permission(step="grant", mover="m", life=1, number=1, move=3)
    here.handle(grant if step == "grant" else grant.then(step, 3))
    assert here.forget(["n"]) is None
    unended = here.forget(["m"])
    assert (unended is not None) == (step in ("grant", "end"))
