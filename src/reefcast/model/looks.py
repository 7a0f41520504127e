"""What a program asks of a broker to show it: a summary, a page of a table, the publications that
match a filter as the broker sees them, or the attributes that are advertised. The answers are plain
data, of bounded size (`server.looks` makes them)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

MOST_LINES = 200
"""Lines of one page."""
MOST_SEEN = 200
"""Sightings in one answer."""
MOST_TEXT = 1000
"""Characters of what a page is searched for."""
Kind = Literal["clients", "sessions", "subscriptions", "table"]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Look(msgspec.Struct, frozen=True, tag_field="look"):
    """The root of these questions."""


class Summary(Look, frozen=True, tag="summary"):
    """Asks for the state of the broker in a few figures, and its links."""


class Page(Look, frozen=True, tag="page"):
    """Asks for lines of a long list: `most` behind the first `skip`.

    `kind`: its clients; its durable sessions; its subscriptions by deliveries; or the routing's
    table of this `name`. `order`: the column by which they are sorted, largest first if
    `descending`; `search`: only lines with this text in the name or the user, or the owner."""

    kind: Kind
    name: Annotated[str, msgspec.Meta(max_length=MOST_TEXT)] = ""
    order: Annotated[str, msgspec.Meta(max_length=MOST_TEXT)] = ""
    descending: bool = True
    skip: Count = 0
    most: Annotated[int, msgspec.Meta(ge=0, le=MOST_LINES)] = 50
    search: Annotated[str, msgspec.Meta(max_length=MOST_TEXT)] = ""


class Sightings(Look, frozen=True, tag="sightings"):
    """Asks what the broker has seen of publications that match `filter`, since the sighting of
    number `after` (0: since it was first asked). The broker watches for the filter as long as it is
    asked again within seconds."""

    filter: str
    after: Count = 0


class Advertised(Look, frozen=True, tag="advertised"):
    """Asks which attributes publishers have advertised of the events that match `filter`, as far as
    who asks may see these: everybody may ask."""

    filter: str


AnyLook = Summary | Page | Sightings | Advertised
