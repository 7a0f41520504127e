"""Sources with a name of their own, whose options are given once.

Spark 4.3 keeps the OPTIONS of a table in its catalog and does not hand them to sources in Python.
So a table is made of a source that knows them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pyspark.sql.datasource import DataSource

from reefcast.errors import ConfigurationError
from reefcast.pipeline.connector.options import READ, STREAM, WRITE
from reefcast.pipeline.connector.source import ReefcastSource

KNOWN = tuple(dict.fromkeys((*READ, *STREAM, *WRITE)))


def named_source(name: str, options: Mapping[str, object]) -> type[DataSource]:
    """Return a source of this name with options. Raises `ConfigurationError` for one that there is
    not."""
    given = {option.lower(): _text(value) for option, value in options.items()}
    lower = {option.lower(): option for option in KNOWN}
    for option in given.keys() - lower.keys():
        near = difflib.get_close_matches(option, lower, 1)
        hint = f"; did you mean {lower[near[0]]}?" if near else ""
        raise ConfigurationError(
            f"there is no option {option!r}: the options are {', '.join(KNOWN)}{hint}"
        )

    class Named(ReefcastSource):
        """The source under its other name; Spark sends the class itself to where it works."""

        usual = given

        @classmethod
        def name(cls) -> str:
            return name

    return Named


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
