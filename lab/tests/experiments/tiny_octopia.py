"""OctopiA's campaigns in miniature."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.octopia import settling
from reefcast_lab.experiments.octopia.parameters import section

TINY = {
    "publishers": {"gap_s": 0.2},
    "subscribers": {"publishers": 10, "selectivity": 0.2},
    "delivery": {"publications": 30, "matching_publications": 5, "matching_rounds": 1},
    "selection": {
        "publishers": 10,
        "subscribers": 40,
        "selectivity": 0.2,
        "publications": 10,
        "rounds": 2,
    },
    "burst": {
        "publishers": 10,
        "subscribers": 60,
        "selectivity": 0.2,
        "publications": 10,
        "burst": 300,
        "before_s": 2.0,
        "point": 20,
        "smooth": 1,
    },
}


def make_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the small scale take no time, in a process where no network has settled yet."""
    for name, values in TINY.items():
        for key, value in values.items():
            monkeypatch.setitem(section(name, "small")._values, key, value)
    monkeypatch.setattr(settling, "_last", {})
