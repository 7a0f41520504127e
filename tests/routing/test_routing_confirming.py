"""Confirmed publications: the promises hold in random networks under random faults, and each rule
that is broken on purpose is found out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reefcast.model.messages import LinkKind, LinkUp, Publish, Refused, Send
from reefcast.model.publication import Publication
from reefcast.routing import neighbour_links
from reefcast.routing.broker import Broker
from reefcast.routing.confirming import Confirming, Work
from reefcast.routing.consequences import Consequences
from reefcast.routing.delivering import Delivering
from reefcast.routing.gate import Gate
from reefcast.routing.holding import Holding
from reefcast.routing.on_disk import OnDisk
from reefcast.routing.scot import ScotRouter
from reefcast.routing.settlement import Settlement
from reefcast.simulation.torture.judging import judge
from reefcast.simulation.torture.network import Network
from reefcast.simulation.torture.publishers import Publisher
from reefcast.simulation.torture.run import torture

SEEDS = {"acyclic": 60, "spr": 30, "idr": 25}


@pytest.mark.parametrize(
    ("routing", "seed"), [(name, seed) for name, count in SEEDS.items() for seed in range(count)]
)
def test_what_is_confirmed_is_in_every_queue_once_and_in_order(routing: str, seed: int) -> None:
    network, problems = torture(seed, routing)
    assert not problems
    assert network.confirmations


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 6000, 500))
@pytest.mark.parametrize("routing", SEEDS)
def test_it_holds_in_thousands_of_networks(routing: str, first: int) -> None:
    for seed in range(first, first + 500):
        _, problems = torture(seed, routing)
        assert not problems, f"seed {seed}"


def _line(seed: int) -> tuple[Network, Publisher]:
    """Three brokers in a row, a session at one end, and a publisher at the other."""
    network = Network([("a", "b"), ("b", "c")], seed, covering="lazy")
    network.want("s0", "c", "x >= 0")
    network.settle()
    return network, network.publisher("p0", "a")


@pytest.mark.parametrize("seed", range(1))
def test_one_broker_is_killed_at_every_step_of_two_publications(seed: int) -> None:
    def begun(steps: int) -> Network:
        network, publisher = _line(seed)
        for x in (1, 2):
            publisher.publish({"x": x}, confirm=True)
        network.run(steps)
        return network

    steps = 0
    while list(begun(steps).steps()):
        for name in "abc":
            for later in (0, 3):
                network = begun(steps)
                network.kill(name)
                network.run(later)
                network.start(name)
                assert not judge(network), f"{name} killed at step {steps}"
                assert network.publishers["p0"].confirmed == {1, 2}
        steps += 1
    assert steps > 15


# --- mutants -------------------------------------------------------------------------------------

Break = Callable[[pytest.MonkeyPatch], None]


def _answers_at_once(patch: pytest.MonkeyPatch) -> None:
    came = Confirming.came

    def mutant(self: Confirming, *args: Any) -> Any:
        work, copies, anew = came(self, *args)
        for waiter in work.waiters.values():
            waiter.copies.clear()
        return work, copies, anew

    patch.setattr(Confirming, "came", mutant)


def _answers_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    behind = OnDisk.behind

    def mutant(self: OnDisk, *args: Any) -> Any:
        onward = behind(self, *args)
        return onward + [each for _, answers in self._answers for each in answers]

    patch.setattr(OnDisk, "behind", mutant)


def _one_answer_for_all(patch: pytest.MonkeyPatch) -> None:
    came = Confirming.came

    def mutant(self: Confirming, *args: Any) -> Any:
        work, copies, anew = came(self, *args)
        for waiter in work.waiters.values():
            waiter.copies.update(copy for copy, answered in work.sent.items() if not answered)
        return work, copies, anew

    patch.setattr(Confirming, "came", mutant)


def _who_comes_again_waits_for_nothing(patch: pytest.MonkeyPatch) -> None:
    came = Confirming.came

    def mutant(self: Confirming, *args: Any) -> Any:
        work, copies, anew = came(self, *args)
        if not anew and not copies:
            work.waiters[args[2]].copies.clear()
        return work, copies, anew

    patch.setattr(Confirming, "came", mutant)


def _nothing_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Confirming, "unanswered", lambda self, link, known: [])


def _restored_rows_have_settled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Settlement, "join_all_said", lambda self, work, id: None)


def _neighbours_are_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(neighbour_links.NeighbourLinks, "stays_away", lambda self, link: self.lose(link))


def _advertisements_are_waited_for_a_while(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "patience_is_over", lambda self, client, now: self.release(client))


def _who_returns_has_what_it_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "release_for", lambda self, old, new: self.release(old))


def _others_overtake(patch: pytest.MonkeyPatch) -> None:
    hold_back = Gate._hold_back

    def mutant(client: Any, batch: list[Publish]) -> list[Publish]:
        before = hold_back(client, batch)
        going = [publish for publish in client.held if publish.publication.seq % 2]
        client.held = [publish for publish in client.held if publish not in going]
        return before + going

    patch.setattr(Gate, "_hold_back", staticmethod(mutant))


def _holding_has_no_order(patch: pytest.MonkeyPatch) -> None:
    release = Holding._release
    patch.setattr(Holding, "_release", lambda self, link: release(self, link)[::-1])


def _sessions_of_this_broker_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    owe = Delivering._owe

    def mutant(self: Delivering, publish: Publish, local: Any, work: Work | None) -> Any:
        return local if publish.again else owe(self, publish, local, work)

    patch.setattr(Delivering, "_owe", mutant)


def _witnesses_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    def mutant(self: ScotRouter, row: Any) -> None:
        row.civ |= self._own

    patch.setattr(ScotRouter, "_find_witness", mutant)


def _relearning_ends_early(patch: pytest.MonkeyPatch) -> None:
    begin_work = Consequences.begin_work

    def mutant(self: Consequences, *args: Any) -> Any:
        relearning, self.relearning = self.relearning, type("Over", (), {"complete": True})()
        try:
            return begin_work(self, *args)
        finally:
            self.relearning = relearning

    patch.setattr(Consequences, "begin_work", mutant)


MUTANTS: list[tuple[Break, str, str, int]] = [
    (_answers_at_once, "acyclic", "P1", 1),
    (_answers_before_the_sync, "acyclic", "P1", 2),
    (_one_answer_for_all, "acyclic", "P4", 204),
    (_who_comes_again_waits_for_nothing, "acyclic", "P1", 150),
    (_nothing_is_sent_again, "acyclic", "P4", 155),
    (_restored_rows_have_settled, "acyclic", "P1", 51),
    (_neighbours_are_given_up, "acyclic", "P1", 41),
    (_advertisements_are_waited_for_a_while, "acyclic", "P1", 9),
    (_who_returns_has_what_it_left, "acyclic", "P1", 54),
    (_others_overtake, "acyclic", "P3", 7),
    (_holding_has_no_order, "acyclic", "P3", 9),
    (_sessions_of_this_broker_are_forgotten, "acyclic", "P1", 1),
    (_witnesses_are_not_looked_for, "spr", "P1", 4),
    (_relearning_ends_early, "acyclic", "P1", 1),
]


@pytest.mark.parametrize(
    ("mutant", "routing", "promise", "first"),
    MUTANTS,
    ids=[each[0].__name__[1:] for each in MUTANTS],
)
def test_a_broken_rule_is_found_out(
    mutant: Break, routing: str, promise: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first`: the seed of a network in which it was found once; it is looked for from there on."""
    mutant(monkeypatch)
    for seed in range(first, first + 1000):
        _, problems = torture(seed, routing)
        if any(problem.startswith(promise) for problem in problems):
            return
    raise AssertionError("nothing was found")


@pytest.mark.parametrize("routing", ["flooding", "gossip", "tid-s", "mesh"])
def test_a_routing_that_cannot_confirm_says_so(routing: str) -> None:
    core = Broker("a", routing)
    core.handle(LinkUp(LinkKind.CLIENT), "p", 1.0)
    publish = Publish(Publication("p", 1, 0, {"x": 1}, ("t",)), confirm=1)
    effects = core.handle_publications([publish], "p", 1.0)
    (refused,) = [e.message for e in effects if isinstance(e, Send) and e.link == "p"]
    assert isinstance(refused, Refused)
    assert refused.publication == ("p", 1)
    assert "does not confirm publications" in refused.reason
