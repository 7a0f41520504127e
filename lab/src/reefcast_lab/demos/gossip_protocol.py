"""How the demonstration of gossip and its programs talk: words to them, a JSON object a line back.

A program gets its task as JSON on its command line; it loads, says `loaded`, and does what it is
told: LISTEN, JOIN, LOOK, QUIET, FINISH. It ends when its standard input ends, too.
"""

from __future__ import annotations

import msgspec

LISTEN, JOIN, LOOK, QUIET, FINISH = "listen", "join", "look", "quiet", "finish"
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


class Report(msgspec.Struct):
    """What a program says. `state`: what it has done last, of what it was told; `ends`: of
    connections to other peers, here; then what happened since the last report: `joined`, (peer,
    when); `published`; `delivered`. `views`: when it was told to LOOK."""

    state: str
    at_us: int
    ends: int = 0
    joined: list[tuple[int, int]] = []
    published: list[Published] = []
    delivered: list[Delivered] = []
    views: Views | None = None
