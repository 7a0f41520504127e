"""How the demo and its client programs talk.

A program connects on `start`, says `ready` when all that it advertised or subscribed has settled,
works on `go`, says how far it is by `done`, and ends on `finish`.
"""

from __future__ import annotations

import msgspec

from reefcast_lab.demos.program import Report

START, GO = "start", "go"
READY, BUSY, COMPLETE = "ready", "busy", "complete"


class Progress(Report):
    """What a program says: its `state` (`READY`, `BUSY` or `COMPLETE`), and a count of events."""

    done: int = 0


class PublisherTask(msgspec.Struct):
    """Replay the flights from `origin` among the first `count` events of the Parquet at `events`,
    to the broker at `url`; event number n is due n / `rate_per_s` seconds after `go`."""

    url: str
    origin: str
    events: str
    count: int
    rate_per_s: float
    log: str


class SubscriberTask(msgspec.Struct):
    """Be all clients of the workload at `workload` that sit at the brokers of `urls`; each is
    complete when it has the end marks of `publishers` publishers."""

    urls: dict[str, str]
    workload: str
    publishers: int
    log: str
