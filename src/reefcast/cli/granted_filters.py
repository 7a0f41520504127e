"""Filters as far as a user may see, for commands that explain them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from reefcast.cli.options import INPUT_FILE
from reefcast.errors import InvalidValueError, LocalError
from reefcast.model.filters import Filter
from reefcast.model.subjects import Subject

F = TypeVar("F", bound=Callable[..., Any])


class Whose(NamedTuple):
    """A user with roles of a network file; `claims`: of his token."""

    network: Path | None
    roles: Sequence[str]
    user: str
    claims: Sequence[str]


def user_options(command: F) -> F:
    """Add the options that say who asks."""
    options = (
        click.option(
            "--network", type=INPUT_FILE, help="The network file that has the roles of --role."
        ),
        click.option(
            "--role",
            "roles",
            multiple=True,
            help="Explain what a user with this role gets: FILTER AND what the role lets him see; "
            "may be repeated.",
        ),
        click.option("--user", default="", help="With --role: the user, for ${user}."),
        click.option(
            "--claim",
            "claims",
            multiple=True,
            metavar="NAME=VALUE",
            help="With --role: a claim of the user's token, for ${claims.NAME}; may be repeated.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def narrowed(filters: Sequence[Filter], whose: Whose) -> list[Filter]:
    """Return the filters as far as the user may see; unchanged if no role is named. Raises
    `UsageError`, and `LocalError` if the user may see nothing."""
    if not whose.roles:
        if whose.network or whose.user or whose.claims:
            raise click.UsageError(
                "--network, --user and --claim say more about a --role: give one"
            )
        return list(filters)
    if whose.network is None:
        raise click.UsageError("--role is of a network file: give it with --network")
    from reefcast.network.file import load_network
    from reefcast.network.roles import grants_of

    network = load_network(whose.network)
    unknown = sorted({*whose.roles} - {role.name for role in network.role})
    if unknown:
        raise LocalError(f"{whose.network} has no role {unknown[0]!r}")
    claims = dict(map(_claim, whose.claims))
    grant = grants_of(network.role).of(Subject(whose.user, "", tuple(whose.roles), claims))
    assert grant is not None, "there are roles"
    for lack in grant.missing:
        click.echo(f"reefcast: {lack}", err=True)
    return [grant.narrowed(filter) for filter in filters]


def _claim(text: str) -> tuple[str, object]:
    """Parse `name=value`; the value is JSON, also a list, or else the text itself. Raises
    `InvalidValueError`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidValueError(f"{text!r} is no claim; write name=value")
    try:
        return name.strip(), msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name.strip(), value.strip()
