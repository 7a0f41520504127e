"""What a client may publish, with few advertisements and with many."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import Publication
from reefcast.routing import advertised
from reefcast.routing.advertised import FEW, Advertised

TEXTS = ("x = 1", "x > 3", "y = 'a'", "x IS NULL", "topic = 't/#'", "x IN (0, 2) AND y = 'b'")


def some_publication(rng: random.Random) -> Publication:
    attributes: dict[str, object] = {"x": rng.randrange(6)} if rng.random() < 0.8 else {}
    if rng.random() < 0.5:
        attributes["y"] = rng.choice("ab")
    return Publication("p", 1, 0, attributes, ("t/u",) if rng.random() < 0.3 else ())


def allows(known: Advertised, publication: Publication) -> bool:
    return any(each.matches(publication) for each in known.asked)


@given(st.integers(0, 2**32))
def test_it_allows_what_one_of_them_matches_however_many_there_are(seed: int) -> None:
    rng = random.Random(seed)
    known, twin = Advertised(), dict[int, Filter]()
    for number in range(1, 30):
        if twin and rng.random() < 0.45:
            gone = rng.choice(sorted(twin))
            known.remove(gone)
            del twin[gone]
        filter = parse_filter(rng.choice(TEXTS))
        known.add(number, filter)
        twin[number] = filter
        publication = some_publication(rng)
        assert allows(known, publication) == any(f.matches(publication) for f in twin.values())
        assert list(known) == list(twin.values())
        assert all(number in known for number in twin)


def test_few_need_no_index_and_many_are_not_asked_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ScanIndex[int]] = []

    def new_index() -> ScanIndex[int]:
        made.append(ScanIndex())
        return made[-1]

    monkeypatch.setattr(advertised, "new_index", new_index)
    known = Advertised()
    for number in range(FEW):
        known.add(number, parse_filter(f"x = {number}"))
    assert allows(known, Publication("p", 1, 0, {"x": 1}))
    assert made == []
    known.add(FEW, parse_filter(f"x = {FEW}"))
    assert made == []  # nothing was published yet
    assert allows(known, Publication("p", 1, 0, {"x": FEW}))
    assert not allows(known, Publication("p", 1, 0, {"x": FEW + 1}))
    for number in range(FEW + 1, 50):
        known.add(number, parse_filter(f"x = {number}"))
    assert allows(known, Publication("p", 1, 0, {"x": 49}))
    (index,) = made
    assert len(index) == 50
    for number in range(50 - FEW):
        known.remove(number)
    assert not allows(known, Publication("p", 1, 0, {"x": 1}))
    assert len(known.asked) == FEW
