"""Options that several commands have: one name, one type and one wording for the same thing.

Conventions: a help text says what an option is or does and ends with a full stop; it names the
unit; "by default ..." where `show_default` cannot say it; "may be repeated" for an option that may.
The order is: the network, the workload, the seed and the faults, where things go, `--json`. A
command's help has an example, indented, and an epilog for its exit codes where it has other than 0
and those of all commands (`exit_codes.EXPLAINED`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reefcast.logs import FORMATS

C = TypeVar("C", bound=Callable[..., Any])

INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)


class Whole(click.IntRange):
    """A whole number from `min` on; INTEGER in the help, as where there is no limit."""

    name = "integer"


class Number(click.FloatRange):
    """A number from `min` on; FLOAT in the help, as where there is no limit."""

    name = "float"


if TYPE_CHECKING:
    TimeParameter = click.ParamType[datetime]
else:
    TimeParameter = click.ParamType  # which click 8.1 to 8.3 do not let anybody subscript


class Time(TimeParameter):
    """A time in ISO 8601; without a zone it is the machine's."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        try:
            return datetime.fromisoformat(str(value)).astimezone()
        except ValueError:
            self.fail(
                f"{value!r} is not a time; write 2026-01-31 or 2026-01-31T09:30:00", param, ctx
            )


network_argument = click.argument("network", metavar="NETWORK", type=INPUT_FILE)
"""The network file."""

master_option = click.option(
    "--master", metavar="URL", default="local[2]", show_default=True, help="Spark's master."
)


def wait_option(default_s: float, until: str) -> Callable[[C], C]:
    """Return the option for how long a command waits; `until`: for what, behind "seconds"."""
    return click.option(
        "--wait",
        "wait_s",
        type=Number(0),
        default=default_s,
        show_default=True,
        help=f"Wait at most this many seconds {until}.",
    )


seed_option = click.option(
    "--seed", default=0, show_default=True, help="Sets every random choice of the run."
)


table_option = click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Show the rows of this table, too, such as PRT; may be repeated.",
)

rows_option = click.option(
    "--rows",
    type=Whole(0),
    default=5,
    show_default=True,
    help="Show at most this many rows of each table, for each broker.",
)
"""`--table` and `--rows` are what `inspection` shows of brokers."""


def log_options(command: C) -> C:
    """Add `--log-format` and `--log-level`, the arguments of `logs.Settings.changed`."""
    format = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        envvar="REEFCAST_LOG_FORMAT",
        help="Log as text, or as JSON with a line for each event; by default as the network file "
        "says, else text.",
    )
    level = click.option(
        "--log-level",
        "log_levels",
        metavar="[PART=]LEVEL",
        multiple=True,
        help="Log what is at least debug, info, warning or error, in all or in one part, such as "
        "connections=info; by default warning; may be repeated.",
    )
    return format(level(command))


def json_option(what: str) -> Callable[[C], C]:
    """Add `--json`; `what` says what is then printed instead of text for people."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON: {what}.")


def tree_option(default: str | None = None) -> Callable[[C], C]:
    """Add `--tree`, one factor of a SCOT; required where there is no default."""
    return click.option(
        "--tree",
        metavar="SOURCE",
        default=default,
        required=default is None,
        show_default=True,
        help="path:NODES, star:NODES, balanced:NODES:CHILDREN, random:NODES:SEED, paper (that of "
        "OctopiA's evaluation), or a file: GraphML (a spanning tree of it), a network file, or "
        "text with a link (two names) a line.",
    )


def clusters_option(default: int | None = None) -> Callable[[C], C]:
    """Add `--clusters`, the other factor of a SCOT; required where there is no default."""
    return click.option(
        "--clusters",
        type=Whole(1),
        default=default,
        required=default is None,
        show_default=True,
        help="Copies of the tree.",
    )
