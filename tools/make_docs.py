"""Write the reference pages that are made from the code, so that they cannot drift from it: `make
docs`.

In docs/reference: commands.md and lab-commands.md (what each command's --help says), trace.md (the
trace vocabulary), network-file.md (every key of a network file), metrics.md (what brokers tell
Prometheus), python.md (what `import reefcast` offers); and the tables in docs/mqtt.md.
`--check` writes nothing, and fails if one of them is not what the code says: `make check`, and a
test.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

import mqtt_statements
import python_reference
from reefcast.cli.main import group as product
from reefcast.network import file, sections
from reefcast.routing.registry import ROUTINGS, routing_named
from reefcast.routing.router import RoutingOptions
from reefcast.server.metrics import definitions
from reefcast.storage_node import metric_definitions as of_storages
from reefcast.traces import vocabulary
from reefcast_lab.cli.main import group as laboratory

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- made by `make docs`; change the code, not this page -->\n"


def commands() -> str:
    """Return the page with the help of every command."""
    return _commands(product, "reefcast", "Commands")


def laboratory_commands() -> str:
    """Return the page with the help of every command of the laboratory."""
    return _commands(laboratory, "reefcast-lab", "Commands of the laboratory")


def _commands(group: click.Group, name: str, title: str) -> str:
    with click.Context(group, info_name=name, **group.context_settings) as root:
        sections = [f"## {name}\n\n```\n{text}\n```\n" for name, text in _helps(group, root)]
    return "\n".join([NOTE, f"# {title}\n", *sections])


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    formatter = context.make_formatter()
    formatter.width = 88
    command.format_help(context, formatter)
    yield context.command_path, formatter.getvalue().rstrip()
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            with click.Context(child, info_name=name, parent=context) as below:
                yield from _helps(child, below)


def trace_vocabulary() -> str:
    """Return the page with a table for each kind of trace row."""
    lines = [NOTE, "# The trace vocabulary\n", inspect.getdoc(vocabulary) or "", ""]
    for kind, columns in vocabulary.KINDS.items():
        lines += [f"## {kind}\n", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{c.name}` | {c.type} | {c.meaning} |" for c in columns]
        lines.append("")
    reasons = ", ".join(f"`{reason}`" for reason in vocabulary.DISCARD_REASONS)
    lines.append(f"Reasons of a discard: {reasons}.\n")
    return "\n".join(lines)


ROUTING = """\
The options of the routing that `[network]` names. An unknown key is refused. Each `[[broker]]` may
have other values under its own `routing`. [A routing of your own](../how-to/write-a-routing.md)
defines its own options; those of this package have the following ones. The pages about
[covering](../explanation/covering.md), [meshes](../explanation/mesh.md) and
[gossip](../explanation/gossip.md) explain them.
"""
MEANING = re.compile(r"^- `(\w+)`: (.*?)(?=^- `|\Z)", re.MULTILINE | re.DOTALL)
"""The part of a docstring that describes one key."""


def network() -> str:
    """Return the page with every section of a network file, its keys and their defaults."""
    lines = [NOTE, "# The network file\n", inspect.getdoc(file) or "", ""]
    for title, section in sections.SECTIONS.items():
        lines += [f"## {title}\n", *_keys(section)]
        if title == "[network]":
            lines += ["## [routing]\n", ROUTING, *_routings()]
    return "\n".join(lines)


def _routings() -> Iterator[str]:
    """Yield the options of the built-in routings; routings that share a class of options stand
    together."""
    names: dict[type[RoutingOptions], list[str]] = {}
    for name in ROUTINGS:
        names.setdefault(routing_named(name).options, []).append(name)
    for options, routings in names.items():
        if options is not RoutingOptions:
            yield from (f"### {', '.join(routings)}\n", *_keys(options))
    yield f"Without options: {', '.join(names[RoutingOptions])}.\n"


def _keys(section: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the description of a section, and a table of its keys."""
    text = inspect.getdoc(section) or ""
    meanings = {key: " ".join(said.split()).rstrip(".") for key, said in MEANING.findall(text)}
    if about := MEANING.sub("", text).strip():
        yield from (about, "")
    yield from ("| key | default | meaning |", "|---|---|---|")
    for field in msgspec.structs.fields(section):
        yield f"| `{field.name}` | {_default(field)} | {meanings[field.name]} |"
    yield ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default_factory()).decode()}`"
    if field.default is msgspec.NODEFAULT:
        return "(required)"
    if field.default is None:
        return "(none)"
    return f"`{msgspec.json.encode(field.default).decode()}`"


METRICS = """\
What `/metrics` of the [admin listener](../how-to/monitor-a-network.md) of a broker or a storage
tells, in the OpenMetrics format or the classic text format. A histogram `NAME` is asked for as
`NAME_bucket`, `NAME_sum` and `NAME_count`. Prometheus adds the labels `instance` and `job`.

What has to do with something that a broker does not have is left out: durable sessions and disk
without a directory in `[sessions]`, a certificate without `[tls]`, links without neighbours.
Counters start at 0 with the process.
"""


def metrics() -> str:
    """Return the page with every metric of brokers and storages."""
    lines = [NOTE, "# Metrics\n", METRICS, f"{inspect.getdoc(definitions) or ''}\n"]
    for title, own in {**definitions.SECTIONS, **of_storages.SECTIONS}.items():
        lines += [f"## {title}\n", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
        for metric in own:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
        lines.append("")
    shared = ", ".join(f"`{metric.name}`" for metric in of_storages.SHARED)
    lines.append(f"Storages also tell, as brokers do: {shared}.\n")
    names = ", ".join(f"`{name}`" for name in definitions.OF_PROCESS)
    lines += ["## The process\n", f"As usual in Prometheus, on Linux: {names}.\n"]
    return "\n".join(lines)


def python() -> str:
    """Return the page with every public name of the package."""
    return python_reference.page(NOTE)


PAGES = {
    "commands.md": commands,
    "lab-commands.md": laboratory_commands,
    "metrics.md": metrics,
    "network-file.md": network,
    "python.md": python,
    "trace.md": trace_vocabulary,
    "../mqtt.md": mqtt_statements.page,
}


def write(directory: Path) -> None:
    """Write the pages that are not what the code says."""
    for name in outdated(directory):
        (directory / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"{directory.name}/{name}")


def outdated(directory: Path) -> list[str]:
    """Return the pages that are missing, or not what the code says."""
    return [name for name, make in PAGES.items() if _text(directory / name) != make()]


def _text(page: Path) -> str | None:
    return page.read_text(encoding="utf-8") if page.exists() else None


def main() -> int:
    if sys.argv[1:] != ["--check"]:
        write(DOCS)
        return 0
    found = outdated(DOCS)
    print(f"out of date: {', '.join(found)}; run `make docs`" if found else "docs: up to date")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
