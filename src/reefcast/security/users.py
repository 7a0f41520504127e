"""The users file: the users who have a password, and the roles of users.

    [[user]]
    name = "anna"
    hash = "$argon2id$..."   # absent: no password, only another proof
    roles = ["fx-desk"]

`reefcast user` writes it. Brokers read it again when it changes."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.model.wire import MAX_NAME_CHARS
from reefcast.network.checks import Section, check_keys
from reefcast.network.rewriting import alone_in, replace_text
from reefcast.network.toml_text import toml_lines
from reefcast.protocol.principal import ANONYMOUS
from reefcast.security.files import read_file
from reefcast.security.passwords import Cost, cost_of
from reefcast.sessions.messages import EVERYBODY


class UserEntry(Section):
    """A user: its name, the hash of its password ("" if it has none), and the names of its
    `[[role]]`s."""

    name: str
    hash: str = ""
    roles: list[str] = msgspec.field(default_factory=list)


class _UsersFile(Section):
    user: list[UserEntry] = msgspec.field(default_factory=list)


class Users(NamedTuple):
    """The users of a file, by name. `decoy`: a hash that no password has. It costs as much to check
    as the dearest of the others, so that a user who is not there takes as long as one who is."""

    by_name: Mapping[str, UserEntry]
    decoy: str

    def hash_of(self, name: str) -> str:
        """Return the hash to check a password with, whether or not there is such a user."""
        entry = self.by_name.get(name)
        return self.decoy if entry is None or not entry.hash else entry.hash

    def roles_of(self, name: str) -> tuple[str, ...]:
        entry = self.by_name.get(name)
        return () if entry is None else tuple(entry.roles)


NO_USERS = Users({}, "")


def check_name(name: str) -> str:
    """Return the name of a user. Raises `ConfigurationError` for one that no user may have."""
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
        raise ConfigurationError(
            f"a user's name has 1 to {MAX_NAME_CHARS} printable characters, and no space at its "
            f"ends: {name!r}"
        )
    if name in (ANONYMOUS, EVERYBODY) or name.startswith("$"):
        raise ConfigurationError(
            f"no user can be called {name!r}: the names {ANONYMOUS} and {EVERYBODY}, and those "
            "that begin with $, stand for clients that prove nothing, all users, and the network"
        )
    return name


def parse_users(text: bytes) -> list[UserEntry]:
    """Return the users of a users file. Raises `ConfigurationError` that says what is wrong, and
    quotes no hash."""
    try:
        plain = msgspec.toml.decode(text)
        check_keys(plain, _UsersFile, "the users file")
        for each in plain.get("user", []):
            check_keys(each, UserEntry, "[[user]]")
        users = msgspec.convert(plain, _UsersFile).user
    except (msgspec.DecodeError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(f"the users file cannot be read: {error}") from None
    seen = set[str]()
    for entry in users:
        if check_name(entry.name) in seen:
            raise ConfigurationError(f"user {entry.name!r} is twice in the users file")
        seen.add(entry.name)
        _check_hash(entry)
    return users


def _check_hash(entry: UserEntry) -> None:
    try:
        if entry.hash:
            cost_of(entry.hash)
    except ValueError as error:
        raise ConfigurationError(
            f"the hash of user {entry.name!r} is wrong: {error}; write it with `reefcast user add`"
        ) from None


def read_users(file: Path) -> Users:
    """Read a users file. Raises `ConfigurationError`, which names the file."""
    try:
        entries = parse_users(read_file(file, "the users file"))
    except ConfigurationError as error:
        raise _naming(file, error) from None
    costs = [cost_of(entry.hash) for entry in entries if entry.hash]
    dearest = max(costs, key=lambda cost: cost.passes * cost.memory_kib, default=Cost())
    return Users({entry.name: entry for entry in entries}, _decoy(dearest))


def _naming(file: Path, error: ConfigurationError) -> ConfigurationError:
    text = str(error)
    return ConfigurationError(text if str(file) in text else f"{file}: {text}")


def _decoy(cost: Cost) -> str:
    """Return a hash of this cost that nobody has computed: a random one."""
    salt, hashed = (b64encode(os.urandom(size)).decode().rstrip("=") for size in (16, 32))
    passes, memory_kib, lanes = cost
    return f"$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${hashed}"


# --- writing --------------------------------------------------------------------------------------


def change_users(file: Path, change: Callable[[list[UserEntry]], list[UserEntry]]) -> None:
    """Replace the users of `file` by what `change` makes of them; a file that is not there has
    none. Brokers meanwhile see the old file or the new one, and other writers wait. Only the owner
    can read a new file.

    Raises `ConfigurationError` if the file is wrong, `OSError` if it cannot be written, and what
    `change` raises; the file then stays as it was."""
    file = file.resolve()
    with alone_in(file.parent):
        if not file.exists():
            file.touch(mode=0o600)
        try:
            text = file.read_bytes()
            changed = "".join(f"{line}\n" for line in _lines(change(parse_users(text))))
            if changed.encode() != text:
                replace_text(file, changed)
        finally:
            if not file.stat().st_size:
                file.unlink()


def _lines(users: list[UserEntry]) -> Iterator[str]:
    for entry in sorted(users, key=lambda each: each.name):
        yield "[[user]]"
        yield from toml_lines({"name": entry.name, "hash": entry.hash, "roles": entry.roles})
        yield ""
