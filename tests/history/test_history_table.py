"""The table of routes to storages, against a twin that looks through everything that it was
told."""

from __future__ import annotations

import random

from hypothesis import given

from draws import RANDOMS
from reefcast.history.messages import FARTHEST, MOST_HOPS, Part, Stored
from reefcast.history.table import Key, StorageTable
from reefcast.model.patterns import topic_pattern_covers, topic_patterns_meet

TOPICS = ("t", "u", "a/b", "a/c", "a/+", "a/#", "#")
ASKED = ("t", "u", "v", "a/b", "a/+", "a/#", "+/b", "#")
STORAGES = ("q", "r", "s")
LINKS = ("k", "l", "m")


class Twin:
    """The number, distance and link of each key, by the rules of the table's module."""

    def __init__(self) -> None:
        self.routes: dict[Key, tuple[int, int, str]] = {}

    def heard(self, stored: Stored, link: str) -> bool:
        key = (stored.topic, stored.storage)
        distance = min(stored.distance + 1, MOST_HOPS)
        if key in self.routes:
            seq, known, _ = self.routes[key]
            newer = stored.seq > seq
            nearer = stored.seq == seq and seq % 2 == 0 and distance < known
            if not (newer or nearer):
                return False
        self.routes[key] = (stored.seq, distance, link)
        return True

    def open(self, storage: str | None = None) -> dict[Key, tuple[int, str]]:
        """Return distance and link of each open route."""
        return {
            key: (distance, link)
            for key, (seq, distance, link) in self.routes.items()
            if seq % 2 == 0 and storage in (None, key[1])
        }

    def asked(self, topic: str) -> list[tuple[set[str], str]]:
        """Return the storages of which one may be asked, and about what."""
        near = self.open()
        whole = [key for key in near if topic_pattern_covers(key[0], topic)]
        if whole:
            return [(self._nearest(whole), topic)]
        some = sorted({key[0] for key in near if topic_patterns_meet(topic, key[0])})
        return [(self._nearest([key for key in near if key[0] == name]), name) for name in some]

    def _nearest(self, keys: list[Key]) -> set[str]:
        near = self.open()
        least = min(near[key][0] for key in keys)
        return {key[1] for key in keys if near[key][0] == least}


def changed(rng: random.Random) -> tuple[StorageTable, Twin]:
    """Return a table and its twin after some news, with storages that came and went at this
    broker."""
    table, twin = StorageTable(), Twin()
    for _ in range(rng.randrange(30)):
        key = topic, storage = rng.choice(TOPICS), rng.choice(STORAGES)
        kind = rng.choice(("heard", "heard", "heard", "opened", "closed"))
        if kind == "heard":
            distance = rng.choice((0, 1, 2, 3, FARTHEST - 1, FARTHEST))
            stored = Stored(topic=topic, storage=storage, seq=rng.randrange(5), distance=distance)
            link = rng.choice(LINKS)
            assert table.heard(stored, link) is twin.heard(stored, link)
        elif kind == "opened":
            before = table.routes.get(key)
            table.opened(key, storage)
            seq = table.routes[key].seq
            assert seq % 2 == 0
            assert before is None or seq in (before.seq + 1, before.seq + 2)
            twin.routes[key] = (seq, 0, storage)
        elif key in table.routes and table.routes[key].open:
            seq, _, link = twin.routes[key]
            table.closed(key)
            twin.routes[key] = (seq + 1, FARTHEST, link)
    return table, twin


@given(RANDOMS)
def test_it_knows_the_newest_word_and_of_that_the_nearest(rng: random.Random) -> None:
    table, twin = changed(rng)
    assert {key: tuple(way) for key, way in table.routes.items()} == twin.routes
    for key, (seq, distance, _) in twin.routes.items():
        told = Stored(topic=key[0], storage=key[1], seq=seq, distance=distance)
        assert table.news(key) == told


@given(RANDOMS)
def test_what_opens_or_closes_here_is_news_to_all_who_know_what_was_before(
    rng: random.Random,
) -> None:
    table, _ = changed(rng)
    others = StorageTable()
    for key in table.routes:
        others.heard(table.news(key), "here")
        for _ in range(3):
            change = rng.choice((table.opened, table.closed))
            if change == table.opened:
                table.opened(key, key[1])
            elif table.routes[key].open:
                table.closed(key)
            else:
                continue
            assert others.heard(table.news(key), "here")
            assert others.routes[key].open is table.routes[key].open
            assert not others.heard(table.news(key), "there")  # nobody is told twice


@given(RANDOMS)
def test_what_can_be_reached_how_far_it_is_and_by_which_link(rng: random.Random) -> None:
    table, twin = changed(rng)
    near = twin.open()
    assert list(table) == sorted(near)
    assert len(table) == len(near)
    for key in table:
        assert table.describe(key) == (*key, *near[key], "")
    for link in (*LINKS, *STORAGES):
        assert sorted(table.by(link)) == sorted(key for key in near if near[key][1] == link)
    for storage in STORAGES:
        routes = list(twin.open(storage).values())
        link = table.next_link(storage)
        if not routes:
            assert link is None
        else:
            assert (min(routes)[0], link) in routes


@given(RANDOMS)
def test_whom_to_ask_is_the_nearest_each_about_a_topic_once(rng: random.Random) -> None:
    table, twin = changed(rng)
    topics = rng.choices(ASKED, k=rng.randint(1, 5))
    wanted = [entry for topic in topics for entry in twin.asked(topic)]
    parts, missing = table.parts(topics)
    assert missing == [topic for topic in topics if not twin.asked(topic)]
    assert [part.storage for part in parts] == sorted({part.storage for part in parts})
    for part in parts:
        assert part.distance == min(twin.open(part.storage).values())[0]
        assert len(set(part.topics)) == len(part.topics)
        assert all(
            any(part.storage in storages and about == topic for storages, about in wanted)
            for topic in part.topics
        )
    assert {about for _, about in wanted} == {topic for part in parts for topic in part.topics}


def test_each_topic_has_turns_of_its_own_by_name() -> None:
    table = StorageTable()
    storages = [f"s{number}" for number in range(7)]
    for storage in reversed(storages):
        for topic in ("t", "u"):
            table.heard(Stored(topic=topic, storage=storage, seq=0, distance=3), "k")
    asked = []
    for _ in range(2 * len(storages)):
        ((part,), _), ((other,), _) = table.parts(["t"]), table.parts(["u"])
        assert part == Part(other.storage, 4, ("t",))
        asked.append(part.storage)
    assert asked == 2 * storages
