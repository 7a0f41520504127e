"""Impossible options of a mesh, and the messages that refuse them."""

from __future__ import annotations

import msgspec
import pytest

from reefcast.errors import ConfigurationError
from reefcast.routing.mesh.options import MeshOptions


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"covering": "packing"}, "in a mesh choose none, lazy or active"),
        ({"covering": "incremental"}, "in a mesh choose none, lazy or active"),
        ({"fanout": 60}, "fanout = 60 and maxlinks = 50 contradict each other"),
        ({"fanout": 0}, "fanout"),
        ({"strategy": "S3"}, "strategy"),
        ({"delta": 0}, "delta"),
        ({"delta": 17}, "delta"),
        ({"round_s": 0.0}, "round_s"),
        ({"capacity_per_s": -1.0}, "capacity_per_s"),
        ({"load_threshold": 1.5}, "load_threshold"),
        ({"theta": 0.5}, "theta"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises((msgspec.ValidationError, ConfigurationError), match=words):
        msgspec.convert(given, MeshOptions)


def test_the_papers_numbers_are_the_defaults() -> None:
    options = MeshOptions()
    assert (options.delta, options.fanout, options.round_s) == (4, 35, 20.0)
    assert options.limits().maxlinks == 50
