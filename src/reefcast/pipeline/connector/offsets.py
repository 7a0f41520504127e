"""The offset of a streaming query, as Spark keeps it in its checkpoint: a JSON object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from reefcast.errors import ConfigurationError
from reefcast.pipeline.connector.cutting import Cuts
from reefcast.pipeline.connector.ids import Hashes, Ids
from reefcast.pipeline.connector.sketches import Sketch


class Seen(NamedTuple):
    """The events of a stretch of time that were read."""

    since_us: int
    until_us: int
    sketch: Sketch


class Late(NamedTuple):
    """An event that came after its time had been read: its time, and its hash."""

    time_us: int
    hash: int


class Offset(NamedTuple):
    """All before `until_us` has been read, as far as it had come. `seen`: what was, of the times of
    which something may still come; `late`: what this batch has beside what is between the offset
    before and this one. `starts`: when the reading of each topic began, as long as what is before
    that may be asked for. `cuts`: how this batch's old events, of which no more is remembered, are
    divided among tasks, so that a batch that is run again has the same partitions."""

    until_us: int
    seen: tuple[Seen, ...] = ()
    late: tuple[Late, ...] = ()
    starts: tuple[tuple[str, int], ...] = ()
    cuts: Cuts | None = None

    @property
    def asks_from_us(self) -> int:
        """The earliest time that a batch from here on asks for."""
        return min((each.since_us for each in self.seen), default=self.until_us)

    def to_json(self) -> dict[str, Any]:
        starts = {"starts": dict(self.starts)} if self.starts else {}
        cuts = {} if self.cuts is None else {"cuts": self.cuts.to_json()}
        return (
            starts
            | cuts
            | {
                "until_us": self.until_us,
                "seen": [[s.since_us, s.until_us, str(s.sketch)] for s in self.seen],
                "late": [[late.time_us, f"{late.hash:016x}"] for late in self.late],
            }
        )

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> Offset:
        """Return what the checkpoint says. Raises `ConfigurationError` for an offset of a query
        that reads a durable session."""
        if "seen" not in value:
            raise ConfigurationError(
                "the checkpoint is that of a query with the option session; give this query one of "
                "its own"
            )
        seen = (Seen(since, until, Sketch.of_text(text)) for since, until, text in value["seen"])
        late = (Late(time_us, int(text, 16)) for time_us, text in value["late"])
        starts = tuple(value.get("starts", {}).items())
        cuts = Cuts.of_json(value["cuts"]) if "cuts" in value else None
        return cls(value["until_us"], tuple(seen), tuple(late), starts, cuts)


def late_hashes(late: Iterable[Late]) -> Hashes:
    return np.array([each.hash for each in late], np.uint64)


def late_of(ids: Ids) -> tuple[Late, ...]:
    return tuple(map(Late, ids.times.tolist(), ids.hashes.tolist()))
