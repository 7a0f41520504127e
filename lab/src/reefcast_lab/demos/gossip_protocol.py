"""How the demonstration of gossip and its programs talk.

A program loads, says `LOADED`, and does what it is told: LISTEN, JOIN, LOOK, QUIET, FINISH.
"""

from __future__ import annotations

import msgspec

from reefcast_lab.demos import program

LISTEN, JOIN, LOOK, QUIET = "listen", "join", "look", "quiet"
LOADED = "loaded"
"""The state of a program that was told nothing yet."""
REPORT_S = 0.25
"""Between two reports."""

Views = dict[int, dict[str, list[int]]]
"""By peer and topic, the peers in its view."""
Published = tuple[int, int, int, list[str]]
"""Publisher (a peer), number, when (microseconds UTC), topics."""
Delivered = tuple[int, int, int, int]
"""Publisher, number, to which peer, when."""


class PeersTask(msgspec.Struct):
    """Be the peers `wants` (number -> topics), of those at `addresses`; `join`: whom the first of
    them asks, "" if it begins the network with `options`. They publish `rate_per_s` together."""

    addresses: list[str]
    wants: dict[int, list[str]]
    join: str
    options: dict[str, object]
    rate_per_s: float
    seed: int


class Report(program.Report):
    """What a program says. `ends`: of connections to other peers, here; then what happened since
    the last report: `joined`, (peer, when); `published`; `delivered`. `views`: when it was told to
    LOOK."""

    at_us: int
    ends: int = 0
    joined: list[tuple[int, int]] = msgspec.field(default_factory=list)
    published: list[Published] = msgspec.field(default_factory=list)
    delivered: list[Delivered] = msgspec.field(default_factory=list)
    views: Views | None = None
