"""`reefcast user`: passwords come from the terminal, a file or standard input, and leave as
hashes."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from reefcast.cli.main import group
from reefcast.errors import ConfigurationError
from reefcast.security import passwords
from reefcast.security.passwords import Cost, cost_of, is_password
from reefcast.security.users import read_users
from secured import CHEAP


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with hashes that cost little."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(passwords, "hash_password", lambda password: hash_cheaply(password, CHEAP))
    return tmp_path


hash_cheaply = passwords.hash_password


def user(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(group, ["user", *words], input=typed)


def test_a_password_is_asked_for_twice_and_not_shown(folder: Path) -> None:
    done = user("add", "anna", "--role", "fx-desk", "--role", "bonds", typed="sesame\nsesame\n")
    assert done.exit_code == 0 and done.stdout == "anna: fx-desk, bonds\n"
    assert "sesame" not in done.output
    users = read_users(folder / "users.toml")
    assert is_password("sesame", users.hash_of("anna"))
    assert users.roles_of("anna") == ("fx-desk", "bonds")
    assert "sesame" not in (folder / "users.toml").read_text()
    assert user("add", "otto", typed="one\nother\n").exit_code == 1
    assert user("list").stdout == "anna: fx-desk, bonds\n"


@pytest.mark.parametrize("source", ["file", "-"])
def test_a_password_may_come_from_a_file_or_standard_input(folder: Path, source: str) -> None:
    (folder / "file").write_text("sesame\n")
    done = user("add", "anna", "--password-file", source, "--json", typed="sesame\n")
    assert json.loads(done.stdout) == {"user": "anna", "roles": [], "password": True}
    assert is_password("sesame", read_users(folder / "users.toml").hash_of("anna"))


def test_users_are_changed_and_removed(folder: Path) -> None:
    for name in ("anna", "otto"):
        assert user("add", name, "--no-password", "--users", "others.toml").exit_code == 0
    again = user("add", "anna", "--no-password", "--users", "others.toml")
    assert isinstance(again.exception, ConfigurationError)
    assert "has a user 'anna' already: give --replace" in str(again.exception)
    changed = ("add", "anna", "--replace", "--role", "fx", "--no-password")
    assert user(*changed, "--users", "others.toml").stdout == "anna: fx\n"
    said = "anna: fx  (no password)\notto: no role  (no password)\n"
    assert user("list", "--users", "others.toml").stdout == said
    assert user("remove", "anna", "--users", "others.toml").stdout == "anna is no user any more\n"
    told = json.loads(user("list", "--users", "others.toml", "--json").stdout)
    assert told == [{"user": "otto", "roles": [], "password": False}]
    gone = user("remove", "anna", "--users", "others.toml")
    assert "has no user 'anna'" in str(gone.exception)
    assert not (folder / "users.toml").exists()


def test_what_cannot_be_is_refused() -> None:
    for words, typed in ((("add", "$a"), None), (("add", "a", "--password-file", "-"), "\n")):
        assert isinstance(user(*words, typed=typed).exception, ConfigurationError)
    both = user("add", "a", "--no-password", "--password-file", "-")
    assert "exclude each other" in both.output
    assert isinstance(user("list").exception, ConfigurationError)


def test_hashes_cost_what_the_standard_recommends() -> None:
    """RFC 9106, section 4: the second choice, for where memory is limited."""
    assert cost_of(hash_cheaply("x")) == Cost() == (3, 65_536, 4)


def test_no_command_takes_a_secret_as_a_word() -> None:
    """Others on the machine can read the words of a command."""

    def options(command: click.Command) -> list[click.Parameter]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            below = (command.get_command(context, each) for each in command.list_commands(context))
            return [each for one in below if one is not None for each in options(one)]
        return command.params

    named = {
        option
        for each in options(group)
        for option in each.opts
        if any(word in option for word in ("password", "token", "secret", "key"))
    }
    assert named == {"--password-file", "--no-password", "--network-key", "--key"}  # files
