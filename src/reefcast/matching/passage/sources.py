"""Where publications came from, for compiled calls; without the libraries that these need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex
    from reefcast.matching.passage.leads import Leads

ANYTHING = 0


class Source(NamedTuple):
    """`filters`: what decides where they go, and `leads`: where that is; `number`: the destination
    that a neighbour is, or -1; `own`: the address of the index of what their client advertised, or
    `ANYTHING`; `client`: its name, b"" for a neighbour; `courses`: the address of what is known of
    them, by the number of the header (`courses.Courses`)."""

    filters: CompiledIndex[Any]
    leads: Leads
    number: int
    own: int
    client: bytes
    courses: int
