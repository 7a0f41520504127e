"""Stretches: where events lie, as storages tell it, and as it travels.

A stretch travels as a publication: its publisher is the topic, its time the beginning, and
attributes say the rest. So an answer is sent, merged and asked for again as one of events is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from reefcast.history.messages import Position
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication

ROWS, STORAGE = "stretch.rows", "stretch.storage"


class Stretch(NamedTuple):
    """About how many events lie from a time on, to the next stretch of the topic and `storage`.
    `topic`: "" for all that were asked for together."""

    time_us: int
    topic: str
    rows: int
    storage: str = ""


def encoded(found: Iterable[Stretch], storage: str, after: Position | None) -> list[bytes]:
    """Return stretches as publications in the order of their positions, those behind `after`."""
    made = [
        Publication(each.topic, number, each.time_us, {ROWS: each.rows, STORAGE: storage})
        for number, each in enumerate(found)
    ]
    return [
        encode_publication(each)
        for each in sorted(made, key=lambda each: (each.time_us, each.publisher, each.seq))
        if after is None or (each.time_us, each.publisher, each.seq) > after
    ]
