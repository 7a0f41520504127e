"""Long texts and attributes that come and go: their codes are reused, never too early."""

from __future__ import annotations

import random

import pytest

from reefcast.matching.cover import new_cover_index
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter

KINDS = (
    "process = 'process-{n:03d}'",
    "process >= 'process-{n:03d}' AND process < 'process-{m:03d}'",
    "attribute_{n:03d} = 1",
    "process = 'process-{n:03d}' OR process = 'process-{m:03d}'",
)


@pytest.mark.long
@pytest.mark.parametrize("kinds", [KINDS[:1], KINDS[2:3], KINDS], ids=["texts", "names", "all"])
@pytest.mark.parametrize("seed", range(4))
def test_codes_that_are_given_back_serve_no_stored_filter(kinds: list[str], seed: int) -> None:
    """Rebuilt blocks release codes that only their old cuts used; a filter that is being added may
    use the same codes."""
    rng = random.Random(seed)
    index, live, pool = new_cover_index(), {}, rng.choice([60, 100])
    for number in range(2500):
        if len(live) >= rng.randint(35, 60):
            gone = rng.choice(list(live))
            del live[gone]
            index.remove(gone)
            continue
        n = rng.randrange(pool)
        filter = parse_filter(rng.choice(kinds).format(n=n, m=n + rng.randrange(1, 9)))
        live[number] = filter
        index.add(number, filter)
        expected = {key for key, other in live.items() if covers(other, filter)}
        assert set(index.covering(filter)) == expected
