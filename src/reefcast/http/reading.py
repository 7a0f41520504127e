"""Reading queries, bodies and times of requests by the structs that describe them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar, get_origin, get_type_hints

import msgspec

from reefcast.http.bodies import Query
from reefcast.http.problems import refused

T = TypeVar("T")
Q = TypeVar("Q", bound=Query)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def query_of(kind: type[Q], pairs: Iterable[tuple[str, str]]) -> Q:
    """Return what a query says. Raises `HttpError` for parameters that there are not, that are
    wrong, or that are there twice."""
    given: dict[str, Any] = {}
    lists = _lists_of(kind)
    for name, value in pairs:
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            said = f"the parameter {name[:40]!r} is there twice"
            raise refused(400, "query", said, where=f"query parameter {name[:40]}")
        else:
            given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise refused(400, "query", f"the query is wrong: {error}", where="query") from None


@cache
def _lists_of(kind: type[Query]) -> frozenset[str]:
    """Return the parameters that may be there several times."""
    hints = get_type_hints(kind)
    return frozenset(name for name, hint in hints.items() if get_origin(hint) is list)


def body_of(kind: type[T], body: bytes) -> T:
    """Return what a body in JSON says; nothing counts as an empty object. Raises `HttpError`."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused(400, "unreadable", f"the body is wrong: {error}", where="body") from None


def time_of(text: str, name: str) -> datetime | None:
    """Return a time, given as RFC 3339 with a zone, or in seconds since 1970; None for "". Raises
    `HttpError`; `name`: of the parameter."""
    if not text:
        return None
    try:
        time = EPOCH + timedelta(seconds=float(text))
    except OverflowError:
        time = EPOCH.replace(tzinfo=None)
    except ValueError:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            time = EPOCH.replace(tzinfo=None)
    if time.tzinfo is None:
        said = (
            f"{text[:40]!r} is no time: write one with its zone, such as 2026-11-26T12:00:00Z, or "
            "seconds since 1970"
        )
        raise refused(400, "query", said, where=f"query parameter {name}")
    return time
