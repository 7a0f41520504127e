"""Tokens: only what a key of the broker has signed, by an algorithm that fits the key, counts."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.security.tokens import LEEWAY_S, TokenKey, Tokens, read_token_keys, roles_in
from secured import TOKEN_SECRET

NOW_S = 1_800_000_000.0
SECRET = OctKey.import_key(TOKEN_SECRET)
RSA = RSAKey.generate_key(2048)
EC, ED = ECKey.generate_key("P-256"), OKPKey.generate_key("Ed25519")


def claims(**more: Any) -> dict[str, Any]:
    said = {"sub": "anna", "exp": NOW_S + 60, **more}
    return {name: value for name, value in said.items() if value is not None}


def signed(key: Any, algorithm: str, header: dict[str, Any] | None = None, **more: Any) -> str:
    return jwt.encode({"alg": algorithm, **(header or {})}, claims(**more), key, [algorithm])


def tokens_of(folder: Path, content: str | bytes, **more: str) -> Tokens:
    file = folder / "keys"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return Tokens(read_token_keys(file), **more)


def public(key: Any) -> bytes:
    return bytes(key.as_pem(private=False))


def with_secret(folder: Path, **more: str) -> Tokens:
    return tokens_of(folder, TOKEN_SECRET + "\n", **more)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_secret_signs_tokens(tmp_path: Path, algorithm: str) -> None:
    verified = with_secret(tmp_path).verify(signed(SECRET, algorithm, desk="fx"), NOW_S)
    assert verified.user == "anna" and verified.claims["desk"] == "fx"
    assert verified.expires_at_s == NOW_S + 60 + LEEWAY_S


PAIRS = [
    (RSA, "RS256"),
    (RSA, "RS384"),
    (RSA, "RS512"),
    (RSA, "PS256"),
    (RSA, "PS384"),
    (RSA, "PS512"),
    (EC, "ES256"),
    (ED, "Ed25519"),
    (ED, "EdDSA"),
]


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize(("key", "algorithm"), PAIRS, ids=[name for _, name in PAIRS])
def test_a_public_key_verifies_what_its_private_key_has_signed(
    tmp_path: Path, key: Any, algorithm: str
) -> None:
    """As PEM, as a JWK, and in a set of them."""
    token = signed(key, algorithm)
    jwk = key.as_dict(private=False)
    for content in (public(key), json.dumps(jwk), json.dumps({"keys": [jwk]})):
        assert tokens_of(tmp_path, content).verify(token, NOW_S).user == "anna"


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_alg_none_is_refused_whatever_the_key(tmp_path: Path) -> None:
    for content in (TOKEN_SECRET, public(RSA), public(EC), public(ED)):
        tokens = tokens_of(tmp_path, content)
        for algorithm in ("none", "None", "NONE", "nOnE", "", None, 0, [], {}, ["HS256"]):
            for tail in ("", "x", part("x")):
                forged = f"{part({'alg': algorithm})}.{part(claims())}.{tail}"
                with pytest.raises(ProtocolError, match="the token"):
                    tokens.verify(forged, NOW_S)


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["RSA", "EC", "OKP"])
def test_a_public_key_is_never_taken_for_a_secret(tmp_path: Path, key: Any) -> None:
    """The oldest forgery of all: the public key, which everybody has, as the secret of HS256."""
    tokens = tokens_of(tmp_path, public(key))
    for secret in (public(key), public(key).strip()):
        head = f"{part({'alg': 'HS256'})}.{part(claims())}"
        mac = hmac.new(secret, head.encode(), hashlib.sha256).digest()
        forged = f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        with pytest.raises(ProtocolError, match="by an algorithm that fits no key"):
            tokens.verify(forged, NOW_S)


def test_an_algorithm_that_a_key_names_is_its_only_one(tmp_path: Path) -> None:
    jwk = {**RSA.as_dict(private=False), "alg": "PS256"}
    tokens = tokens_of(tmp_path, json.dumps(jwk))
    tokens.verify(signed(RSA, "PS256"), NOW_S)
    with pytest.raises(ProtocolError, match="by an algorithm that fits no key"):
        tokens.verify(signed(RSA, "RS256"), NOW_S)


def test_the_key_is_found_by_its_name_or_by_trying(tmp_path: Path) -> None:
    others = [OctKey.generate_key(256, {"kid": f"k{n}"}) for n in range(3)]
    content = json.dumps(KeySet(others).as_dict(private=True))
    tokens = tokens_of(tmp_path, content)
    for n, key in enumerate(others):
        for header in ({"kid": f"k{n}"}, {}):
            assert tokens.verify(signed(key, "HS256", header), NOW_S).user == "anna"
        with pytest.raises(ProtocolError, match="by none of the keys"):
            tokens.verify(signed(key, "HS256", {"kid": f"k{(n + 1) % 3}"}), NOW_S)
    with pytest.raises(ProtocolError, match="by none of the keys"):
        tokens.verify(signed(SECRET, "HS256"), NOW_S)


def test_keys_of_no_use_are_left_out(tmp_path: Path) -> None:
    keys = [
        {**EC.as_dict(private=False), "use": "enc"},
        {"kty": "quantum", "x": "1"},
        ECKey.generate_key("secp256k1").as_dict(private=False),
        ED.as_dict(private=False),
    ]
    tokens = tokens_of(tmp_path, json.dumps({"keys": keys}))
    assert len(tokens.keys) == 1
    with pytest.raises(ProtocolError, match="by an algorithm that fits no key"):
        tokens.verify(signed(EC, "ES256"), NOW_S)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about just this
    SHORT_RSA = public(RSAKey.generate_key(1024))
BAD_KEYS: list[tuple[bytes, str]] = [
    (b"short", "a secret must have 32 characters or more"),
    (b"", "a secret must have 32 characters or more"),
    (b"{", "cannot be read"),
    (b'{"keys": []}', "0 keys can sign tokens"),
    (b'{"keys": [{"kty": "oct", "k": "c2hvcnQ"}]}', "fewer than 32 bytes"),
    (b'{"keys": 5}', "cannot be read"),
    (b'{"kty": "RSA"}', "cannot be read"),
    (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "cannot be read"),
    (bytes(RSA.as_pem(private=True)), "this is a private key, which brokers must not have"),
    (SHORT_RSA, "fewer than 2048 bits"),
]


@pytest.mark.parametrize(("content", "sentence"), BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_keys_that_serve_nobody_are_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as error:
        tokens_of(tmp_path, content)
    assert "keys" in str(error.value) and "BEGIN" not in str(error.value)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"exp": None}, "never expires"),
    ({"exp": NOW_S - LEEWAY_S}, "has expired"),
    ({"exp": "soon"}, "claim exp of the token is no time"),
    ({"exp": float("nan")}, "claim exp of the token is no time"),
    ({"exp": float("inf")}, "claim exp of the token is no time"),
    ({"exp": True}, "claim exp of the token is no time"),
    ({"exp": 10**400}, "claim exp of the token is no time"),
    ({"nbf": NOW_S + LEEWAY_S + 1}, "its claim nbf lies ahead"),
    ({"iat": NOW_S + LEEWAY_S + 1}, "its claim iat lies ahead"),
    ({"iss": None}, "not from the issuer 'me'"),
    ({"iss": ["me"]}, "not from the issuer 'me'"),
    ({"aud": None}, "not for the audience 'us'"),
    ({"aud": "others"}, "not for the audience 'us'"),
    ({"aud": ["others"]}, "not for the audience 'us'"),
    ({"sub": None}, "names no user"),
    ({"sub": 5}, "names no user"),
    ({"sub": "x" * 201}, "names no user"),
    ({"sub": "a\nb"}, "names no user"),
    ({"sub": "$network"}, "names no user"),
    ({"sub": "anonymous"}, "names no user"),
    ({"desk": 2**64}, "numbers of more than 64 bits"),
    ({"desk": functools.reduce(lambda inner, _: [inner], range(40), [])}, "more than 32 deep"),
]


@pytest.mark.parametrize(("said", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_claims_that_do_not_hold_are_refused(
    tmp_path: Path, said: dict[str, Any], sentence: str
) -> None:
    tokens = with_secret(tmp_path, issuer="me", audience="us")
    right: dict[str, Any] = {"iss": "me", "aud": ["others", "us"]}
    tokens.verify(signed(SECRET, "HS256", **right), NOW_S)
    with pytest.raises(ProtocolError, match=sentence):
        tokens.verify(signed(SECRET, "HS256", **(right | said)), NOW_S)


def test_clocks_may_differ_a_little(tmp_path: Path) -> None:
    tokens = with_secret(tmp_path)
    for said in ({"exp": NOW_S - LEEWAY_S + 1}, {"nbf": NOW_S + LEEWAY_S}, {"iat": NOW_S + 5}):
        tokens.verify(signed(SECRET, "HS256", **said), NOW_S)


@given(st.text(max_size=80) | st.from_regex(r"[A-Za-z0-9_-]{0,30}\.[A-Za-z0-9_-]{0,30}\.?[\w-]*"))
def test_what_is_no_token_is_refused_with_a_sentence(text: str) -> None:
    tokens = Tokens([TokenKey("", SECRET, ("HS256",))])
    with pytest.raises(ProtocolError, match="the token"):
        tokens.verify(text, NOW_S)


GOOD = signed(SECRET, "HS256")


@given(st.integers(0, len(GOOD) - 1), st.sampled_from("AZaz09-_."))
def test_a_changed_token_is_refused(at: int, character: str) -> None:
    changed = GOOD[:at] + character + GOOD[at + 1 :]
    tokens = Tokens([TokenKey("", SECRET, ("HS256",))])
    last = at == len(GOOD) - 1  # two bits of it say nothing
    if changed != GOOD and not last:
        with pytest.raises(ProtocolError, match="the token"):
            tokens.verify(changed, NOW_S)


def test_a_critical_header_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    head = f"{part({'alg': 'HS256', 'crit': ['x'], 'x': 1})}.{part(claims())}"
    mac = hmac.new(TOKEN_SECRET.encode(), head.encode(), hashlib.sha256).digest()
    token = f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    with pytest.raises(ProtocolError, match="cannot be read"):
        with_secret(tmp_path).verify(token, NOW_S)


def test_roles_are_a_list_or_a_text_and_may_be_nested() -> None:
    assert roles_in({"roles": ["a", "b"]}, "roles") == ("a", "b")
    assert roles_in({"scope": "a b"}, "scope") == ("a", "b")
    assert roles_in({"realm": {"roles": ["a"]}}, "realm.roles") == ("a",)
    assert roles_in({"https://x.y/roles": ["a"]}, "https://x.y/roles") == ("a",)
    assert roles_in({}, "realm.roles") == roles_in({"realm": 5}, "realm.roles") == ()
    for wrong in (5, [5], {"a": 1}):
        with pytest.raises(ProtocolError, match="no list of roles"):
            roles_in({"roles": wrong}, "roles")
