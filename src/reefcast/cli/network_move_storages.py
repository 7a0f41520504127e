"""`reefcast network move-storages`: a plan of storages, applied to a network while it runs."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.options import DIRECTORY, INPUT_FILE, json_option, network_argument, wait_option
from reefcast.cli.secured import own_files, own_options
from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.placing import planned_storages, say_the_same, widened, with_storages
from reefcast.network.plan_file import PlannedStorage, load_plan
from reefcast.network.rewriting import rewrite
from reefcast.network.sections import StorageEntry

POLL_S = 0.2
Storages = Sequence[StorageEntry]


class Steps(NamedTuple):
    """The storages of the network file before, while topics are taken over, and then."""

    before: Storages
    wide: Storages
    then: Storages


@click.command(
    "move-storages",
    epilog="Exit codes: 0 the storages are as PLAN says, and so is NETWORK; 1 not in time: run it "
    "again.",
)
@network_argument
@own_options
@click.argument("plan", metavar="PLAN", type=INPUT_FILE)
@click.option(
    "--directory",
    type=DIRECTORY,
    default="history",
    show_default=True,
    help="The directory of new storages: each keeps its history there, under its name.",
)
@wait_option(600.0, "until storages have caught up, and others stopped")
@json_option("the storages, what each got and gave up, and what is missing still")
def command(network: Path, plan: Path, directory: Path, wait_s: float, as_json: bool) -> None:
    """Move the storages of a running network to where a plan wants them.

        reefcast network move-storages net.toml plan.toml

    `reefcast plan placement --out` writes PLAN. While events flow and history is asked for, new
    storages of PLAN start, fetch the history of their topics, and answer for them. Only when all
    brokers know that, the former storages give up these topics, and storages without topics stop.
    Nothing is lost: topics that a storage gives up stay in its directory, unless its [[storage]]
    says forget.

    `reefcast network up` starts and stops them as NETWORK says; if you run storages by hand, start
    `reefcast storage` for new ones. The command changes NETWORK twice, before and after. If it ends
    in between, run it again. All storages of NETWORK must be running; remove one that is gone for
    good.
    """
    planned = load_plan(plan, load_network(network).names)
    steps, missing = asyncio.run(_place(network, planned, directory, wait_s))
    if as_json:
        click.echo(json.dumps({"storages": _changes(steps), "missing": missing}))
    elif missing:
        click.echo(_not_over(network, steps, missing, wait_s))
    else:
        for change in _changes(steps):
            click.echo(_in_words(change))
        click.echo(f"{network} says so, too")
    sys.exit(NO if missing else DONE)


# --- the two steps --------------------------------------------------------------------------------


def _steps(network: NetworkFile, plan: Sequence[PlannedStorage], directory: Path) -> Steps:
    """Return the steps of a plan. Raises `ConfigurationError` for a plan that cannot be carried
    out."""
    from reefcast.server.storages import are_known_everywhere

    then = planned_storages(network.storage, plan, str(directory))
    wide = widened(network.storage, then)
    replace(network, storage=wide).validate()
    if any(entry.joining for entry in wide) and not are_known_everywhere(network):
        raise ConfigurationError(
            f"with routing {network.network.routing!r} storages cannot take over topics from each "
            "other: each answers for clients of its own broker only"
        )
    return Steps(network.storage, wide, then)


async def _place(
    file: Path, plan: Sequence[PlannedStorage], directory: Path, wait_s: float
) -> tuple[Steps, list[str]]:
    """Carry out the plan; return the steps, and what is missing when the time is over."""
    from reefcast.server.storages import still_answered, storages_known, unanswered

    network = load_network(file)
    steps = _steps(network, plan, directory)
    until_s = asyncio.get_running_loop().time() + wait_s

    async def until_answered(storages: Storages) -> list[str]:
        async def look() -> list[str]:
            return unanswered(network, storages, await storages_known(network, own_files()))

        return await _until_none(look, until_s)

    async def not_gone() -> list[str]:
        return still_answered(steps.wide, steps.then, await storages_known(network, own_files()))

    # Who is not there now may have what nobody else has.
    missing = await until_answered(steps.before)
    if not missing:
        steps = _widen(file, plan, directory)
        missing = await until_answered(steps.then)
    if not missing:
        _narrow(file, steps)
        missing = await _until_none(not_gone, until_s)
    return steps, missing


def _widen(file: Path, plan: Sequence[PlannedStorage], directory: Path) -> Steps:
    steps: list[Steps] = []

    def widen(text: str, network: NetworkFile) -> str:
        steps.append(_steps(network, plan, directory))
        return with_storages(text, steps[0].wide)

    rewrite(file, widen)
    return steps[0]


def _narrow(file: Path, steps: Steps) -> None:
    def narrow(text: str, network: NetworkFile) -> str:
        if not say_the_same(network.storage, steps.wide):
            raise ConfigurationError(
                f"the storages in {file} were changed by somebody else meanwhile: run this again"
            )
        return with_storages(text, steps.then)

    rewrite(file, narrow)


async def _until_none(look: Callable[[], Awaitable[list[str]]], until_s: float) -> list[str]:
    said = ""
    while missing := await look():
        if asyncio.get_running_loop().time() > until_s:
            break
        if missing[0] != said:
            said = missing[0]
            click.echo(f"waiting: {said}", err=True)
        await asyncio.sleep(POLL_S)
    return missing


# --- what is said of it ---------------------------------------------------------------------------


def _changes(steps: Steps) -> list[dict[str, Any]]:
    """Return the changes of storages that existed or exist now; `topics`: what they keep now."""
    before = {entry.name: entry.complete for entry in steps.before}
    then = {entry.name: entry.topics for entry in steps.then}
    return [
        {
            "storage": entry.name,
            "broker": entry.broker,
            "directory": entry.directory,
            "topics": then.get(entry.name, []),
            "got": _without(then.get(entry.name, []), before.get(entry.name, [])),
            "gave_up": _without(before.get(entry.name, []), then.get(entry.name, [])),
        }
        for entry in steps.wide
    ]


def _without(topics: list[str], others: list[str]) -> list[str]:
    return [topic for topic in topics if topic not in others]


def _in_words(change: dict[str, Any]) -> str:
    who = f"{change['storage']} at {change['broker']}"
    if not change["topics"]:
        return f"{who} has ended; what it had is in {change['directory']}"
    words = f"{who} keeps {', '.join(change['topics'])}"
    if not change["got"] and not change["gave_up"]:
        return f"{words}, as before"
    got = f"; got {', '.join(change['got'])}" if change["got"] else ""
    gave_up = f"; gave up {', '.join(change['gave_up'])}" if change["gave_up"] else ""
    return words + got + gave_up


def _not_over(file: Path, steps: Steps, missing: list[str], wait_s: float) -> str:
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    lines = [f"after {wait_s:g} s: {missing[0]}{more}"]
    if not say_the_same(load_network(file).storage, steps.then):
        by_hand = shlex.join(("reefcast", "storage", str(file)))
        lines.append(
            "no storage has given anything up yet. Is everything running (`reefcast network up`, "
            f"or, by hand, {by_hand} NAME)? Run this again then: it goes on"
        )
    return "\n".join(lines)
