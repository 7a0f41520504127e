"""The check of an application's filters, before anything is sent."""

from __future__ import annotations

import sys
import warnings

from reefcast.errors import FilterWarning, LocalError


def check_filter(text: str) -> None:
    """Raise `FilterSyntaxError` with the position now, rather than `RefusedError` later; warn
    (`FilterWarning`) of filters that are legal and look like a mistake."""
    from reefcast.model.doubts import doubts_about
    from reefcast.model.filters import parse_filter

    for doubt in doubts_about(parse_filter(require_text(text))):
        warnings.warn(f"filter {text}: {doubt}", FilterWarning, stacklevel=_callers_level())


def require_text(filter: str) -> str:
    """Return the filter if it is a string. Raises `LocalError` for a list of filters or anything
    else."""
    if not isinstance(filter, str):
        raise LocalError(f"a filter is a text, and this is a {_advice(filter)}")
    return filter


def _advice(given: object) -> str:
    kind = type(given).__name__
    if isinstance(given, (list, tuple, set, frozenset)):
        return (
            f"{kind}; subscribe takes several filters as arguments of their own, "
            "subscribe(*filters), and all else takes one at a time"
        )
    if hasattr(given, "text"):
        return f"{kind}; write its text: filter.text"
    return f'{kind}; write it as in "price < 100"'


def _callers_level() -> int:
    """Return the level, for `warnings.warn` in the caller, of the first line outside of this
    package."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("reefcast."):
        level, frame = level + 1, frame.f_back
    return level
