"""Reference pages made from the code, so that they cannot drift from it: `make docs`.

docs/commands.md (what each command's --help says), docs/trace.md (the trace vocabulary),
docs/network-file.md (every key of a network file), docs/python.md (what `import reefcast` offers).
`--check` writes nothing, and fails if one of them is not what the code says: `make check`, and a
test.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

import python_reference
from reefcast.cli.main import group
from reefcast.model import trace
from reefcast.network import file, sections

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- made by `make docs`; change the code, not this page -->\n"


def commands() -> str:
    """The help of every command."""
    with click.Context(group, info_name="reefcast", **group.context_settings) as root:
        sections = [f"## {name}\n\n```\n{text}\n```\n" for name, text in _helps(group, root)]
    return "\n".join([NOTE, "# Commands\n", *sections])


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
    """A table per kind of trace."""
    lines = [NOTE, "# The trace vocabulary\n", inspect.getdoc(trace) or "", ""]
    for kind, columns in trace.KINDS.items():
        lines += [f"## {kind}\n", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{c.name}` | {c.type} | {c.meaning} |" for c in columns]
        lines.append("")
    reasons = ", ".join(f"`{reason}`" for reason in trace.DISCARD_REASONS)
    lines.append(f"Reasons of a discard: {reasons}.\n")
    return "\n".join(lines)


SECTIONS = {
    "[network]": sections.NetworkSection,
    "[trace]": sections.TraceSection,
    "[limits]": sections.LimitsSection,
    "[overload]": sections.OverloadSection,
    "[[broker]]": sections.BrokerEntry,
    "[[link]]": sections.LinkEntry,
}


def network() -> str:
    """Every section of a network file with its keys and their defaults."""
    lines = [NOTE, "# The network file\n", inspect.getdoc(file) or "", ""]
    for title, section in SECTIONS.items():
        lines += [f"## {title}\n", inspect.getdoc(section) or "", ""]
        lines += ["| key | default |", "|---|---|"]
        lines += [
            f"| `{field.name}` | {_default(field)} |" for field in msgspec.structs.fields(section)
        ]
        lines.append("")
    return "\n".join(lines)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "(required)"
    if field.default is None:
        return "(none)"
    return f"`{msgspec.json.encode(field.default).decode()}`"


def python() -> str:
    """Every public name of the package."""
    return python_reference.page(NOTE)


PAGES = {
    "commands.md": commands,
    "network-file.md": network,
    "python.md": python,
    "trace.md": trace_vocabulary,
}


def write(directory: Path) -> None:
    """Writes those that are not what the code says."""
    for name in outdated(directory):
        (directory / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"{directory.name}/{name}")


def outdated(directory: Path) -> list[str]:
    """The pages that are missing, or not what the code says."""
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
