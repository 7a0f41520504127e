"""Tokens: JWTs (RFC 7519), signed by keys that brokers have in a file.

Rules
-----
- The file is a JWK set or a single JWK (RFC 7517), a public key in PEM, or a secret (any other
  text, of `LEAST_KEY_BYTES` or more).
- The key says which algorithms fit it, never the token: RS and PS for RSA, one ES for each curve,
  EdDSA for Ed25519, HS for secrets. So `alg: none` fits no key, and a public key is never taken for
  a secret. A JWK that names its algorithm fits only that one.
- A token names its key (`kid`), or every key is tried that fits its algorithm.
- `sub` is the user, `exp` must be there, and the times count with `LEEWAY_S`. `iss` and `aud` are
  checked where the network file says what they must be.
- What a sentence says about a token quotes nothing of it but its user."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.security.files import LEAST_KEY_BYTES, read_file
from reefcast.security.users import check_name

if TYPE_CHECKING:
    from joserfc.jwk import Key

LEEWAY_S = 10
MOST_KEYS = 32
MOST_NESTED = 32
_OF_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_SECRET = ("HS256", "HS384", "HS512")
_KINDS = ("oct", "RSA", "EC", "OKP")
LEAST_RSA_BITS = 2048
UNREADABLE = (ValueError, TypeError, AttributeError, RecursionError)
"""What the libraries raise for what they cannot read, besides errors of their own."""


class TokenKey(NamedTuple):
    """A key that signs tokens. `name`: its `kid`, "" if it has none; `algorithms`: those that fit
    it."""

    name: str
    key: Key
    algorithms: tuple[str, ...]


class Verified(NamedTuple):
    """What a token proves. `expires_at_s`: Unix time, with the leeway; `key`: the digest of the key
    that signed it."""

    user: str
    claims: Mapping[str, Any]
    expires_at_s: float
    key: str


# --- keys -----------------------------------------------------------------------------------------


def read_token_keys(file: Path) -> tuple[TokenKey, ...]:
    """Return the keys in a file. Raises `ConfigurationError`, which names the file and quotes no
    key."""
    from joserfc.errors import JoseError

    content = read_file(file, "the keys of tokens")
    try:
        with warnings.catch_warnings():  # of short keys, which are refused here in any case
            warnings.simplefilter("ignore")
            keys = tuple(_as_token_key(key) for key in _parsed(content))
    except ConfigurationError as error:
        raise ConfigurationError(f"the keys of tokens {file}: {error}") from None
    except (JoseError, *UNREADABLE, KeyError) as error:
        raise ConfigurationError(
            f"the keys of tokens {file} cannot be read ({type(error).__name__}): give a JWK set, a "
            "JWK, a public key in PEM, or a secret"
        ) from None
    usable = tuple(key for key in keys if key.algorithms)
    if not 0 < len(usable) <= MOST_KEYS:
        raise ConfigurationError(
            f"the keys of tokens {file}: {len(usable)} keys can sign tokens, and there must be 1 "
            f"to {MOST_KEYS}"
        )
    return usable


def _parsed(content: bytes) -> Sequence[Key]:
    from joserfc.jwk import import_key

    text = content.strip()
    if text.startswith(b"{"):
        plain = json.loads(text)
        # Keys of kinds that nobody here knows are left out, as RFC 7517 asks (section 5).
        jwks = [each for each in plain.get("keys", [plain]) if each["kty"] in _KINDS]
        return [import_key(jwk) for jwk in jwks]
    if text.startswith(b"-----BEGIN"):
        return [_from_pem(text)]
    if len(text) < LEAST_KEY_BYTES:
        raise ConfigurationError(
            f"a secret must have {LEAST_KEY_BYTES} characters or more: make one with "
            "`openssl rand -hex 32`"
        )
    return [import_key(text, "oct")]


def _from_pem(text: bytes) -> Key:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from joserfc.jwk import import_key

    if b"PRIVATE" in text:
        raise ConfigurationError(
            "this is a private key, which brokers must not have: give them the public key"
        )
    try:
        key = load_pem_public_key(text)
    except UnsupportedAlgorithm as error:
        raise ValueError("an unknown kind of key") from error
    if isinstance(key, rsa.RSAPublicKey):
        return import_key(text, "RSA")
    if isinstance(key, ec.EllipticCurvePublicKey):
        return import_key(text, "EC")
    if isinstance(key, ed25519.Ed25519PublicKey):
        return import_key(text, "OKP")
    raise ConfigurationError("this public key is neither RSA nor EC nor Ed25519")


def _as_token_key(key: Key) -> TokenKey:
    named = key.get("alg")
    fit = _fitting(key) if key.get("use") in (None, "sig") else ()
    return TokenKey(
        str(key.get("kid") or ""), key, tuple(alg for alg in fit if named in (None, alg))
    )


def _fitting(key: Key) -> tuple[str, ...]:
    """Return the algorithms that fit this key; none if it is too short, or of no use here."""
    from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

    if isinstance(key, OctKey):
        if len(key.raw_value) < LEAST_KEY_BYTES:
            raise ConfigurationError(f"a secret has fewer than {LEAST_KEY_BYTES} bytes")
        return _SECRET
    if isinstance(key, RSAKey):
        if key.raw_value.key_size < LEAST_RSA_BITS:
            raise ConfigurationError(f"an RSA key has fewer than {LEAST_RSA_BITS} bits")
        return _RSA
    if isinstance(key, ECKey):
        found = _OF_CURVES.get(key.curve_name)
        return () if found is None else (found,)
    if isinstance(key, OKPKey) and key.curve_name == "Ed25519":
        return ("EdDSA", "Ed25519")
    return ()


# --- tokens ---------------------------------------------------------------------------------------


class Tokens:
    """Verifies tokens. `issuer`, `audience`: what they must name, "" if anything."""

    def __init__(self, keys: Sequence[TokenKey], issuer: str = "", audience: str = "") -> None:
        self.keys = tuple(keys)
        self._issuer = issuer
        self._audience = audience

    def verify(self, token: str, now_s: float) -> Verified:
        """Return what the token proves at this Unix time. Raises `ProtocolError` with a sentence
        for whoever showed it."""
        claims, key = self._signed_claims(token)
        _check_times(claims, now_s)
        if self._issuer and claims.get("iss") != self._issuer:
            raise ProtocolError(f"the token is not from the issuer {self._issuer!r}")
        if self._audience and self._audience not in _as_list(claims.get("aud")):
            raise ProtocolError(f"the token is not for the audience {self._audience!r}")
        user = _user_of(claims.get("sub"))
        _check_passable(claims)
        expires_at_s = float(claims["exp"]) + LEEWAY_S
        return Verified(user, MappingProxyType(claims), expires_at_s, key.key.thumbprint())

    def trusts(self, key: str) -> bool:
        """Return whether the key with this digest still signs tokens."""
        return any(each.key.thumbprint() == key for each in self.keys)

    def _signed_claims(self, token: str) -> tuple[dict[str, Any], TokenKey]:
        from joserfc import jws, jwt
        from joserfc.errors import BadSignatureError, JoseError

        try:
            header = jws.extract_compact(token.encode()).headers()
            algorithm, name = header.get("alg"), header.get("kid")
            fitting = [key for key in self.keys if algorithm in key.algorithms]
            named = [key for key in fitting if name is None or key.name in ("", name)]
            for key in named:
                registry = jws.JWSRegistry(algorithms=key.algorithms, strict_check_header=False)
                try:
                    return jwt.decode(token, key.key, registry=registry).claims, key
                except BadSignatureError:
                    continue
        except (JoseError, *UNREADABLE):
            raise ProtocolError("the token cannot be read: it is no signed JWT") from None
        if not fitting:
            raise ProtocolError("the token is signed by an algorithm that fits no key here")
        raise ProtocolError("the token is signed by none of the keys that the broker trusts")


def _check_passable(claims: Mapping[str, Any]) -> None:
    """Raise `ProtocolError` for claims that brokers could not tell each other (`Subject`)."""
    try:
        msgspec.msgpack.encode(claims)
        if _nests(claims) <= MOST_NESTED:
            return
    except (ValueError, OverflowError, RecursionError):
        pass
    raise ProtocolError(
        f"the token has claims that are nested more than {MOST_NESTED} deep, numbers of more than "
        "64 bits, or texts that are no Unicode"
    )


def _nests(value: object) -> int:
    """Return how deep lists and objects are nested."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(_nests, inner), default=0)
    return 0


def _user_of(subject: object) -> str:
    try:
        return check_name(subject if isinstance(subject, str) else "")
    except ConfigurationError as error:
        raise ProtocolError(f"the token's claim sub names no user: {error}") from None


def _check_times(claims: Mapping[str, Any], now_s: float) -> None:
    expires = _time(claims, "exp")
    if expires is None:
        raise ProtocolError("the token never expires: it must have the claim exp")
    if now_s >= expires + LEEWAY_S:
        raise ProtocolError("the token has expired")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and now_s < begins - LEEWAY_S:
            raise ProtocolError(f"the token is not valid yet: its claim {name} lies ahead")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise ProtocolError(f"the claim {name} of the token is no time")
    return float(value)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def roles_in(claims: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Return the roles that a claim names, as a list of texts or as one text with spaces between
    them. `path`: the claim's name; if there is none of that name, the names of nested claims with
    dots between them. Raises `ProtocolError` for a claim of another kind."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return ()
    roles = value.split() if isinstance(value, str) else value
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise ProtocolError(f"the claim {path} of the token is no list of roles")
    return tuple(roles)
