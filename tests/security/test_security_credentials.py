"""What a program shows: one thing, from its options or from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reefcast
from reefcast.errors import ConfigurationError, RefusedError
from reefcast.model import wire
from reefcast.model.wire import Role
from reefcast.protocol.proofs import Answer, Circumstances, Credentials, Method, Question
from reefcast.security import credentials
from reefcast.security.credentials import Nothing, credentials_of, credentials_of_environment

VARIABLES = {
    "user": credentials.USER,
    "password": credentials.PASSWORD,
    "password_file": credentials.PASSWORD_FILE,
    "token": credentials.TOKEN,
    "token_file": credentials.TOKEN_FILE,
    "network_key": credentials.NETWORK_KEY,
}
HELLO = wire.hello(Role.CLIENT, "c", "", "s")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Files with a password, a token and a key."""
    texts = {"password_file": "sesame\n", "token_file": " a.b.c\n", "network_key": "k" * 32}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return {name: str(tmp_path / name) for name in texts}


def shown(by: Credentials, private: bool = True, *methods: str) -> Answer:
    accepted = methods or ("password", "token", "key")
    question = Question("net", "b", accepted, bytes(32))
    answer = by.answer(question, Circumstances(HELLO, private, bytes(32)))
    assert isinstance(answer, Answer)
    return answer


RIGHT: list[tuple[dict[str, Any], Answer]] = [
    ({}, Answer(Method.NOTHING)),
    ({"user": "anna", "password": "x"}, Answer(Method.PASSWORD, "anna", "x")),
    ({"user": "anna", "password_file": "file"}, Answer(Method.PASSWORD, "anna", "sesame")),
    ({"token": "x.y.z"}, Answer(Method.TOKEN, secret="x.y.z")),
    ({"token_file": "file"}, Answer(Method.TOKEN, secret="a.b.c")),
]


@pytest.mark.parametrize("environment", [False, True])
@pytest.mark.parametrize(("given", "answer"), RIGHT, ids=range(len(RIGHT)))
def test_one_thing_is_shown(
    given: dict[str, str],
    answer: Answer,
    environment: bool,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {name: files[name] if value == "file" else value for name, value in given.items()}
    if environment:
        for name, value in options.items():
            monkeypatch.setenv(VARIABLES[name], value)
        options = {}
    assert shown(credentials_of(options)) == answer


WRONG: list[tuple[dict[str, str], str]] = [
    ({"user": "anna"}, "give only user: a user needs a password"),
    ({"password": "x"}, "give only password"),
    ({"password_file": "x"}, "give only password_file"),
    ({"user": "a", "password": "x", "password_file": "x"}, "several proofs"),
    ({"token": "x", "token_file": "x"}, "several proofs"),
    ({"user": "a", "password": "x", "token": "x"}, "several proofs"),
    ({"token": "x", "network_key": "x"}, "several proofs"),
    ({"network_key": "missing"}, "key missing cannot be read: No such file"),
]


@pytest.mark.parametrize("environment", [False, True])
@pytest.mark.parametrize(("given", "sentence"), WRONG, ids=range(len(WRONG)))
def test_half_a_proof_or_two_are_refused(
    given: dict[str, Any], sentence: str, environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment:
        for name, value in given.items():
            monkeypatch.setenv(VARIABLES[name], value)
        given = {}
    with pytest.raises(ConfigurationError, match=sentence):
        reefcast.connect(**given)


def test_what_the_program_says_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(credentials.TOKEN, "x.y.z")
    assert shown(credentials_of({"user": "a", "password": "x"})).method is Method.PASSWORD
    assert shown(credentials_of({"name": "c"})).method is Method.TOKEN
    assert not isinstance(credentials_of_environment(), Nothing)


def test_files_are_read_each_time(files: dict[str, str]) -> None:
    by = credentials_of({"token_file": files["token_file"]})
    assert shown(by).secret == "a.b.c"
    Path(files["token_file"]).write_text("d.e.f")
    assert shown(by).secret == "d.e.f"
    Path(files["token_file"]).write_text("")
    with pytest.raises(ConfigurationError, match=r"the token file .* is empty"):
        shown(by)


def test_secrets_go_only_where_nobody_else_reads_and_keys_go_nowhere(
    files: dict[str, str],
) -> None:
    for options in ({"user": "a", "password": "sesame"}, {"token": "a.b.c"}):
        with pytest.raises(RefusedError, match="is not sent to broker 'b'") as error:
            shown(credentials_of(options), False)
        assert "sesame" not in str(error.value) and "a.b.c" not in str(error.value)
    answer = shown(credentials_of({"network_key": files["network_key"]}), False)
    assert answer.method is Method.KEY and not answer.secret
    assert "k" * 32 not in repr(answer) and len(answer.mac) == 32


def test_what_the_broker_does_not_accept_is_not_sent() -> None:
    with pytest.raises(RefusedError, match=r"accepts a token as a proof .* has a password"):
        shown(credentials_of({"user": "a", "password": "x"}), True, "token", "palm")
    with pytest.raises(RefusedError, match="accepts nothing as a proof"):
        shown(credentials_of({"token": "x"}), True, "palm")


def test_a_short_key_is_refused_and_one_that_others_can_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    file.write_text("k" * 31)
    with pytest.raises(ConfigurationError, match="31 characters, and must have 32 or more"):
        credentials_of({"network_key": str(file)})
    file.write_text("k" * 32)
    file.chmod(0o644)
    credentials_of({"network_key": str(file)})
    assert "others can read the network's key" in caplog.text and "kkk" not in caplog.text


def test_an_answer_shows_no_secret_in_logs() -> None:
    assert (
        repr(Answer(Method.PASSWORD, "anna", "sesame"))
        == "Answer(<Method.PASSWORD: 'password'>, 'anna')"
    )
