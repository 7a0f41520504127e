"""All commands read alike: the same thing has the same name, type, default and wording."""

from __future__ import annotations

import click
import pytest

from conventions import (
    Path,
    check_example,
    check_group,
    check_json,
    check_options,
    differing,
    first_sentence,
    groups,
    leaves,
    sentences,
)
from reefcast.cli import exit_codes
from reefcast.cli.main import SECTIONS, group
from reefcast.errors import InternalError, LocalError, PeerError, ProtocolError, RefusedError

DIFFERENT = {
    ("--rate", "default"): "what each can carry",
    ("--routing", "default"): "a simulation takes the network file's",
    ("--wait", "default"): "to catch up takes longer than to move a link",
    ("--timeout", "default"): "a subscription may go on for ever, and who asks wants an answer",
    ("--drop", "type"): "of what is in custody it is one of two choices",
    ("--directory", "default"): "new storages of a plan have a place, one that is started says it",
}
"""Where options of the same name may differ, in what, and why."""
ALL = list(leaves(group, ("reefcast",)))
IDS = [" ".join(path[1:]) for path, _ in ALL]
GROUPS = list(groups(group, ("reefcast",)))


COMMANDS = sentences(SECTIONS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_command_says(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None and first_sentence(command) == COMMANDS[name]


@pytest.mark.parametrize(("path", "command"), ALL, ids=IDS)
def test_help_begins_with_a_sentence_and_an_example_that_parses(
    path: Path, command: click.Command
) -> None:
    check_example(path, command)


@pytest.mark.parametrize(("path", "command"), GROUPS, ids=[" ".join(path) for path, _ in GROUPS])
def test_help_of_a_group_has_an_example_and_whole_sentences(
    path: Path, command: click.Group
) -> None:
    check_group(path, command)


@pytest.mark.parametrize(("path", "command"), ALL, ids=IDS)
def test_options_read_alike(path: Path, command: click.Command) -> None:
    check_options(command)


@pytest.mark.parametrize(("path", "command"), ALL, ids=IDS)
def test_json_is_there_and_stands_last(path: Path, command: click.Command) -> None:
    check_json(command)


def test_one_name_is_one_thing() -> None:
    assert differing(command for _, command in ALL) == set(DIFFERENT)


def test_every_command_takes_the_network_file_under_the_same_name() -> None:
    """`storage` is an exception, because it takes topics as well."""
    groups = ("network", "broker", "simulate", "top", "follow")
    takes = [command.params for path, command in ALL if path[1] in groups]
    for params in takes:
        first = next(each for each in params if isinstance(each, click.Argument))
        assert (first.name, first.human_readable_name.strip("[]")) == ("network", "NETWORK")
    assert len(takes) == 14


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
