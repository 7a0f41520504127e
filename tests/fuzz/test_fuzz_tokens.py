"""Tokens that a client may show: what a trusted key has not signed, by an algorithm of that key,
proves nothing; what is proved can be told to other brokers."""

from __future__ import annotations

import hmac
import json
import random
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from fuzzing import OFTEN_AND_SOAKED, changed_bytes, changed_text, changed_tree, knock
from reefcast.errors import ProtocolError
from reefcast.model.grants import Grants, Template, UserGrant
from reefcast.model.subjects import Subject
from reefcast.network.sections import SecuritySection
from reefcast.protocol.proofs import MOST_SECRET_CHARS
from reefcast.security.tokens import Tokens, read_token_keys, roles_in


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


NOW_S = 1_800_000_000.0
SECRET, STRANGE = OctKey.import_key("t" * 40), OctKey.import_key("s" * 40)
RSA, EC, ED = (
    RSAKey.generate_key(2048, {"kid": "rsa"}),
    ECKey.generate_key("P-256"),
    OKPKey.generate_key("Ed25519"),
)
TRUSTED: tuple[tuple[Key, str], ...] = (
    *((SECRET, "HS256"), (SECRET, "HS512"), (RSA, "RS256"), (RSA, "PS256")),
    *((EC, "ES256"), (ED, "EdDSA")),
)
"""Keys, and an algorithm that fits."""
STRANGERS: tuple[tuple[Key, str], ...] = (
    (STRANGE, "HS256"),
    (ECKey.generate_key("P-256"), "ES256"),
    (OKPKey.generate_key("Ed25519"), "EdDSA"),
)
PUBLIC = tuple(key.as_pem(private=False).strip() for key in (RSA, EC, ED))
"""Which everybody has, and could take for the secret of HS256: the oldest forgery of all."""
CLAIMS: dict[str, Any] = {
    "sub": "anna",
    "exp": NOW_S + 60,
    "nbf": NOW_S - 60,
    "iat": NOW_S - 60,
    "iss": "me",
    "aud": ["us", "others"],
    "roles": ["fx-desk"],
    "desk": "fx",
    "levels": [1, 2.5, True, None, {"deep": {"deeper": ["x"]}}],
}
ODD = ("\ud800", 2**64, -(2**63) - 1, 1e999, nested(30), nested(40), nested(700), {"\udfff": 1})
HEADERS = ("none", "None", "HS256", "HS512", "RS256", "PS256", "ES256", "EdDSA", "dir", "", None, 5)
WORDS = (
    "{",
    "}",
    "[" * 500,
    "]",
    '"',
    ":",
    ",",
    '{"a":' * 300,
    "1e999",
    "NaN",
    "\\ud800",
    "9" * 90,
)
GRANTS = Grants(
    [
        UserGrant(
            name="fx-desk",
            publish=Template("desk = ${claims.desk} AND owner = ${user}"),
            subscribe=Template("level IN (${claims.levels}) OR deep = ${claims.levels.deep}"),
        )
    ]
)


class Shown(NamedTuple):
    """A token; `honest`: whether a trusted key has signed it, by an algorithm that fits."""

    token: str
    honest: bool


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def by_name(algorithm: str) -> Any:
    return jws.JWSRegistry(algorithms=[algorithm]).get_alg(algorithm)


def signature(head: str, key: Key | bytes, algorithm: str) -> str:
    """A signature by a key, or by a text in the place of a secret."""
    if isinstance(key, bytes):
        return encoded(hmac.digest(key, head.encode(), "sha256"))
    return encoded(by_name(algorithm).sign(head.encode(), key))


def text_of(tree: object, rng: random.Random) -> str:
    """A tree as JSON, often as good as it is."""
    try:
        text = json.dumps(tree)
    except (TypeError, ValueError):
        text = "{}"
    return changed_text(text, rng, WORDS) if rng.random() < 0.15 else text


def made(rng: random.Random) -> Shown:
    claims: Any = CLAIMS
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        claims = changed_tree(claims, rng)
    if rng.random() < 0.1 and isinstance(claims, dict):
        claims = claims | {rng.choice(("odd", "desk", "roles", "levels")): rng.choice(ODD)}
    key: Key | bytes
    key, algorithm = rng.choice(TRUSTED)
    said: Any = algorithm
    forged = rng.random() < 0.3
    if forged and rng.random() < 0.5:
        key, algorithm = rng.choice(STRANGERS)
        said = algorithm
    elif forged and not isinstance(key, OctKey):
        key, algorithm, said = rng.choice(PUBLIC), "HS256", rng.choice(("HS256", algorithm))
    elif forged:
        said = rng.choice([each for each in HEADERS if each not in ("HS256", "HS512")])
    header: Any = {"alg": said} | rng.choice(({}, {"kid": "rsa"}, {"typ": "JWT"}))
    if rng.random() < 0.1:
        header = changed_tree(header, rng)
    head = f"{encoded(text_of(header, rng).encode(errors='replace'))}."
    head += encoded(text_of(claims, rng).encode(errors="replace"))
    token = f"{head}.{signature(head, key, algorithm)}"
    if rng.random() < 0.15:
        token = changed_text(token, rng, (".", "=", "-", "_", "%", "é", "\ud800", "A" * 5000))
    elif rng.random() < 0.05:
        token = changed_bytes(token.encode(), rng).decode(errors="replace")
    # What was changed behind the last dot changes nothing of what the key has signed.
    return Shown(token[:MOST_SECRET_CHARS], not forged and token.startswith(f"{head}."))


class Door:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.accepted = 0

    def __call__(self, shown: Shown) -> None:
        try:
            verified = self._tokens.verify(shown.token, NOW_S)
            granted = roles_in(verified.claims, SecuritySection().roles_claim)
        except ProtocolError as error:
            assert str(error).isprintable() and len(str(error)) < 1000
            return
        assert shown.honest
        self.accepted += 1
        subject = Subject(verified.user, "token", granted, dict(verified.claims))
        told = msgspec.msgpack.decode(msgspec.msgpack.encode(subject), type=Subject)
        assert repr(told) == repr(subject)
        GRANTS.of(told)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    keys = [SECRET.as_dict(private=True), *(key.as_dict(private=False) for key in (RSA, EC, ED))]
    file.write_text(json.dumps({"keys": keys}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of EdDSA, whose other name is newer
        yield Door(Tokens(read_token_keys(file)))


@OFTEN_AND_SOAKED
def test_tokens(door: Door, count: int) -> None:
    before = door.accepted
    knock(door, made, count)
    assert door.accepted > before
