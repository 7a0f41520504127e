"""What a program shows to brokers to prove who it is: a password, a token, the network's key, or
nothing.

Secrets come from files, from the environment or from the program itself, and never from a command
line, which others on the machine can read. Files and callables are asked again at each connection,
and when a broker asks again because a token expires."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from pathlib import Path
from typing import Any

from reefcast.errors import ConfigurationError, RefusedError
from reefcast.protocol.proofs import (
    Answer,
    Circumstances,
    Credentials,
    Method,
    Question,
    answer_with_key,
)
from reefcast.security.files import read_key, read_secret

TokenSource = Callable[[], str | Awaitable[str]]
USER, PASSWORD = "REEFCAST_USER", "REEFCAST_PASSWORD"
PASSWORD_FILE, TOKEN = "REEFCAST_PASSWORD_FILE", "REEFCAST_TOKEN"
TOKEN_FILE, NETWORK_KEY = "REEFCAST_TOKEN_FILE", "REEFCAST_NETWORK_KEY_FILE"
_WHAT = {
    Method.PASSWORD: "a password",
    Method.TOKEN: "a token",
    Method.KEY: "the network's key",
    Method.NOTHING: "nothing",
}


class Nothing(Credentials):
    """Shows nothing: an anonymous client."""

    def answer(self, question: Question, circumstances: Circumstances) -> Answer:
        return Answer(Method.NOTHING)


class Password(Credentials):
    """Shows a user and its password, which `secret` returns."""

    def __init__(self, user: str, secret: Callable[[], str]) -> None:
        self._user = user
        self._secret = secret

    def answer(self, question: Question, circumstances: Circumstances) -> Answer:
        _check(Method.PASSWORD, question, circumstances)
        return Answer(Method.PASSWORD, user=self._user, secret=self._secret())


class Token(Credentials):
    """Shows a token, which `source` returns, at once or later."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    def answer(
        self, question: Question, circumstances: Circumstances
    ) -> Answer | Awaitable[Answer]:
        _check(Method.TOKEN, question, circumstances)
        token = self._source()
        return _later(token) if isawaitable(token) else Answer(Method.TOKEN, secret=token)


async def _later(token: Awaitable[str]) -> Answer:
    return Answer(Method.TOKEN, secret=await token)


class NetworkKey(Credentials):
    """Shows that this program has the network's key, and demands the same of the broker."""

    def __init__(self, key: bytes) -> None:
        self.key = self._key = key

    def answer(self, question: Question, circumstances: Circumstances) -> Answer:
        _check(Method.KEY, question, circumstances)
        return answer_with_key(self._key, question, circumstances.hello, circumstances.nonce)


def _check(method: Method, question: Question, circumstances: Circumstances) -> None:
    """Raise `RefusedError` if this must not be shown here, or would be of no use."""
    if method is not Method.KEY and not circumstances.is_private:
        raise RefusedError(
            f"{_WHAT[method]} is not sent to broker {question.broker!r}: others can read this "
            "connection, which is neither TLS nor on this machine; use reefcast+tls://"
        )
    if method not in question.methods:
        known = ", ".join(_WHAT[Method(each)] for each in question.methods if each in set(Method))
        raise RefusedError(
            f"broker {question.broker!r} accepts {known or 'nothing'} as a proof of who somebody "
            f"is, and this end has {_WHAT[method]}"
        )


def credentials_of(options: Mapping[str, Any]) -> Credentials:
    """Return the credentials that these options of a client name, or else the environment (see
    `Options`). Raises `ConfigurationError` if they name more than one, or half of one."""
    names = ("user", "password", "password_file", "token", "token_file", "network_key")
    given = {name: options[name] for name in names if options.get(name)}
    return _made(given, "options") if given else credentials_of_environment()


def credentials_of_environment() -> Credentials:
    """Return the credentials that the environment names. Raises `ConfigurationError`."""
    variables = {
        "user": USER,
        "password": PASSWORD,
        "password_file": PASSWORD_FILE,
        "token": TOKEN,
        "token_file": TOKEN_FILE,
        "network_key": NETWORK_KEY,
    }
    found = {name: os.environ.get(variable, "") for name, variable in variables.items()}
    return _made({name: value for name, value in found.items() if value}, "environment variables")


def _made(given: dict[str, Any], where: str) -> Credentials:
    kinds = [
        kind
        for kind, names in (
            (Method.PASSWORD, ("user", "password", "password_file")),
            (Method.TOKEN, ("token", "token_file")),
            (Method.KEY, ("network_key",)),
        )
        if given.keys() & set(names)
    ]
    pairs = ({"password", "password_file"}, {"token", "token_file"})
    if len(kinds) > 1 or any(pair <= given.keys() for pair in pairs):
        raise ConfigurationError(
            f"the {where} give several proofs of who this program is ({', '.join(sorted(given))}): "
            "give one"
        )
    if kinds == [Method.PASSWORD]:
        return _password(given, where)
    if kinds == [Method.TOKEN]:
        return Token(_token(given))
    if kinds == [Method.KEY]:
        return NetworkKey(read_key(Path(given["network_key"])))
    return Nothing()


def _password(given: dict[str, Any], where: str) -> Credentials:
    if "user" not in given or len(given) < 2:
        raise ConfigurationError(
            f"the {where} give only {', '.join(given)}: a user needs a password or a file with it, "
            "and the other way round"
        )
    if "password" in given:
        return Password(given["user"], lambda: str(given["password"]))
    file = Path(given["password_file"])
    return Password(given["user"], lambda: read_secret(file, "the password file"))


def _token(given: dict[str, Any]) -> TokenSource:
    if "token" not in given:
        file = Path(given["token_file"])
        return lambda: read_secret(file, "the token file")
    token = given["token"]
    return token if callable(token) else lambda: str(token)
