"""The files that say who may come in, damaged as an operator may find them: users, keys of tokens.
They are refused with a sentence, or read; what is read can be used."""

from __future__ import annotations

import json
import random
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from fuzzing import OFTEN_AND_SOAKED, changed_bytes, changed_text, changed_tree, knock
from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.security.passwords import is_password
from reefcast.security.tokens import Tokens, read_token_keys
from reefcast.security.users import change_users, read_users
from secured import CHEAP, PASSWORD, cheap_hash, write_users

NOW_S = 1_800_000_000.0
SECRET, RSA = OctKey.import_key("t" * 40), RSAKey.generate_key(2048, {"kid": "rsa"})
EC, ED = ECKey.generate_key("P-256"), OKPKey.generate_key("Ed25519", {"use": "sig"})
KEYS: tuple[tuple[Key, str], ...] = (
    (SECRET, "HS256"),
    (RSA, "RS256"),
    (EC, "ES256"),
    (ED, "EdDSA"),
)
JSON = (
    "{",
    "}",
    "[",
    "]",
    '"',
    ",",
    ":",
    "[" * 2000,
    '{"keys":' * 500,
    "null",
    "9" * 5000,
    "\\ud8",
)
TOML = ("[[user]]", "[user]", "=", '"', "'''", "[", "]", "[" * 2000, "$", ",", "m=", "1979-05-27")
PEM = ("-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----", "\n", "=", "A" * 64, "PRIVATE")


class File(NamedTuple):
    content: bytes
    suffix: str = ""


# --- keys of tokens -------------------------------------------------------------------------------


def jwk_of(key: Key) -> dict[str, Any]:
    return dict(key.as_dict(private=isinstance(key, OctKey)))


SETS: tuple[Any, ...] = (
    {"keys": [jwk_of(key) for key, _ in KEYS]},
    {"keys": [{"kty": "quantum", "x": "1"}, jwk_of(EC)]},
    *(jwk_of(key) for key, _ in KEYS),
)
PEMS = tuple(key.as_pem(private=False) for key in (RSA, EC, ED))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of EdDSA, whose other name is newer
    TOKENS = tuple(
        jwt.encode({"alg": name}, {"sub": "anna", "exp": NOW_S + 60}, key, [name])
        for key, name in KEYS
    )


def made_keys(rng: random.Random) -> bytes:
    what = rng.random()
    if what < 0.2:
        return changed_text(rng.choice(PEMS).decode(), rng, PEM).encode(errors="replace")
    if what < 0.3:
        content = rng.choice((*PEMS, b"t" * 40, json.dumps(SETS[0]).encode()))
        return changed_bytes(content, rng)
    if what < 0.5:
        return changed_text(json.dumps(rng.choice(SETS)), rng, JSON).encode(errors="replace")
    tree = rng.choice(SETS)
    for _ in range(rng.choice((1, 1, 2, 4))):
        tree = changed_tree(tree, rng)
    try:
        return json.dumps(tree).encode(errors="replace")
    except (TypeError, ValueError):
        return b"{}"


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@OFTEN_AND_SOAKED
def test_keys_of_tokens(tmp_path: Path, count: int) -> None:
    file = tmp_path / "keys"
    proved = set()

    def door(content: bytes) -> None:
        file.write_bytes(content)
        try:
            tokens = Tokens(read_token_keys(file))
        except ConfigurationError as error:
            assert str(file) in str(error) and len(str(error)) < 1000
            return
        for token in TOKENS:
            try:
                proved.add(tokens.trusts(tokens.verify(token, NOW_S).key))
            except ProtocolError as error:
                assert len(str(error)) < 1000

    knock(door, made_keys, count)
    assert proved == {True}


# --- users ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("users") / "users.toml"
    write_users(file, ("anna", ["fx-desk", "b"]), ("ännä", []), ('o"tto', ["administrator"]))
    return file.read_text()


@OFTEN_AND_SOAKED
def test_users(tmp_path: Path, users: str, count: int) -> None:
    file = tmp_path / "users.toml"
    words = (*TOML, cheap_hash(PASSWORD), "$argon2id$", 'name = "$network"', "m=4294967295", "t=0")
    right = set()

    def made(rng: random.Random) -> bytes:
        if rng.random() < 0.2:
            return changed_bytes(users.encode(), rng)
        return changed_text(users, rng, words).encode(errors="replace")

    def door(content: bytes) -> None:
        file.write_bytes(content)
        try:
            found = read_users(file)
        except ConfigurationError as error:
            hashes = re.findall(rb'hash = "([^"\\n]{20,})"', content)
            assert str(file) in str(error)
            assert not any(each in str(error).encode() for each in hashes)
            return
        if found.by_name:
            change_users(file, lambda entries: entries)
            assert read_users(file).by_name == found.by_name
        for name in (*found.by_name, "nobody"):
            hashed = found.hash_of(name)
            if f"m={CHEAP.memory_kib},t={CHEAP.passes}," in hashed:  # others cost what they cost
                right.add(name in found.by_name and is_password(PASSWORD, hashed))

    knock(door, made, count)
    assert right == {True, False}
