"""Networks whose brokers ask who connects, with cheap hashes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import OctKey

from live_networks import path_network
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SecuritySection
from reefcast.security.passwords import Cost, hash_password
from reefcast.security.users import UserEntry, change_users
from reefcast.timing import now_us

CHEAP = Cost(1, 8, 1)
PASSWORD, OTHER_PASSWORD = "correct horse battery staple", "another horse altogether"
KEY = "k" * 20 + "0123456789abcdef"
TOKEN_SECRET = "t" * 20 + "0123456789abcdef"
ISSUER, AUDIENCE = "https://issuer.example", "reefcast"


@cache
def cheap_hash(password: str) -> str:
    return hash_password(password, CHEAP)


def write_users(file: Path, *users: tuple[str, Sequence[str]], password: str = PASSWORD) -> None:
    """Makes these the users of the file, with one password."""
    entries = [
        UserEntry(name=name, hash=cheap_hash(password), roles=list(roles)) for name, roles in users
    ]
    change_users(file, lambda before: entries)


def token(user: str = "anna", seconds: float = 3600.0, **claims: Any) -> str:
    """A token that expires so many seconds from now."""
    said = {
        "sub": user,
        "exp": now_us() / 1e6 + seconds,
        "iss": ISSUER,
        "aud": AUDIENCE,
        "roles": ["fx-desk"],
        **claims,
    }
    kept = {name: value for name, value in said.items() if value is not None}
    return jwt.encode({"alg": "HS256"}, kept, OctKey.import_key(TOKEN_SECRET), ["HS256"])


def secured(folder: Path, count: int = 1, **section: Any) -> NetworkFile:
    """A path of brokers with users anna (fx-desk) and otto (administrator), tokens and a key."""
    write_users(folder / "users.toml", ("anna", ["fx-desk"]), ("otto", ["administrator"]))
    (folder / "tokens.key").write_text(TOKEN_SECRET)
    (folder / "network.key").write_text(KEY)
    (folder / "network.key").chmod(0o600)
    network = path_network(count)
    network.security = SecuritySection(
        **{
            "users": str(folder / "users.toml"),
            "tokens": str(folder / "tokens.key"),
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "key": str(folder / "network.key"),
            "audit": str(folder / "audit"),
            **section,
        }
    )
    return network.validate()
