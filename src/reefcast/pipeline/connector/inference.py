"""A schema found in a sample: the attributes of some events, and the types of their columns.

An attribute that is always a number, a text or a truth value has a column of that; one with whole
and other numbers is a double. Where it has unlike types, the one that most events have wins; the
others are NULL there (or in a column of leftovers)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from reefcast import sync
from reefcast.model.wire import decode_publications
from reefcast.pipeline.connector.columns import RESERVED, REST

SAMPLE = 1000
"""Events that are looked at, the first ones and the last ones."""
DAY = timedelta(days=1)
NOTHING: Mapping[str, str] = {}
TYPES: dict[type, str] = {int: "BIGINT", float: "DOUBLE", str: "STRING", bool: "BOOLEAN"}


class Asked(Protocol):
    """The past events of an answer."""

    def next_bodies(self) -> list[bytes]: ...


def types_in(bodies: Sequence[bytes]) -> dict[str, str]:
    """Return the types of the attributes of events, by name, as DDL has them; those whose names
    every event has for something else are left out."""
    kinds: dict[str, Counter[type]] = {}
    for publication in decode_publications(bodies):
        for name, value in publication.attributes.items():
            kinds.setdefault(name, Counter())[type(value)] += 1
    return {name: _type_of(found) for name, found in kinds.items() if name not in RESERVED}


def _type_of(kinds: Counter[type]) -> str:
    if kinds[int] and kinds[float]:
        kinds = Counter(kinds)
        kinds[float] += kinds.pop(int)
    ((most, _),) = kinds.most_common(1)
    return TYPES[most]


def ddl(types: Mapping[str, str], rest: str = "", comments: Mapping[str, str] = NOTHING) -> str:
    """Return types as the option `schema` takes them; `rest`: also a column of this name for
    leftovers; `comments`: what is said of columns, by name."""
    columns = [
        f"{quoted(name)} {kind}{_comment(comments.get(name, ''))}" for name, kind in types.items()
    ]
    return ", ".join(columns + ([f"{quoted(rest)} {REST.upper()}"] if rest else []))


def _comment(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f" COMMENT '{escaped}'" if text else ""


def quoted(name: str) -> str:
    """Return a name as DDL has it."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


def sampled(client: sync.Client, filter: str, now: datetime) -> list[bytes]:
    """Return the bodies of some past events that match: the first ones, and some of the last day.
    Raises what asking raises."""
    half = SAMPLE // 2
    first = _all(client.history(filter, limit=half))
    last = _all(client.history(filter, since=now - DAY, limit=half))
    return list(dict.fromkeys(first + last))


def _all(asked: Asked) -> list[bytes]:
    found: list[bytes] = []
    while bodies := asked.next_bodies():
        found += bodies
    return found


def inferred(client: sync.Client, filter: str, now: datetime) -> dict[str, Any]:
    """Return the types of the attributes of past events that match a filter."""
    return types_in(sampled(client, filter, now))
