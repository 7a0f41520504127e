"""CESQL 1.0, the CloudEvents SQL expression language: expressions over the attributes of an event.

    from reefcast import cesql

    value, error = cesql.evaluate("type LIKE 'com.example.%' AND sequence > 5", attributes)

It needs nothing else of Reefcast. See docs/reference/cesql.md.
"""

from __future__ import annotations

from reefcast.cesql.expression import Expression, evaluate, parse
from reefcast.cesql.functions import Function, FunctionError, Functions
from reefcast.cesql.translation import Translation, translate
from reefcast.errors import CesqlError

__all__ = [
    "CesqlError",
    "Expression",
    "Function",
    "FunctionError",
    "Functions",
    "Translation",
    "evaluate",
    "parse",
    "translate",
]
