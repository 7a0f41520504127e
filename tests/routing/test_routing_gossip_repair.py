"""What is kept of a topic, and for how long, against a list of what came."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reefcast.model.messages import Publish
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.gossip.repair import FORGETTING_ROUNDS, MOST_OFFERED, OFFERED_ROUNDS, Kept

SEQS = st.integers(1, 12)
ID_LISTS = st.lists(SEQS.map(lambda seq: ("p", seq)), max_size=8)


class Came(NamedTuple):
    """`publish`: None if it is not wanted."""

    round: int
    id: PublicationId
    publish: Publish | None


class KeptTwin(RuleBasedStateMachine):
    """`came`: everything, the first first; nothing is ever forgotten."""

    @initialize(rounds=st.integers(1, 6))
    def begin(self, rounds: int) -> None:
        self.rounds, self.round = rounds, 0
        self.kept = Kept(rounds)
        self.came: list[Came] = []

    def last(self, rounds: int) -> list[Came]:
        """What came in this round and so many before it; of each publication the last time."""
        times = {came.id: number for number, came in enumerate(self.came)}
        last = [came for number, came in enumerate(self.came) if times[came.id] == number]
        return [came for came in last if self.round - came.round <= rounds]

    def here(self) -> list[Came]:
        return self.last(self.rounds + FORGETTING_ROUNDS)

    @rule(seq=SEQS)
    def publish(self, seq: int) -> None:
        publish = Publish(Publication("p", seq, self.round, {}, ("a",)))
        self.kept.add(publish)
        self.came.append(Came(self.round, publish.publication.id, publish))

    @rule(ids=ID_LISTS)
    def waive(self, ids: list[PublicationId]) -> None:
        self.kept.waive(ids)
        for id in ids:
            if id not in [came.id for came in self.here()]:
                self.came.append(Came(self.round, id, None))

    @rule()
    def next_round(self) -> None:
        self.round += 1
        self.kept.next_round()

    @rule(ids=ID_LISTS)
    def is_asked(self, ids: list[PublicationId]) -> None:
        here = {came.id: came.publish for came in self.here()}
        assert self.kept.those(ids) == [here[id] for id in ids if here.get(id)]

    @rule(ids=ID_LISTS)
    def is_told(self, ids: list[PublicationId]) -> None:
        """What others may have forgotten is not sent unasked."""
        here = [came.id for came in self.here()]
        assert self.kept.lacking(ids) == [id for id in ids if id not in here]
        young = self.last(self.rounds - FORGETTING_ROUNDS)
        sent = [came.publish for came in young if came.publish and came.id not in ids]
        assert self.kept.besides(ids) == sent[::-1]

    @invariant()
    def tells_what_came_lately(self) -> None:
        assert list(self.kept.every()) == [came.id for came in self.here()]
        assert list(self.kept.told()) == [came.id for came in self.last(self.rounds)][::-1]

    @invariant()
    def offers_the_newest_of_what_is_wanted(self) -> None:
        newest = self.last(min(OFFERED_ROUNDS, self.rounds + FORGETTING_ROUNDS))
        assert list(self.kept.newest()) == [came.id for came in newest if came.publish][::-1]


TestKept = KeptTwin.TestCase
TestKept.settings = settings(max_examples=40, stateful_step_count=30)


def test_a_new_neighbour_is_not_told_of_too_many() -> None:
    kept = Kept(10)
    for seq in range(MOST_OFFERED + 10):
        kept.add(Publish(Publication("p", seq, 0, {}, ("a",))))
    assert kept.newest() == tuple(("p", seq) for seq in range(MOST_OFFERED + 9, 9, -1))
