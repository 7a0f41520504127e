"""The tables of `network status` and `simulate --inspect`: the same tables in the same words, made
from the answers of live or simulated brokers (`Broker.status`, with more for live ones).

Tables, what is counted, and what both mean come with the answers, in the words of the routing; this
module knows none of them but the LST, which all routings have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.terminal import plain_console
from reefcast.errors import ConfigurationError
from reefcast.model.wording import printable
from reefcast.routing.router import COUNTED
from reefcast.words import noun

if TYPE_CHECKING:
    from rich.text import Text

    from reefcast.network.file import NetworkFile
    from reefcast.routing.router import RoutingOptions

Answer = dict[str, Any]
Answers = Mapping[str, Answer | None]
MOST_LINKS, MOST_CLIENTS = 8, 20
"""Shown of one broker."""
LONGEST_CELL, LONGEST_UNBROKEN = 60, 16
"""Characters: longer cells are cut, and columns with longer ones give way in a narrow terminal
(shorter ones, too, if that does not make the rest fit)."""
KINDS = {"a_link": "aLink", "i_link": "iLink", "soft": "soft", "": ""}
SOON_DAYS = 14
"""Days before its end at which a certificate is spoken of."""
OVERLOADED, BAD = "bold white on red", "bold red"


def check_tables(network: NetworkFile, asked: Collection[str]) -> None:
    """Raise `ConfigurationError` for a table that the network's routing does not have."""
    if not asked:
        return
    from reefcast.routing.broker import Broker

    scot = network.scot()
    looked_at: list[RoutingOptions] = []
    known: dict[str, int] = {}
    for name in network.names:
        options = network.routing_options(name)
        if options in looked_at:
            continue
        looked_at.append(options)
        place = scot.neighbours(name) if scot else None
        known |= Broker(name, network.network.routing, scot=place, options=options).tables()
    for table in asked:
        if table not in known:
            raise ConfigurationError(
                f"routing {network.network.routing!r} has no table {table!r}; it has "
                f"{', '.join(known)}, and the LST is always shown"
            )


def print_status(answers: Answers) -> None:
    """Print one table for each subject; leave out empty ones."""
    there = {name: answer for name, answer in answers.items() if answer is not None}
    _print("Brokers", BROKERS, _brokers(answers))
    for line in _ending_soon(there):
        click.echo(line)
    if _print("LST", LINKS, _links(there)):
        _say_load(there)
    idle = sum(_is_idle(link) for answer in there.values() for link in _links_of(answer))
    if idle:
        ends = "1 end of a link is" if idle == 1 else f"{idle} ends of links are"
        click.echo(f"LST: {ends} up and idle")
    _print("Clients that do not keep up", SLOW_CLIENTS, _slow_clients(there))
    for line in owed_in_words(there):
        click.echo(line)
    legend = _merged(there, "legend")
    for table, told in _merged(there, "rows").items():
        if _print(table, ("broker", *told["columns"]), _rows(there, table)):
            _say(legend.get(table))
    counts = tuple(_merged(there, "counted"))
    if _print("Counted", ("broker", *counts), _counted(there)):
        _say(legend.get(COUNTED))


def print_storages(storages: Iterable[Answer]) -> None:
    """Print what the storages of a network file answer for; `storages`: as `network status` returns
    it."""
    told = ("answers", "joins", "silent")
    rows = [
        (each["storage"], each["at"], *(", ".join(each[key]) or None for key in told))
        for each in storages
    ]
    columns = ("storage", "at", "answers for", "takes over", "does not answer for")
    _print("Storages", columns, rows)


def _merged(answers: Mapping[str, Answer], key: str) -> dict[str, Any]:
    """Return what the answers have under `key`, by name, in their order."""
    return {name: told for answer in answers.values() for name, told in answer[key].items()}


def _say(legend: str | None) -> None:
    if legend:
        click.echo(click.wrap_text(legend, width=min(plain_console().width, 100)))


def owed_in_words(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Yield a line for each neighbour for which something waits, or is in custody."""
    for broker, answer in answers.items():
        for link, owed in answer["owed"].items():
            down = "" if owed["away_s"] is None else f", down for {_duration(owed['away_s'])}"
            parts = []
            if waiting := max(owed["waiting"], owed["held"]):
                wait = noun(waiting, "publication waits", "publications wait")
                parts.append(f"{waiting} {wait} for broker {link}{down}")
            if owed["unsettled"] and down:
                parts.append(f"{owed['unsettled']} changes of tables wait for its answer")
            if count := owed.get("in_custody", 0):
                full = ", and there is no room for more" if owed["full"] else ""
                parts.append(f"{count} ({owed['custody_bytes']} bytes) in custody{full}")
            if parts:
                yield f"{broker}: {'; '.join(parts)}"


# --- brokers --------------------------------------------------------------------------------------

BROKERS = ("broker", "state", "clients", "links", "tables", "published", "delivered", "memory")


def _brokers(answers: Answers) -> Iterator[Sequence[str | Text | None]]:
    for name, answer in answers.items():
        if answer is None:
            yield name, _text("does not answer", BAD)
            continue
        counters, memory = answer["counters"], answer.get("memory_mb")
        yield (
            name,
            _state(answer),
            str(len(answer["clients"]) + answer.get("clients_left_out", 0)),
            _links_up(_links_of(answer)),
            ", ".join(f"{table} {rows}" for table, rows in answer["tables"].items()),
            str(counters.get("published", 0)),
            str(counters.get("delivered", 0)),
            memory and f"{memory:.0f} MB",
        )


def _ending_soon(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Yield a line for each broker whose certificate must be renewed."""
    for name, answer in answers.items():
        certificate = answer.get("certificate")
        if certificate and certificate["days"] < SOON_DAYS:
            day, days = certificate["ends"][:10], certificate["days"]
            when = f"ends on {day}, in {days:.0f} days" if days > 0 else f"has ended on {day}"
            yield f"{name}: its certificate {when}: renew it"


def _links_up(links: Sequence[Answer]) -> str | None:
    """Return how many links are up, where the broker opens links on its own."""
    own = any(link["kind"] == "soft" for link in links)
    return str(sum(link["state"] == "up" for link in links)) if own else None


def _state(answer: Answer) -> Text | None:
    """Return what is unusual about the broker, or for how long it is up."""
    if answer.get("stopping"):
        return _text("stops", BAD)
    if answer["relearning"]:
        return _text("relearns", BAD)
    if (drain := answer.get("drain", {}).get("state", "no")) != "no":
        return _text("is drained" if drain == "empty" else "drains", BAD)
    if answer.get("congested"):
        return _text("congested", OVERLOADED)
    return _text(f"up {_duration(answer['uptime_s'])}") if "uptime_s" in answer else None


def _duration(seconds: float) -> str:
    """Return a time as `42 s`, `3:07 min`, `5:01 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


# --- links ----------------------------------------------------------------------------------------

LINKS = ("broker", "link", "kind", "state", "queue", "load", "overloaded", "in/s", "out/s")


def _links(answers: Mapping[str, Answer]) -> Iterator[Sequence[str | Text | None]]:
    """Yield the links that carry something or have problems, the latter first."""
    for name, answer in answers.items():
        busy = [link for link in _links_of(answer) if not _is_idle(link)]
        busy.sort(key=lambda link: (not _in_trouble(link), link["link"]))
        rows = [tuple(_link_cells(link)) for link in busy[:MOST_LINKS]]
        yield from _of_one(name, rows, len(busy) - MOST_LINKS)


def _links_of(answer: Answer) -> list[Answer]:
    """Return what the core and the driver report of each link."""
    return [answer["lst"][link["link"]] | link for link in answer["links"]]


def _in_trouble(link: Answer) -> bool:
    return bool(link["overloaded"]) or link["state"] != "up"


def _is_idle(link: Answer) -> bool:
    traffic = link["in_per_s"] + link["out_per_s"] + link["queue_len"]
    past = link.get("reconnects") or link["found_overloaded"]
    return not traffic and not past and not _in_trouble(link)


def _link_cells(link: Answer) -> Iterator[str | Text | None]:
    yield link["link"]
    yield KINDS[link["kind"]] or None
    yield _link_state(link)
    yield str(link["queue_len"])
    yield _load(link["load"])
    yield _overloaded(link["found_overloaded"], link["overloaded"])
    yield f"{link['in_per_s']:.0f}"
    yield f"{link['out_per_s']:.0f}"


def _link_state(link: Answer) -> Text:
    state, again = link["state"], link.get("reconnects", 0)
    if state != "up":
        return _text(state, BAD)
    return _text("up") + _text(f", {again}x again" if again else "", "yellow")


def _load(load: float) -> str:
    return f"{load:.1f}" if load < 100 else f"{load:.0f}"


def _overloaded(found: int, now: bool) -> Text:
    """Return the text for overload; `found`: decisions so far that met the link overloaded."""
    past = _text(f" {found}x", "yellow") if found else _text("")
    return _text(" NOW ", OVERLOADED) + past if now else past


def _say_load(answers: Mapping[str, Answer]) -> None:
    tau = " and ".join(sorted({f"{answer['tau']:g}" for answer in answers.values()}))
    _say(
        "Load: queue * (1 + in) / (1 + out), in and out counted in the last window; a link is "
        f"overloaded above tau = {tau}. 3x: decisions that met it so."
    )


# --- clients --------------------------------------------------------------------------------------

SLOW_CLIENTS = ("broker", "client", "now", "queue", "queue_policy", "dropped")


def _slow_clients(answers: Mapping[str, Answer]) -> Iterator[Sequence[str | Text | None]]:
    """Yield the clients that do not keep up now, and those with dropped events; only live brokers
    have such."""
    for name, answer in answers.items():
        slow = [each for each in answer["clients"] if each.get("slow") or each.get("dropped")]
        slow.sort(key=lambda client: (not client["slow"], client["client"]))
        rows = [tuple(_client_cells(client)) for client in slow[:MOST_CLIENTS]]
        yield from _of_one(name, rows, len(slow) - MOST_CLIENTS)


def _client_cells(client: Answer) -> Iterator[str | Text | None]:
    yield printable(client["client"])
    yield _text("slow", OVERLOADED) if client["slow"] else None
    yield str(client["queue_len"])
    yield client["queue_policy"]
    yield str(client["dropped"])


# --- the routing's tables, and what it counts -----------------------------------------------------


def _rows(answers: Mapping[str, Answer], table: str) -> Iterator[Sequence[str | Text | None]]:
    for name, answer in answers.items():
        told = answer["rows"].get(table)
        if told:
            rows = [tuple(_cell(cell) for cell in row) for row in told["rows"]]
            yield from _of_one(name, rows, told["left_out"])


def _cell(cell: object) -> str:
    text = printable(str(cell))
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}..."


def _counted(answers: Mapping[str, Answer]) -> Iterator[Sequence[str]]:
    """Yield the counters of brokers that counted anything."""
    for name, answer in answers.items():
        if any(answer["counted"].values()):
            yield name, *map(str, answer["counted"].values())


# --- printing -------------------------------------------------------------------------------------


def _of_one(
    broker: str, rows: Sequence[Sequence[str | Text | None]], left_out: int
) -> Iterator[Sequence[str | Text | None]]:
    """Yield the rows of one broker, which is named in the first, and how many are left out."""
    for number, row in enumerate(rows):
        yield "" if number else broker, *row
    if left_out > 0:
        yield "" if rows else broker, _text(f"and {left_out} more", "dim italic")


def _print(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text | None]]) -> bool:
    """Print a table without empty columns, and return whether there are rows."""
    from rich.table import Table

    cells = [(*row, *(None,) * (len(columns) - len(row))) for row in rows]
    told = [i for i in range(len(columns)) if any(row[i] is not None for row in cells)]
    widths = [(len(columns[i]), max(len(row[i] or "") for row in cells)) for i in told]
    console, table = plain_console(), Table(title=title, title_justify="left", title_style="bold")
    unbroken = _longest_unbroken(widths, console.width - 1 - 3 * len(told))
    for i, (header, cell) in zip(told, widths, strict=True):
        fits = cell <= max(header, unbroken)
        table.add_column(columns[i], no_wrap=fits, min_width=header, overflow="fold")
    for row in cells:
        table.add_row(*(row[i] for i in told))
    if cells:
        console.print(table)
    return bool(cells)


def _longest_unbroken(widths: Sequence[tuple[int, int]], room: int) -> int:
    """Return up to which width a cell is not broken, so that all columns fit in `room` characters;
    `widths`: of each column's header and of its widest cell."""

    def least(unbroken: int) -> int:
        return sum(max(h, cell) if cell <= unbroken else h for h, cell in widths)

    allowed = range(LONGEST_UNBROKEN, 0, -1)
    return next((unbroken for unbroken in allowed if least(unbroken) <= room), 0)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style)
