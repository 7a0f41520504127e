"""What all commands have in common, those of the laboratory too: the same thing has the same name,
type, default and wording."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc

import click

Path = tuple[str, ...]


def leaves(command: click.Command, path: Path) -> Iterator[tuple[Path, click.Command]]:
    """Yield the commands that are no groups; `path`: the words that call the first one."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, (*path, name))


def groups(command: click.Command, path: Path) -> Iterator[tuple[Path, click.Group]]:
    """Yield the commands that have sub-commands; `path`: the words that call the first one."""
    if isinstance(command, click.Group):
        yield path, command
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from groups(child, (*path, name))


def options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def first_sentence(command: click.Command) -> str:
    return command.get_short_help_str(limit=1000)


def sentences(sections: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return what help says of each sub-command, by name."""
    return {name: said for section in sections.values() for name, said in section.items()}


def check_example(path: Path, command: click.Command) -> None:
    """Check that help has an example, and that it parses."""
    examples = _examples(path, command)
    for words in examples:
        command.make_parser(click.Context(command)).parse_args(list(words[len(path) :]))


def check_group(path: Path, group: click.Group) -> None:
    """Check that help has an example of one of the sub-commands, and shows the whole first
    sentence of each."""
    by_path = dict(leaves(group, path))
    for words in _examples(path, group):
        leaf = max((each for each in by_path if each == words[: len(each)]), key=len)
        arguments = list(words[len(leaf) :])
        by_path[leaf].make_parser(click.Context(by_path[leaf])).parse_args(arguments)
    help = " ".join(group.get_help(click.Context(group)).split())
    for name in group.list_commands(click.Context(group)):
        child = group.get_command(click.Context(group), name)
        assert child is not None and f" {name} {first_sentence(child)}" in help


def _examples(path: Path, command: click.Command) -> list[Path]:
    """Return the examples of the help, in words."""
    help = cleandoc(command.help or "")
    examples = [line.strip() for line in help.splitlines() if line.startswith(f"    {path[0]} ")]
    assert examples, "no example"
    assert all(len(each) <= 76 for each in examples), "it would be wrapped on a terminal"
    found = [tuple(shlex.split(each)) for each in examples]
    assert all(words[: len(path)] == path for words in found)
    return found


def check_options(command: click.Command) -> None:
    """Check that options read alike."""
    context = click.Context(command)
    assert first_sentence(command).endswith(".")
    for option in options_of(command):
        help = option.help or ""
        assert help.endswith("."), option.name
        assert not option.multiple or help.endswith("; may be repeated."), option.name
        assert "RANGE" not in option.make_metavar(context), option.name
    for argument in command.params:
        if isinstance(argument, click.Argument):
            assert argument.make_metavar(context).strip("[].").split("]")[0].isupper()


def check_json(command: click.Command) -> None:
    """Check that there is `--json`, as the last option."""
    last = options_of(command)[-1]
    assert last.opts[0] == "--json"
    assert (last.help or "").startswith("Print JSON: ")


def differing(commands: Iterable[click.Command]) -> set[tuple[str, str]]:
    """Return the options of one name that differ between commands, and in what."""
    seen: dict[tuple[str, str], set[object]] = defaultdict(set)
    for command in commands:
        context = click.Context(command)
        for option in options_of(command):
            name = option.opts[0]
            seen[name, "type"].add(option.make_metavar(context))
            seen[name, "least"].add(getattr(option.type, "min", None))
            if not option.is_flag:
                seen[name, "default"].add(repr(option.to_info_dict()["default"]))
    return {key for key, values in seen.items() if len(values) > 1}
