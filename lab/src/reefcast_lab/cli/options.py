"""Options that several commands of the laboratory take; conventions are those of `reefcast`
(`reefcast.cli.options`)."""

from __future__ import annotations

from collections.abc import Callable

import click

from reefcast.cli.options import DIRECTORY, INPUT_FILE, C, Number, Whole


def whole_option(
    option: str, default: int, text: str, *, least: int = 1, name: str = ""
) -> Callable[[C], C]:
    """Return an option that is a whole number, with a default that its help shows."""
    names = (option, name) if name else (option,)
    return click.option(*names, type=Whole(least), default=default, show_default=True, help=text)


def positive_option(option: str, default: float, text: str, *, name: str = "") -> Callable[[C], C]:
    """Return an option that is a number above 0, with a default that its help shows."""
    names = (option, name) if name else (option,)
    kind = Number(0, min_open=True)
    return click.option(*names, type=kind, default=default, show_default=True, help=text)


def rate_option(default: float) -> Callable[[C], C]:
    """Return `--rate`, for a command that runs a network by itself."""
    return positive_option("--rate", default, "Events per second, in all.")


def out_option(default: str, text: str) -> Callable[[C], C]:
    """Return `--out`, the directory of a demonstration's files."""
    return click.option("--out", type=DIRECTORY, default=default, show_default=True, help=text)


def page_option(page: str) -> Callable[[C], C]:
    """Return `--page`, for a benchmark whose figures stand in the documentation."""
    text = f"Write the tables into this file, between the marks of {page}."
    return click.option("--page", type=INPUT_FILE, help=text)


def scale_option(text: str) -> Callable[[C], C]:
    """Return `--scale`, for a benchmark."""
    scales = click.Choice(["small", "paper"])
    return click.option("--scale", type=scales, default="paper", show_default=True, help=text)


def _event_count(context: click.Context, parameter: click.Parameter, value: str) -> int:
    """Parse a number, or `all`."""
    from reefcast_lab.datasets.flights import EVENT_COUNT

    if value == "all":
        return EVENT_COUNT
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'all'") from None


def events_option(default: str) -> Callable[[C], C]:
    """Return `--events`, how many of the flights out of New York to use."""
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
