"""The sources of publications, for compiled calls; without the libraries that these need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex
    from reefcast.matching.passage.leads import Leads

ANYTHING = 0


class Source(NamedTuple):
    """`filters`: decide where publications go, and `leads`: their destinations; `number`: the
    destination that a neighbour is, or -1; `own`: the address of the index of the client's
    advertisements, or `ANYTHING`; `client`: its name, b"" for a neighbour; `courses`: the
    address of its courses, by the number of the header (`courses.Courses`); `topical`: whether
    topics make a difference."""

    filters: CompiledIndex[Any]
    leads: Leads
    number: int
    own: int
    client: bytes
    courses: int
    topical: bool
