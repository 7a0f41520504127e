"""Hashes of passwords: argon2id. Hashing takes a tenth of a second and 64 MB on purpose, so it is
never done in an event loop's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MOST_PASSWORD_BYTES = 1024


class Cost(NamedTuple):
    """What a hash costs. By default as RFC 9106, section 4, recommends where memory is limited:
    `passes` over `memory_kib` KiB, in `lanes` threads."""

    passes: int = 3
    memory_kib: int = 65_536
    lanes: int = 4


DEAREST = Cost(64, 2**21, 64)
"""The dearest hash that is taken: 2 GiB. A damaged one could take more than the machine has, or
hours, and so would the hash of nobody (`Users.decoy`)."""


def _hasher(cost: Cost) -> PasswordHasher:
    from argon2 import PasswordHasher as Made

    return Made(time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=cost.lanes)


def hash_password(password: str, cost: Cost = Cost()) -> str:  # noqa: B008 (it is immutable)
    """Return the argon2id hash of a password, with a new salt, as text that says its cost."""
    return _hasher(cost).hash(password)


def cost_of(hashed: str) -> Cost:
    """Return the cost of a hash. Raises `ValueError` for text that is no argon2id hash, or one that
    costs more than any here."""
    from argon2 import Type, extract_parameters
    from argon2.exceptions import InvalidHashError

    try:
        found = extract_parameters(hashed)
    except InvalidHashError as error:
        raise ValueError("it is no argon2 hash") from error
    if found.type is not Type.ID:
        raise ValueError("it is an argon2 hash of another kind than argon2id")
    cost = Cost(found.time_cost, found.memory_cost, found.parallelism)
    if not (hashed.isascii() and all(1 <= a <= b for a, b in zip(cost, DEAREST, strict=True))):
        raise ValueError(f"its cost is outside of 1 to {DEAREST}, or it has signs that no hash has")
    return cost


def is_password(password: str, hashed: str) -> bool:
    """Return whether this is the password of the hash. Takes as long either way."""
    from argon2.exceptions import VerificationError

    try:
        return _hasher(Cost()).verify(hashed, password)
    except VerificationError:
        return False
