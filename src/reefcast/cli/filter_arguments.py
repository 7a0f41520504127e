"""Filters of a command line."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import click

from reefcast.errors import FilterWarning
from reefcast.model.doubts import doubts_about
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.wording import printable


def check_filters(texts: Iterable[str]) -> None:
    """Parse the filters before anything else happens, and print doubts about them. Raises
    `FilterSyntaxError`."""
    tell_doubts(map(parse_filter, texts))


def tell_doubts(filters: Iterable[Filter]) -> None:
    """Print doubts on standard error, in place of the client library, which would warn as Python
    does."""
    warnings.simplefilter("ignore", FilterWarning)
    for filter in filters:
        for doubt in doubts_about(filter):
            click.echo(f"reefcast: warning: {printable(f'{filter.text}: {doubt}')}", err=True)
