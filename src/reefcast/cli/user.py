"""`reefcast user`: the users file of a network."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.command_line import Group
from reefcast.cli.options import OUTPUT_FILE, json_option
from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from reefcast.security.users import UserEntry

users_option = click.option(
    "--users",
    "file",
    type=OUTPUT_FILE,
    default="users.toml",
    show_default=True,
    help="The users file: `users` in [security] of the network file.",
)


@click.group(cls=Group)
def command() -> None:
    """Add, remove and list the users of a network.

        reefcast user list --users users.toml

    Brokers read the users file again when it changes: a user who is removed is disconnected, and
    changed roles count at once.
    """


@command.command()
@click.argument("name")
@click.option(
    "--role",
    "roles",
    multiple=True,
    help="A role of the user: the name of a [[role]] of the network file, or, if that has none, "
    "`administrator` or `storage`; may be repeated.",
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Read the password from this file, - for standard input; by default it is asked for on "
    "the terminal.",
)
@click.option(
    "--no-password",
    is_flag=True,
    help="Give the user no password: a certificate proves who it is.",
)
@click.option("--replace", is_flag=True, help="Change a user who is there already.")
@users_option
@json_option("the user and its roles")
def add(
    *,
    name: str,
    roles: tuple[str, ...],
    password_file: Path | None,
    no_password: bool,
    replace: bool,
    file: Path,
    as_json: bool,
) -> None:
    """Add a user, or change one.

        reefcast user add anna --role fx-desk

    The password is kept as an argon2id hash. No option takes it: others could read it in the list
    of processes.
    """
    from reefcast.security.passwords import hash_password
    from reefcast.security.users import UserEntry, change_users, check_name

    if no_password and password_file is not None:
        raise click.UsageError("--no-password and --password-file exclude each other")
    check_name(name)
    hashed = "" if no_password else hash_password(_password(name, password_file))
    entry = UserEntry(name=name, hash=hashed, roles=list(dict.fromkeys(roles)))

    def added(users: list[UserEntry]) -> list[UserEntry]:
        others = [each for each in users if each.name != name]
        if len(others) < len(users) and not replace:
            raise ConfigurationError(
                f"{file} has a user {name!r} already: give --replace to change it"
            )
        return [*others, entry]

    change_users(file, added)
    _say(entry, as_json)


def _password(name: str, file: Path | None) -> str:
    """Return the password from a file, or ask for it. Raises `ConfigurationError` for one that
    cannot be used."""
    from reefcast.security.files import read_secret
    from reefcast.security.passwords import MOST_PASSWORD_BYTES

    if file is None:
        asked: str = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
        password = asked.strip()
    elif str(file) == "-":
        password = sys.stdin.read().strip()
    else:
        password = read_secret(file, "the password file")
    if not 0 < len(password.encode()) <= MOST_PASSWORD_BYTES:
        raise ConfigurationError(f"a password has 1 to {MOST_PASSWORD_BYTES} bytes")
    return password


@command.command()
@click.argument("name")
@users_option
@json_option("the user and its former roles")
def remove(name: str, file: Path, as_json: bool) -> None:
    """Remove a user.

        reefcast user remove anna

    Brokers end its connections.
    """
    from reefcast.security.users import change_users

    removed: list[UserEntry] = []

    def without(users: list[UserEntry]) -> list[UserEntry]:
        removed.extend(each for each in users if each.name == name)
        if not removed:
            raise ConfigurationError(f"{file} has no user {name!r}")
        return [each for each in users if each.name != name]

    change_users(file, without)
    if as_json:
        _say(removed[0], as_json)
    else:
        click.echo(f"{name} is no user any more")


@command.command("list")
@users_option
@json_option("the users, with their roles, and whether they have a password")
def list_users(file: Path, as_json: bool) -> None:
    """Show the users and their roles.

        reefcast user list --users users.toml

    Of a password, it shows only whether there is one.
    """
    from reefcast.security.users import read_users

    users = [_told(entry) for entry in read_users(file).by_name.values()]
    if as_json:
        click.echo(json.dumps(users))
        return
    for user in users:
        lacks = "" if user["password"] else "  (no password)"
        click.echo(f"{user['user']}: {', '.join(user['roles']) or 'no role'}{lacks}")


def _told(entry: UserEntry) -> dict[str, Any]:
    return {"user": entry.name, "roles": entry.roles, "password": bool(entry.hash)}


def _say(entry: UserEntry, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_told(entry)))
    else:
        click.echo(f"{entry.name}: {', '.join(entry.roles) or 'no role'}")
