"""Options that several commands of the laboratory take; conventions are those of `reefcast`
(`reefcast.cli.options`)."""

from __future__ import annotations

from collections.abc import Callable

import click

from reefcast.cli.options import DIRECTORY, C, Number


def rate_option(default: float) -> Callable[[C], C]:
    """`--rate`, of a command that runs a network by itself."""
    return click.option(
        "--rate",
        type=Number(0, min_open=True),
        default=default,
        show_default=True,
        help="Events per second, in all.",
    )


def _event_count(context: click.Context, parameter: click.Parameter, value: str) -> int:
    """A number, or `all`."""
    from reefcast_lab.datasets.flights import EVENT_COUNT

    if value == "all":
        return EVENT_COUNT
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'all'") from None


def events_option(default: str) -> Callable[[C], C]:
    """`--events`, how many of the flights out of New York."""
    return click.option(
        "--events",
        callback=_event_count,
        default=default,
        show_default=True,
        metavar="N|all",
        help="Events to take, the first ones in time.",
    )


data_option = click.option(
    "--data",
    type=DIRECTORY,
    default="out/data",
    show_default=True,
    help="Keep the events in this directory for the next time.",
)
