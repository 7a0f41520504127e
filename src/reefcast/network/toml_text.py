"""A table as text of a TOML file."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from math import isfinite
from typing import Any

import msgspec

TIMES = (datetime, date, time)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
"""A key that TOML accepts without quotation marks."""


def toml_lines(section: dict[str, Any]) -> list[str]:
    """Return the keys of a table as lines of TOML; those that are None are left out."""
    return [
        f"{key if _BARE_KEY.fullmatch(key) else _toml_value(key)} = {_toml_value(value)}"
        for key, value in section.items()
        if value is not None  # which TOML cannot say
    ]


def _toml_value(value: Any) -> str:
    """Return a value as TOML. A finite number, a boolean and most text are written alike in JSON
    and in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(toml_lines(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, TIMES):
        return value.isoformat()
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # inf, -inf, nan
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
