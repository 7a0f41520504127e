"""The laboratory's commands read as those of the product do (`tests/conventions.py`)."""

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
    options_of,
    sentences,
)
from reefcast.cli.main import OF_THE_LABORATORY
from reefcast.cli.main import group as product
from reefcast_lab.cli.main import SECTIONS, group

DIFFERENT = {
    ("--out", "type"): "a file or a directory, as the command says",
    ("--out", "default"): "what is written differs",
    ("--tree", "default"): "the demo has one",
    ("--clusters", "default"): "the demo has one",
    ("--rate", "default"): "what each can carry",
    ("--events", "default"): "a demo is to be quick, a benchmark takes all",
    ("--events", "type"): "what a session shows is bounded by a message",
    ("--events", "least"): "a session may be shown without any",
    ("--drop", "type"): "of what is in custody it is one of two choices",
    ("--seeds", "default"): "an experiment repeats, a torture looks for what is rare",
    ("--backlog", "default"): "stores take a million in the time in which brokers take a tenth",
    ("--backlog", "least"): "brokers may be measured without one",
    ("--timeout", "default"): "a subscription may go on for ever, and who asks wants an answer",
    ("--subscriptions", "default"): "a burst needs thousands",
    ("--publications", "default"): "a benchmark takes more than a simulation",
    ("--publications", "least"): "a simulation without any shows the control messages alone",
    ("--subscriptions", "least"): "a simulation without any shows what is forwarded for nobody",
    ("--routing", "default"): "a simulation takes the network file's",
    ("--directory", "default"): "new storages of a plan have a place, one that is started says it",
    ("--wait", "default"): "to catch up takes longer than to move a link",
    ("--scale", "default"): "the paper's takes a benchmark seconds, and a sweep hours",
}
"""Where options of the same name may differ, in what, and why; of both packages together."""
ALL = list(leaves(group, ("reefcast-lab",)))
IDS = [" ".join(path[1:]) for path, _ in ALL]
GROUPS = list(groups(group, ("reefcast-lab",)))


def test_the_product_knows_which_commands_are_here() -> None:
    assert sorted((*OF_THE_LABORATORY, "dataset")) == sorted(COMMANDS)  # both have one of this name


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
    if path == ("reefcast-lab", "experiment", "report"):
        # It prints the page's place, and nothing else.
        assert "--json" not in {option.opts[0] for option in options_of(command)}
    else:
        check_json(command)


def test_one_name_is_one_thing() -> None:
    commands = [command for _, command in (*ALL, *leaves(product, ("reefcast",)))]
    assert differing(commands) == set(DIFFERENT)
