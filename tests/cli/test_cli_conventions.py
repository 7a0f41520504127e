"""All commands read alike: the same thing has the same name, type, default and wording."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from inspect import cleandoc

import click
import pytest

from reefcast.cli import exit_codes
from reefcast.cli.main import COMMANDS, group
from reefcast.errors import InternalError, LocalError, PeerError, ProtocolError, RefusedError

Path = tuple[str, ...]

DIFFERENT = {
    ("--out", "type"): "a file or a directory, as the command says",
    ("--out", "default"): "what is written differs",
    ("--tree", "default"): "the demo has one",
    ("--clusters", "default"): "the demo has one",
    ("--rate", "default"): "what each can carry",
    ("--events", "default"): "a demo is to be quick, a benchmark takes all",
    ("--subscriptions", "default"): "a burst needs thousands",
    ("--publications", "default"): "a benchmark takes more than a simulation",
    ("--publications", "least"): "a simulation without any shows the control messages alone",
    ("--subscriptions", "least"): "a simulation without any shows what is forwarded for nobody",
    ("--routing", "default"): "a simulation takes the network file's",
    ("--directory", "default"): "new storages of a plan have a place, one that is started says it",
    ("--wait", "default"): "to catch up takes longer than to move a link",
    ("--scale", "default"): "the paper's takes a benchmark seconds, and a sweep hours",
}
"""Where the same name may differ, in what, and why."""


def leaves(
    command: click.Command, path: Path = ("reefcast",)
) -> Iterator[tuple[Path, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, (*path, name))


ALL = list(leaves(group))
IDS = [" ".join(path[1:]) for path, _ in ALL]


def options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def first_sentence(command: click.Command) -> str:
    return command.get_short_help_str(limit=1000)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_command_says(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None and first_sentence(command) == COMMANDS[name]


@pytest.mark.parametrize(("path", "command"), ALL, ids=IDS)
def test_help_begins_with_a_sentence_and_an_example_that_parses(
    path: Path, command: click.Command
) -> None:
    help = cleandoc(command.help or "")
    examples = [line.strip() for line in help.splitlines() if line.startswith("    reefcast ")]
    assert examples, "no example"
    for example in examples:
        assert len(example) <= 72, "would be broken on a terminal"
        words = tuple(shlex.split(example))
        assert words[: len(path)] == path
        command.make_parser(click.Context(command)).parse_args(list(words[len(path) :]))


@pytest.mark.parametrize(("path", "command"), ALL, ids=IDS)
def test_options_read_alike(path: Path, command: click.Command) -> None:
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


@pytest.mark.parametrize(("path", "command"), ALL, ids=IDS)
def test_json_is_there_and_stands_last(path: Path, command: click.Command) -> None:
    names = [option.opts[0] for option in options_of(command)]
    if path == ("reefcast", "experiment", "report"):
        assert "--json" not in names  # it prints the page's place, and nothing else
        return
    assert names[-1] == "--json"
    assert (options_of(command)[-1].help or "").startswith("Print JSON: ")


def test_one_name_is_one_thing() -> None:
    seen: dict[tuple[str, str], set[object]] = defaultdict(set)
    for _, command in ALL:
        context = click.Context(command)
        for option in options_of(command):
            name = option.opts[0]
            seen[name, "type"].add(option.make_metavar(context))
            seen[name, "least"].add(getattr(option.type, "min", None))
            if not option.is_flag:
                seen[name, "default"].add(repr(option.to_info_dict()["default"]))
    several = {key for key, values in seen.items() if len(values) > 1}
    assert several == set(DIFFERENT)


def test_every_command_takes_the_network_file_under_the_same_name() -> None:
    groups = ("network", "broker", "storage", "simulate")
    takes = [command.params for path, command in ALL if path[1] in groups]
    for params in takes:
        first = next(each for each in params if isinstance(each, click.Argument))
        assert (first.name, first.human_readable_name) == ("network", "NETWORK")
    assert len(takes) == 8


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LocalError(""), 2),
        (RefusedError(""), 2),
        (PeerError(""), 5),
        (ProtocolError(""), 5),
        (InternalError(""), 4),
    ],
)
def test_the_exit_code_says_whose_fault_it_was(error: Exception, code: int) -> None:
    assert exit_codes.code_of(error) == code
    assert f" {code} " in exit_codes.EXPLAINED
