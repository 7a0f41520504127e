"""Errors as problem details (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from reefcast.errors import (
    BusyError,
    ConfigurationError,
    FilterSyntaxError,
    LimitError,
    LocalError,
    NoReplyError,
    PeerError,
    ProtocolError,
    RefusedError,
)

PROBLEM_TYPE = "application/problem+json"
KIND = "urn:reefcast:problem:"
RETRY_AFTER_S = 5
"""When somebody may come again who was sent away for a reason that passes."""
_RETRY = {"Retry-After": str(RETRY_AFTER_S)}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem (RFC 9457, section 3.1). `type`: its kind, a URN; `title`: the meaning of the
    status; `detail`: what was wrong with this request, and what to do; `where`: in which part of
    the request; `line`, `column`: where in a filter, both counted from 1; `events`: what became of
    each event of a list."""

    type: str
    title: str
    status: int
    detail: str
    where: str = ""
    line: int = 0
    column: int = 0
    events: tuple[Any, ...] = ()


class HttpError(ProtocolError):
    """A request that cannot be met, with its problem and further headers of the answer."""

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = dict(headers or {})


def problem(status: int, kind: str, detail: str, **more: Any) -> Problem:
    """Return a problem of this kind, the end of its URN."""
    title = HTTPStatus(status).phrase
    return Problem(type=KIND + kind, title=title, status=status, detail=detail, **more)


def refused(
    status: int,
    kind: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> HttpError:
    """Return the error of a request that is refused."""
    return HttpError(problem(status, kind, detail, **more), headers)


def error_of(error: Exception, where: str = "") -> HttpError | None:
    """Return what the sender of a request is told of this error; None if it says nothing to him.
    `where`: in which part of the request, if that is known."""
    more: dict[str, Any] = {"where": where}
    if isinstance(error, HttpError):
        return error
    if isinstance(error, FilterSyntaxError):
        more |= {"line": error.line, "column": error.column}
        return refused(400, "filter-syntax", str(error), **more)
    if isinstance(error, LimitError):
        return refused(400, "limit", str(error), **more)
    if isinstance(error, RefusedError):
        status, kind = (404, "gone") if error.gone else (403, "refused")
        return refused(status, kind, str(error), **more)
    if isinstance(error, msgspec.DecodeError):
        return refused(400, "unreadable", f"this cannot be read: {error}", **more)
    if isinstance(error, ConfigurationError | LocalError):
        return refused(400, "invalid", str(error), **more)
    if isinstance(error, BusyError):
        return refused(429, "busy", str(error), headers=_RETRY, **more)
    if isinstance(error, NoReplyError | PeerError | TimeoutError):
        detail = str(error) or "the network did not answer in time"
        return refused(503, "unavailable", detail, headers=_RETRY, **more)
    return None
