"""Faults of connections and programs in a run of live brokers.

Times are seconds since the start of the run. A link is named by its two ends in any order: two
brokers, or a client and its broker; `links=()` means every one. Of the faults of simulated messages
(`simulation.faults`) these are for live brokers as well: `Crash` (the process dies: its connections
end, its memory is gone), `Partition` (bytes wait, connections stay until somebody loses patience),
`Delay` and `Move`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reefcast.network.sections import LimitsSection
from reefcast.overlay.topology import Edge
from reefcast.simulation.faults import Spell
from reefcast.simulation.links import LinkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Sever:
    """The connections of these links break, and both ends are told: when `after_bytes` more have
    come to `at`, one of the ends; at once where nobody is named."""

    links: tuple[Edge, ...] = ()
    at_s: float
    after_bytes: int = 0
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanish:
    """The connections of these links carry nothing any more, and only those are told who are named
    in `told`. `drains`: what was under way still arrives."""

    links: tuple[Edge, ...] = ()
    at_s: float
    told: tuple[str, ...] = ()
    drains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces(Spell):
    """Reads give `most` bytes at most; how many is drawn for each."""

    most: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """A broker's work seems to take long, `share` of the times that it looks: it hands over to
    other connections in the middle of what came in one read."""

    broker: str
    share: float
    from_s: float = 0.0
    to_s: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A program, broker or client, does nothing for a time; then it goes on."""

    name: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A broker is told to stop, which takes a while, and starts again at `restart_s`, or when it
    has stopped."""

    broker: str
    at_s: float
    restart_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The program of a storage dies, and another one starts on what it has stored, at `restart_s`;
    nothing happens to a client that is no storage at that time."""

    client: str
    at_s: float
    restart_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """The broker that dials these links makes second connections beside the first."""

    links: tuple[Edge, ...] = ()
    at_s: float


WireFault = Sever | Vanish | Pieces | Slices | Freeze | Stop | Restart | Again


@dataclass(frozen=True, kw_only=True)
class Wire:
    """The settings of a run of live brokers besides its `Setup`. `client_link`: between a client
    and its broker; `limits`: of all brokers; `silence_s`: after which clients give up a connection.
    """

    faults: Sequence[WireFault] = ()
    client_link: LinkSpec = field(default_factory=lambda: LinkSpec(1e-4))
    limits: LimitsSection = field(default_factory=LimitsSection)
    silence_s: float = 5.0
