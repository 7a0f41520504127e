"""The users file: who is in it, what is refused, and that writers get along."""

from __future__ import annotations

import re
import stat
import threading
from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.security.passwords import cost_of, is_password
from reefcast.security.users import UserEntry, change_users, parse_users, read_users
from secured import CHEAP, PASSWORD, cheap_hash, write_users


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    write_users(file, ('o"tto', ["a", 'b"c']), ("ännä", []))
    users = read_users(file)
    assert list(users.by_name) == ['o"tto', "ännä"]
    assert users.roles_of('o"tto') == ("a", 'b"c')
    assert users.roles_of("nobody") == ()
    assert is_password(PASSWORD, users.hash_of("ännä"))
    assert not is_password(PASSWORD + " ", users.hash_of("ännä"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_who_is_not_there_costs_as_much_as_the_dearest(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    write_users(file, ("anna", []))
    users = read_users(file)
    assert cost_of(users.hash_of("nobody")) == cost_of(users.hash_of("anna")) == CHEAP
    assert not is_password(PASSWORD, users.hash_of("nobody"))
    assert users.decoy != read_users(file).decoy
    change_users(file, lambda users: [*users, UserEntry(name="cert")])
    assert not is_password("", read_users(file).hash_of("cert"))


WRONG = [
    ('[[user]]\nname = ""', "1 to 200 printable characters"),
    ('[[user]]\nname = " a"', "no space at its ends"),
    ('[[user]]\nname = "$a"', "no user can be called"),
    ('[[user]]\nname = "anonymous"', "no user can be called"),
    ('[[user]]\nname = "*"', "no user can be called"),
    ('[[user]]\nname = "a"\n[[user]]\nname = "a"', "'a' is twice"),
    ('[[user]]\nname = "a"\nhash = "secret stuff"', "hash of user 'a' is wrong: it is no argon2"),
    ('[[user]]\nname = "a"\npassword = "secret stuff"', "[[user]] has no key 'password'"),
    ('[user]\nname = "a"', "cannot be read"),
    ("user = 5", "cannot be read"),
    ('[[user]]\nname = "a"\nroles = "b"', "cannot be read"),
    ("[[usr]]", "has no key 'usr'"),
    ("not toml", "cannot be read"),
    ("\xff", "cannot be read"),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_is_refused_with_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "users.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=re.escape(sentence)) as error:
        read_users(file)
    assert str(file) in str(error.value) and "secret stuff" not in str(error.value)


def test_a_hash_of_another_kind_is_refused() -> None:
    other = cheap_hash(PASSWORD).replace("argon2id", "argon2i")
    with pytest.raises(ConfigurationError, match="another kind than argon2id"):
        parse_users(f'[[user]]\nname = "a"\nhash = "{other}"'.encode())


@pytest.mark.parametrize("cost", ["m=4294967295,t=1,p=1", "m=8,t=0,p=1", "m=8,t=99999,p=1"])
def test_a_hash_of_absurd_cost_is_refused(cost: str) -> None:
    """It would take hours, or all memory, and so would that of nobody."""
    other = cheap_hash(PASSWORD).replace("m=8,t=1,p=1", cost)
    with pytest.raises(ConfigurationError, match="'a' is wrong: its cost is outside of"):
        parse_users(f'[[user]]\nname = "a"\nhash = "{other}"'.encode())


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"users\.toml cannot be read: No such file"):
        read_users(tmp_path / "users.toml")


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"

    def fail(users: list[UserEntry]) -> list[UserEntry]:
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError):
        change_users(file, fail)
    assert not list(tmp_path.iterdir())
    write_users(file, ("anna", []))
    before = file.read_bytes()
    with pytest.raises(ConfigurationError):
        change_users(file, fail)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"

    def add(name: str) -> None:
        change_users(file, lambda users: [*users, UserEntry(name=name)])

    threads = [threading.Thread(target=add, args=(f"user{n}",)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_users(file).by_name) == 20
