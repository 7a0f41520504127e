"""The options for TLS, which all commands that connect have in common."""

from __future__ import annotations

from typing import Any, Unpack

import click

from reefcast.cli.options import C
from reefcast.client import Options
from reefcast.client import connect as connect_with
from reefcast.client.connecting import Connecting
from reefcast.tls.environment import VARIABLES
from reefcast.tls.files import TlsFiles

_META = "reefcast.tls"
_FILE = click.Path(exists=True, dir_okay=False)


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Keep the value for the command's connections; the command itself needs none of them."""
    if value:
        context.meta.setdefault(_META, Options())[parameter.name] = value


def _option(name: str, help: str, **settings: Any) -> Any:
    flag = f"--{name.replace('_', '-')}"
    text = f"{help}; by default that of {VARIABLES[name]}{settings.pop('otherwise')}."
    return click.option(flag, name, help=text, expose_value=False, callback=_keep, **settings)


_OPTIONS = {
    "authority": _option(
        "authority",
        "For reefcast+tls://, the file of the authority that brokers have their certificates from",
        type=_FILE,
        metavar="FILE",
        otherwise=", or those of the operating system",
    ),
    "certificate": _option(
        "certificate",
        "The file of the certificate that says who you are",
        type=_FILE,
        metavar="FILE",
        otherwise=", or none",
    ),
    "key": _option(
        "key",
        "The file of its private key",
        type=_FILE,
        metavar="FILE",
        otherwise=", or the file of the certificate",
    ),
    "server_name": _option(
        "server_name",
        "The name in the broker's certificate",
        metavar="NAME",
        otherwise=", or the host of the URL",
    ),
}


def client_options(command: C) -> C:
    """Add the options of a command that connects to a broker by its URL (`connect`)."""
    return _with(command, *_OPTIONS)


def own_options(command: C) -> C:
    """Add the options of a command that asks the brokers of a network file (`own_files`)."""
    return _with(command, "certificate", "key")


def _with(command: C, *names: str) -> C:
    for name in reversed(names):
        command = _OPTIONS[name](command)
    return command


def given() -> Options:
    """Return the options that were given with the present command."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(_META, Options())


def connect(url: str, **options: Unpack[Options]) -> Connecting:
    """Connect as `reefcast.connect` does, with the options of the present command."""
    merged: Options = {**given(), **options}
    return connect_with(url, **merged)


def own_files() -> TlsFiles:
    """Return the certificate and the key that were given with the present command."""
    told = given()
    return TlsFiles(told.get("authority", ""), told.get("certificate", ""), told.get("key", ""))
