"""Which publications of a topic are kept, and for how long, against a list of all that came."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reefcast.model.messages import Publish
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.gossip.repair import (
    ENTRY_BYTES,
    FORGETTING_ROUNDS,
    MOST_OFFERED,
    OFFERED_ROUNDS,
    TOLD_ROUNDS,
    Kept,
    Room,
)

SEQS = st.integers(1, 12)
ID_LISTS = st.lists(SEQS.map(lambda seq: ("p", seq)), max_size=8)


class Came(NamedTuple):
    """A publication that came. `publish`: None if nobody wants it."""

    round: int
    id: PublicationId
    publish: Publish | None


class KeptTwin(RuleBasedStateMachine):
    """The slow twin. `came`: every publication, the first one first; nothing is ever forgotten."""

    @initialize(rounds=st.integers(1, 14))
    def begin(self, rounds: int) -> None:
        self.rounds, self.round = rounds, 0
        self.told_rounds = min(rounds, TOLD_ROUNDS)
        self.room = Room()
        self.kept = Kept(rounds, self.room)
        self.came: list[Came] = []

    def last(self, rounds: int) -> list[Came]:
        """Return what came in this round and the `rounds` before it; of each publication the last
        time."""
        times = {came.id: number for number, came in enumerate(self.came)}
        last = [came for number, came in enumerate(self.came) if times[came.id] == number]
        return [came for came in last if self.round - came.round <= rounds]

    def here(self) -> list[Came]:
        return self.last(self.rounds + FORGETTING_ROUNDS)

    @rule(seq=SEQS)
    def publish(self, seq: int) -> None:
        publish = Publish(Publication("p", seq, self.round, {}, ("a",)), body=bytes(seq))
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
        """Check what is sent to a neighbour that has these ids: nothing that others may have
        forgotten."""
        here = [came.id for came in self.here()]
        assert self.kept.lacking(ids) == [id for id in ids if id not in here]
        young = self.last(self.told_rounds - FORGETTING_ROUNDS)
        sent = [came.publish for came in young if came.publish and came.id not in ids]
        assert self.kept.besides(ids) == sent[::-1]

    @invariant()
    def tells_what_came_lately(self) -> None:
        assert list(self.kept.every()) == [came.id for came in self.here()]
        assert list(self.kept.told()) == [came.id for came in self.last(self.told_rounds)][::-1]

    @invariant()
    def tells_who_was_out_of_reach_what_can_be_had(self) -> None:
        for rounds in (1, self.rounds):
            assert list(self.kept.since(rounds)) == [x.id for x in self.last(rounds) if x.publish]

    @invariant()
    def counts_what_it_takes(self) -> None:
        sizes = [len(x.publish.body) if x.publish else 0 for x in self.here()]
        assert self.room.used == self.kept.bytes == sum(sizes) + ENTRY_BYTES * len(sizes)

    @invariant()
    def offers_the_newest_of_what_is_wanted(self) -> None:
        newest = self.last(min(OFFERED_ROUNDS, self.rounds + FORGETTING_ROUNDS))
        assert list(self.kept.newest()) == [came.id for came in newest if came.publish][::-1]


TestKept = KeptTwin.TestCase
TestKept.settings = settings(max_examples=40, stateful_step_count=30)


def test_a_new_neighbour_is_not_told_of_too_many() -> None:
    kept = Kept(10, Room())
    for seq in range(MOST_OFFERED + 10):
        kept.add(Publish(Publication("p", seq, 0, {}, ("a",))))
    assert kept.newest() == tuple(("p", seq) for seq in range(MOST_OFFERED + 9, 9, -1))


def filled(room: Room, topic: str, count: int, size: int) -> Kept:
    kept = Kept(10, room)
    for seq in range(1, count + 1):
        kept.add(Publish(Publication(topic, seq, 0, {}, (topic,)), body=bytes(size)))
    return kept


def test_the_topic_with_the_most_gives_up_its_oldest_where_room_is_needed() -> None:
    room = Room(100 * (ENTRY_BYTES + 1000))
    small = filled(room, "small", 20, 1000)
    large = filled(room, "large", 500, 1000)
    assert len(small.every()) == 20
    assert 70 < len(large.every()) <= 80
    assert large.every()[-1] == ("large", 500)
    assert room.used == small.bytes + large.bytes <= 100 * (ENTRY_BYTES + 1000)
    room.leave(large)
    assert room.used == small.bytes
    filled(room, "other", 80, 1000)
    assert len(small.every()) == 20


def test_what_is_too_much_by_itself_is_not_kept() -> None:
    assert filled(Room(5000), "a", 3, 10_000).every() == ()
