"""`reefcast follow`: the paths of publications through a running network, live.

Rules
-----
- A path is printed when it is whole: every broker that it was sent to has told of it, or is silent;
  or when nobody has told more of it for `PATIENCE_S`. It is printed again, whole, when somebody
  tells more later, as a broker that was away.
- What brokers saw before the command began is not printed, though some have it for others who
  follow the same.
- Remarks go to standard error: who is silent, which share is followed, what came too fast."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli import follow_text as text
from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import Number, Whole, json_option, network_argument
from reefcast.cli.output import Output
from reefcast.cli.secured import own_files, own_options
from reefcast.cli.terminal import plain_console
from reefcast.errors import ConnectionLostError, PeerError
from reefcast.network.file import NetworkFile, load_network
from reefcast.words import counted

if TYPE_CHECKING:
    from rich.console import Console

    from reefcast.server.view import Following, NetworkView
    from reefcast.server.view.following import Update

EVERY_S, PATIENCE_S = 0.3, 1.5
"""Seconds between two questions to the brokers, and without news of a path until it is printed as
it is."""
MOST_COUNTED = 10_000
Told = dict[str, Any]


@click.command(
    epilog="Exit codes: 0 it ended as it was told; 1 --timeout was over before --count "
    "publications came."
)
@network_argument
@click.argument("filter", metavar="[FILTER]", default="TRUE")
@own_options
@click.option(
    "--count",
    type=Whole(0),
    default=0,
    help="End after this many publications; by default (0) never.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(0),
    default=0.0,
    help="End after this many seconds; by default (0) never.",
)
@json_option("a line for each path")
def command(*, network: Path, filter: str, count: int, timeout_s: float, as_json: bool) -> None:
    """Follow publications through a running network, broker by broker.

        reefcast follow net.toml "symbol = 'IBM'"

    Of each publication that matches FILTER, by default of all, it prints the path: each broker that
    had it, how long after the publisher sent it (by their clocks), from whom, what was decided, and
    to whom it went, with the length of the queue there. Ctrl-C ends it. It needs the right
    "status", and shows what your roles let you subscribe to.

    A path is printed when it is complete, and again when more of it comes later. In a busy network
    only a share of the publications is followed; the command says which.
    """
    described = load_network(network)
    check_filters([filter])
    shown = Shown(described.names, count, as_json=as_json)
    with suppress(KeyboardInterrupt, BrokenPipeError):  # the usual ways to end it
        asyncio.run(_follow(described, filter, timeout_s, shown))
    shown.finish()
    sys.exit(NO if timeout_s and not shown.enough and count else DONE)


async def _follow(network: NetworkFile, filter: str, timeout_s: float, shown: Shown) -> None:
    from reefcast.server.admin import operator_of
    from reefcast.server.view import Following, NetworkView, askers_of

    view = NetworkView(network, askers_of(network, operator_of(network), own_files()))
    following = Following(view, filter)
    try:
        async with asyncio.timeout(timeout_s or None):
            shown.begin(await _begin(view, following, filter))
            while not shown.enough:
                await _print_news(following, shown)
    except TimeoutError:
        pass  # asked for
    finally:
        await view.close()


async def _begin(view: NetworkView, following: Following, filter: str) -> Update:
    """Have all brokers watch, and forget what they saw before. Raises why none of them does so."""
    from reefcast.model.looks import Sightings

    asked = (view.look(name, Sightings(filter)) for name in view.names)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    errors = [each for each in answers if isinstance(each, BaseException)]
    for error in errors:
        if len(errors) == len(answers) and not isinstance(error, PeerError):
            raise error
    if len(errors) == len(answers):
        raise ConnectionLostError(f"no broker of the network answers: {errors[0]}")
    update = await following.update()
    while update.more:
        update = await following.update()
    return update


async def _print_news(following: Following, shown: Shown) -> None:
    update = await following.update()
    await shown.show(update, asyncio.get_running_loop().time())
    if not update.more and not shown.enough:
        await asyncio.sleep(EVERY_S)


class Waiting:
    """Paths that have changed and are not printed yet."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._changed: dict[str, tuple[Told, float]] = {}

    def add(self, paths: Iterable[Told], now: float) -> None:
        """Note paths with news. `now`: seconds."""
        self._changed |= {path["id"]: (path, now) for path in paths}

    def ready(self, silent: Mapping[str, str], now: float) -> list[Told]:
        """Return the paths to print now, and drop them: the first published come first."""
        found = [
            path
            for path, changed_s in self._changed.values()
            if now - changed_s >= PATIENCE_S or self._is_whole(path, silent)
        ]
        for path in found:
            del self._changed[path["id"]]
        return sorted(found, key=lambda path: (path["published_us"], path["id"]))

    def _is_whole(self, path: Told, silent: Mapping[str, str]) -> bool:
        sightings = path["sightings"]
        came = {(seen["by"], seen["broker"]) for seen in sightings}
        held = {seen["broker"] for seen in sightings if seen["outcome"] == "held"}
        decided = {seen["broker"] for seen in sightings if "matched" in seen}
        reached = all(pair in came or pair[1] in silent for pair in self._sent(path))
        return reached and held <= decided

    def awaited(self, path: Told, silent: Mapping[str, str], share: float) -> dict[str, str]:
        """Return the brokers that a path was sent to and that have not told of it, and why."""
        told = {seen["broker"] for seen in path["sightings"]}
        unknown = (
            "has not told of it" if share == 1 else "has not told of it: it looks at a share only"
        )
        sent = {name for _, name in self._sent(path)} - told
        return {
            name: f"is silent: {silent[name]}" if name in silent else unknown
            for name in sorted(sent)
        }

    def _sent(self, path: Told) -> set[tuple[str, str]]:
        """Return from which broker to which it was sent, as far as these can tell."""
        return {
            (seen["broker"], hop["to"])
            for seen in path["sightings"]
            for hop in seen.get("to", ())
            if hop["to"] in self._names
        }


class Shown:
    """What is printed. `names`: of the brokers; `count`: publications after which there are
    enough, 0 for never."""

    def __init__(self, names: list[str], count: int, *, as_json: bool) -> None:
        self._names, self._count, self._as_json = names, count, as_json
        self._console = plain_console()
        self._output = Output()
        self._waiting = Waiting(names)
        self._ids: dict[str, None] = {}  # of the last ones printed
        self._printed = self._missed = 0
        self._silent: dict[str, str] = {}
        self._share = 1.0

    @property
    def enough(self) -> bool:
        """Whether as many publications were printed as were wanted."""
        return 0 < self._count <= self._printed

    def begin(self, update: Update) -> None:
        """Say that what is published from now on is followed."""
        up = len(self._names) - len(update.silent)
        _say(f"following at {up} of {counted(len(self._names), 'broker')}")
        self._remark(update)

    async def show(self, update: Update, now: float) -> None:
        """Print what is new, and the paths that are whole."""
        self._remark(update)
        self._waiting.add(update.paths, now)
        pieces = []
        for path in self._waiting.ready(update.silent, now):
            if self.enough:
                break
            pieces.append(self._line(path, update))
            self._note(path["id"])
        if pieces:
            await self._output.write(pieces)

    def _note(self, id: str) -> None:
        """Count a publication, once."""
        self._printed += id not in self._ids
        self._ids[id] = None
        if len(self._ids) > MOST_COUNTED:
            del self._ids[next(iter(self._ids))]

    def _line(self, path: Told, update: Update) -> str:
        awaited = self._waiting.awaited(path, update.silent, update.share)
        if self._as_json:
            return text.json_line(path, awaited, update.share)
        if self._console.is_terminal:
            return _drawn(self._console, path, awaited)
        return text.plain(path, awaited)

    def _remark(self, update: Update) -> None:
        """Say what has changed about what is followed."""
        for name in sorted(update.silent.keys() - self._silent.keys()):
            _say(f"{name} is silent: {update.silent[name]}")
        for name in sorted(self._silent.keys() - update.silent.keys()):
            _say(f"{name} tells again")
        self._silent = update.silent
        self._remark_share(update.share)
        if update.missed and not self._missed:
            _say("brokers saw more than was asked for in time, which is not shown")
        self._missed += update.missed

    def _remark_share(self, share: float) -> None:
        before = self._share
        if (share == 1) is (before == 1) and before / 2 <= share <= 2 * before:
            return
        self._share = share
        if share < 1:
            part = f"{100 * share:.{0 if share >= 0.01 else 2}f} %"
            _say(f"busy brokers: {part} of the publications are followed, the same ones everywhere")
        else:
            _say("all publications are followed again")

    def finish(self) -> None:
        """Write the rest, and say how much there was."""
        self._output.finish()
        missed = f"; {self._missed:,} sightings came too fast" if self._missed else ""
        _say(f"{counted(self._printed, 'publication')}{missed}")


def _drawn(console: Console, path: Told, awaited: dict[str, str]) -> str:
    with console.capture() as drawn:
        console.print(text.coloured(path, awaited), soft_wrap=True, highlight=False)
    return drawn.get().rstrip("\n")


def _say(sentence: str) -> None:
    click.echo(f"reefcast: {sentence}", err=True)
