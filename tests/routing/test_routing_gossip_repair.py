"""What is kept of a topic, and for how long, against a list of everything that ever came."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reefcast.model.messages import Publish
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.gossip.repair import FORGETTING_ROUNDS, OFFERED_ROUNDS, Kept

SEQS = st.integers(1, 12)
ID_LISTS = st.lists(SEQS.map(lambda seq: ("p", seq)), max_size=8)


class Came(NamedTuple):
    round: int
    publish: Publish


class KeptTwin(RuleBasedStateMachine):
    """`came`: all that came and was not kept at that time, the first first."""

    @initialize(rounds=st.integers(1, 6))
    def begin(self, rounds: int) -> None:
        self.rounds, self.round = rounds, 0
        self.kept = Kept(rounds)
        self.came: list[Came] = []

    def here(self, rounds: int) -> list[Came]:
        """What came in this round and so many before it."""
        return [came for came in self.came if self.round - came.round <= rounds]

    @rule(seq=SEQS)
    def publish(self, seq: int) -> None:
        publish = Publish(Publication("p", seq, self.round, {}, ("a",)))
        self.kept.add(publish)
        if publish.publication.id not in [x.publish.publication.id for x in self.here(self.rounds)]:
            self.came.append(Came(self.round, publish))

    @rule()
    def next_round(self) -> None:
        self.round += 1
        self.kept.next_round()

    @rule(ids=ID_LISTS)
    def ask(self, ids: list[PublicationId]) -> None:
        by_id = {came.publish.publication.id: came.publish for came in self.here(self.rounds)}
        assert self.kept.those(ids) == [by_id[id] for id in ids if id in by_id]

    @rule(ids=ID_LISTS)
    def tell(self, ids: list[PublicationId]) -> None:
        """What others may have forgotten is not sent unasked."""
        young = self.here(self.rounds - FORGETTING_ROUNDS)
        lacking = [x.publish for x in young if x.publish.publication.id not in ids]
        assert self.kept.besides(ids) == lacking

    @invariant()
    def has_what_came_lately_in_order(self) -> None:
        here = [came.publish.publication.id for came in self.here(self.rounds)]
        assert list(self.kept.ids()) == here
        assert len(self.kept) == len(here)

    @invariant()
    def offers_the_newest_first(self) -> None:
        rounds = min(OFFERED_ROUNDS - 1, self.rounds)
        newest = [came.publish.publication.id for came in self.here(rounds)]
        assert list(self.kept.newest()) == newest[::-1]


TestKept = KeptTwin.TestCase
