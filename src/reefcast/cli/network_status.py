"""What `reefcast network status` shows of the brokers' answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from reefcast.cli.terminal import plain_console
from reefcast.model.wording import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rich.console import Console

Answer = dict[str, Any]
MOST_LINKS = 8
MOST_ADVERTISEMENTS = 4
"""Shown of one broker."""
KINDS = {"a_link": "aLink", "i_link": "iLink", "": ""}
CASES = (
    ("case I", "idr_case_1"),
    ("case II", "idr_case_2"),
    ("case III", "idr_case_3"),
    ("full aLinks", "idr_overloaded_a_link"),
    ("no tree link", "idr_no_tree_link"),
    ("cut off", "idr_unreachable"),
)
"""Column and counter of what dynamic routing did (see `routing.scot.Idr`)."""
CIV_LEGEND = """\
CIV: a bit for each cluster, cluster 0 at the right. At the host: where copies must go, its own
bit is always 1. At a secondary broker: the publisher's cluster, and its own if it wants any."""
CASES_LEGEND = """\
Decisions that met overloaded iLinks. Case I: the copy on a free iLink took their clusters along.
II: one on a free aLink. III: none was free, so one on the overloaded iLink with the shortest queue.
Full aLinks: copies on overloaded aLinks that these decisions made; those of decisions inside a
cluster, or that met no overloaded iLink, are not counted. No tree link: case III, though an aLink
without a matching subscription was free. Cut off: clusters that no link led to."""
OVERLOADED, BAD = "bold white on red", "bold red"


def print_status(answers: Mapping[str, Answer | None]) -> None:
    """One table a subject; those that have nothing to say are left out."""
    there = {name: answer for name, answer in answers.items() if answer is not None}
    console = plain_console()
    console.print(_brokers(answers))
    _print(console, _links(there))
    idle = sum(_is_idle(link, answer) for answer in there.values() for link in answer["links"])
    if idle:
        click.echo(f"{idle} {'end of a link is' if idle == 1 else 'ends of links are'} up and idle")
    if _print(console, _civs(there)):
        click.echo(CIV_LEGEND)
        for line in _left_out(there):
            click.echo(line)
    if _print(console, _cases(there)):
        click.echo(CASES_LEGEND)


def _print(console: Console, table: Table) -> bool:
    if table.row_count:
        console.print(table)
    return bool(table.row_count)


def _brokers(answers: Mapping[str, Answer | None]) -> Table:
    columns = ("broker", "state", "clients", "tables", "published", "delivered", "memory")
    table = _table(*columns, wrapped=("tables",))
    for name, answer in answers.items():
        if answer is None:
            table.add_row(name, Text("does not answer", BAD))
            continue
        counters = answer["counters"]
        table.add_row(
            name,
            _state(answer),
            str(len(answer["clients"])),
            ", ".join(f"{table} {rows}" for table, rows in answer["tables"].items()),
            str(counters.get("published", 0)),
            str(counters.get("delivered", 0)),
            f"{answer['memory_mb']:.0f} MB",
        )
    return table


def _state(answer: Answer) -> Text:
    """What is unusual about the broker, or for how long it is up."""
    if answer["stopping"]:
        return Text("stops", BAD)
    if answer["relearning"]:
        return Text("relearns", BAD)
    if answer["congested"]:
        return Text("congested", OVERLOADED)
    return Text(f"up {_duration(answer['uptime_s'])}")


def _duration(seconds: float) -> str:
    """`42 s`, `3:07 min`, `5:01 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def _links(answers: Mapping[str, Answer]) -> Table:
    """Those that carry something or are in trouble, the latter first."""
    table = _table(
        "broker", "link", "kind", "state", "waiting", "load", "overloaded", "in/s", "out/s"
    )
    for name, answer in answers.items():
        busy = [link for link in answer["links"] if not _is_idle(link, answer)]
        busy.sort(key=lambda link: (not _in_trouble(link, answer), link["link"]))
        for row, link in enumerate(busy[:MOST_LINKS]):
            table.add_row(name if not row else "", *_link_cells(link, answer))
        _more(table, len(busy) - MOST_LINKS)
    return table


def _in_trouble(link: Answer, answer: Answer) -> bool:
    status = answer["lst"].get(link["link"])
    return status is None or status["overloaded"] or link["state"] != "up"


def _is_idle(link: Answer, answer: Answer) -> bool:
    traffic = link["in_per_s"] + link["out_per_s"] + link["queue_len"]
    past = link["reconnects"] or link["found_overloaded"]
    return not traffic and not past and not _in_trouble(link, answer)


def _link_cells(link: Answer, answer: Answer) -> Iterator[str | Text]:
    status = answer["lst"].get(link["link"])
    yield link["link"]
    yield KINDS[link["kind"]]
    again = f", {link['reconnects']}x again" if link["reconnects"] else ""
    yield Text("up") + Text(again, "yellow") if link["state"] == "up" else Text(link["state"], BAD)
    yield str(link["queue_len"])
    yield "" if status is None else _load(status["load"])
    yield _overloaded(link["found_overloaded"], status is not None and status["overloaded"])
    yield f"{link['in_per_s']:.0f}"
    yield f"{link['out_per_s']:.0f}"


def _load(load: float) -> str:
    return f"{load:.1f}" if load < 100 else f"{load:.0f}"


def _overloaded(found: int, now: bool) -> Text:
    """`found`: decisions so far that met it so."""
    past = Text(f" {found}x", "yellow") if found else Text()
    return Text(" NOW ", OVERLOADED) + past if now else past


def _civs(answers: Mapping[str, Answer]) -> Table:
    """A row for each advertisement, with its CIV at all brokers that know it."""
    others = "at secondary brokers"
    wrapped = ("advertisement", "filter", others)
    table = _table("host", "advertisement", "filter", "CIV", others, wrapped=wrapped)
    elsewhere: dict[str, list[str]] = {}
    for name, answer in answers.items():
        for row in answer.get("clt", []):
            if row["context"] == "subscription":
                elsewhere.setdefault(row["advertisement"], []).append(f"{name} {row['civ']}")
    for name, answer in answers.items():
        hosted = [row for row in answer.get("clt", []) if row["context"] == "advertisement"]
        for number, row in enumerate(hosted[:MOST_ADVERTISEMENTS]):
            known = ", ".join(elsewhere.get(row["advertisement"], []))
            cells = (row["advertisement"], row["filter"], row["civ"], known)
            table.add_row(name if not number else "", *map(printable, cells))
        _more(table, len(hosted) - MOST_ADVERTISEMENTS)
    return table


def _left_out(answers: Mapping[str, Answer]) -> Iterator[str]:
    """A broker sends the first rows of a long CLT only (see `server.status`)."""
    for name, answer in answers.items():
        if count := answer["left_out"].get("clt", 0):
            yield f"{name} sent {len(answer['clt'])} rows of its CLT and left out {count}"


def _cases(answers: Mapping[str, Answer]) -> Table:
    """Decisions of dynamic routing that met overloaded links, where there were any."""
    columns = ["dynamic routing", *(column for column, _ in CASES)]
    table = _table(*columns, wrapped=columns)
    for name, answer in answers.items():
        counts = [answer["counters"].get(counter, 0) for _, counter in CASES]
        if any(counts):
            table.add_row(name, *map(str, counts))
    return table


def _more(table: Table, count: int) -> None:
    """For rows of one broker that are left out."""
    if count > 0:
        table.add_row("", Text(f"and {count} more", "dim italic"))


def _table(*columns: str, wrapped: Collection[str] = ()) -> Table:
    """`wrapped`: columns that give way where the terminal is narrow."""
    table = Table()
    for name in columns:
        table.add_column(name, no_wrap=name not in wrapped)
    return table
