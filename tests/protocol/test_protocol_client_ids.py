"""Ids of clients: each follows from one secret, and does not tell it."""

from __future__ import annotations

import base64
import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from reefcast.protocol.client_ids import DIGITS, SECRET_BYTES, Identity, identity_of, is_own
from reefcast.timing import Machine

SECRETS = st.text(min_size=1, max_size=40)
NAMES = st.text(max_size=20)


def twin(id: str, secret: str) -> bool:
    """Whether an id follows from a secret, said in another way."""
    found = re.fullmatch(r"(.*)-([A-Za-z0-9_-]{14})", id, re.DOTALL)
    if found is None:
        return False
    digest = hashlib.sha256(b"client " + found[1].encode() + b"/" + secret.encode()).digest()
    return base64.b64encode(digest, b"-_").startswith(found[2].encode())


@given(NAMES, SECRETS)
def test_an_id_follows_from_its_secret(name: str, secret: str) -> None:
    identity = identity_of(name, secret)
    assert is_own(identity) and twin(*identity)
    assert identity == identity_of(name, secret), "the same secret, another id"
    assert identity.id.startswith(f"{name}-") and len(identity.id) == len(name) + 1 + DIGITS


@given(NAMES, SECRETS, NAMES, SECRETS)
def test_no_other_secret_serves_for_it(name: str, secret: str, of: str, other: str) -> None:
    mine = identity_of(name, secret)
    assert is_own(Identity(mine.id, other)) is (other == secret)
    theirs = identity_of(of, other)
    assert (theirs.id == mine.id) is ((of, other) == (name, secret)), (
        "two programs have one id, though the names or the secrets differ"
    )


@given(NAMES, SECRETS, st.integers(0, 40), st.characters(codec="utf-8"))
def test_no_other_id_follows_from_it(name: str, secret: str, at: int, letter: str) -> None:
    id = identity_of(name, secret).id
    at %= len(id)
    for changed in (id[:at] + letter + id[at + 1 :], id[:at] + id[at + 1 :], letter + id):
        assert is_own(Identity(changed, secret)) is (changed == id)


@given(st.text(max_size=40), st.text(max_size=20))
def test_whatever_is_shown_is_judged_as_its_twin_judges(id: str, secret: str) -> None:
    assert is_own(Identity(id, secret)) is twin(id, secret)
    assert not is_own(Identity(id)), "an id without a secret is anybody's"


def test_an_id_and_what_is_printed_of_it_do_not_tell_the_secret() -> None:
    identity = identity_of("shop", secret := Machine().token(SECRET_BYTES))
    assert secret not in repr(identity) and secret not in identity.id
    assert not any(secret[at : at + 8] in identity.id for at in range(len(secret) - 8))
