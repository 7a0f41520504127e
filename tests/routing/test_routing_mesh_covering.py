"""Covering by anchor, against a twin that looks through everything that a neighbour was told."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.model.messages import EntityId
from reefcast.routing.covering.strategies import outgoing
from reefcast.routing.mesh.covering import PerAnchor

TEXTS = ("x > 0", "x > 3", "x > 5", "x BETWEEN 4 AND 9", "x = 6", "y = 1", "x > 3 AND y = 1")
COVERINGS = ("none", "lazy", "active")


class Twin:
    """The slow twin: it keeps everything that a neighbour was told, and looks through all of it."""

    def __init__(self, covering: str) -> None:
        self.covering = covering
        self.wanted: dict[EntityId, tuple[str, str]] = {}
        self.told: set[EntityId] = set()

    def stands_for(self, one: EntityId, other: EntityId) -> bool:
        text, anchor = self.wanted[one]
        other_text, other_anchor = self.wanted[other]
        return anchor == other_anchor and covers(parse_filter(text), parse_filter(other_text))

    def faults(self) -> list[str]:
        found = [f"{id} is told, but gone" for id in self.told - self.wanted.keys()]
        found += [
            f"nothing stands for {id}"
            for id in self.wanted
            if not any(self.stands_for(one, id) for one in self.told)
        ]
        if self.covering == "none":
            found += [f"{id} was not told" for id in self.wanted if id not in self.told]
        if self.covering == "active":
            found += [
                f"{id} is told, but {one} stands for it"
                for id in self.told
                for one in self.told
                if id != one and self.stands_for(one, id)
            ]
        return found


@given(st.integers(0, 2**32), st.sampled_from(COVERINGS))
def test_what_is_told_covers_all_with_the_same_anchor(seed: int, covering: str) -> None:
    rng = random.Random(seed)
    twin = Twin(covering)
    out = PerAnchor(outgoing(covering, 1.0, Counter()), lambda id: twin.wanted[id][1])
    for number in range(40):
        if twin.wanted and rng.random() < 0.4:
            id = rng.choice(sorted(twin.wanted))
            change = out.remove(id)
            del twin.wanted[id]
            twin.told.discard(id)
        else:
            id = ("s", number)
            twin.wanted[id] = (rng.choice(TEXTS), rng.choice("ABC"))
            change = out.add(id, parse_filter(twin.wanted[id][0]))
        twin.told |= set(change.entered)
        twin.told -= set(change.left)
        assert twin.faults() == []
        assert set(out.sent()) == twin.told
        for wanted in twin.wanted:
            assert out.is_sent(wanted) == (wanted in twin.told)
            stand_in = out.stand_in(wanted)
            assert stand_in in twin.told
            assert twin.stands_for(stand_in, wanted)


@pytest.mark.parametrize("covering", ["lazy", "active"])
def test_a_broader_one_with_another_anchor_stands_for_nothing(covering: str) -> None:
    anchors = {("s", 1): "A", ("s", 2): "B", ("s", 3): "A"}
    out = PerAnchor(outgoing(covering, 1.0, Counter()), anchors.__getitem__)
    out.add(("s", 1), parse_filter("x > 0"))
    assert out.add(("s", 2), parse_filter("x > 3")).entered == [("s", 2)]
    assert out.add(("s", 3), parse_filter("x > 3")).entered == []
    assert out.stand_in(("s", 3)) == ("s", 1)


def test_anchors_without_subscriptions_are_forgotten() -> None:
    out = PerAnchor(outgoing("active", 1.0, Counter()), lambda id: f"anchor {id[1]}")
    for number in range(50):
        out.add(("s", number), parse_filter("x > 0"))
        out.remove(("s", number))
    assert not out._groups
    assert not out._anchors
