"""The URL of a broker that a command talks to: its first argument, which may be left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from reefcast.cli.secured import client_options
from reefcast.client.address import default_urls

C = TypeVar("C", bound=Callable[..., Any])

_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+:\d+(,|$)")
"""What is meant as a URL, right or wrong: no filter, topic or NAME=VALUE begins like that."""


def words_argument(metavar: str) -> Callable[[C], C]:
    """Add the arguments behind the command's name: perhaps a URL, then `metavar` (see
    `split_words`); and the options for a URL with TLS (see `secured`)."""
    argument = click.argument("words", nargs=-1, metavar=f"[URL] {metavar}")
    return lambda command: argument(client_options(command))


def split_words(words: tuple[str, ...], required: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the URL, or the default one, and the other words.

    Raises `UsageError` if there are no others and `required` names them."""
    url, others = default_urls(), words
    if words and _URL.match(words[0]):
        url, *rest = words
        others = tuple(rest)
    if required and not others:
        raise click.UsageError(f"Missing argument '{required}'.")
    return url, others
