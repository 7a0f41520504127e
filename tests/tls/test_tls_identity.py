"""Who a certificate is for."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.tls.identity import (
    Identity,
    broker_uri,
    identity_in,
    identity_of,
    peer_uri,
    storage_uri,
    subject_in,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def cert(*parts: tuple[str, str], names: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    return {"subject": tuple((part,) for part in parts), "subjectAltName": names}


def test_subjects_are_written_as_rfc_4514_does() -> None:
    assert subject_in(cert()) == ""
    whole = cert(("countryName", "DE"), ("organizationName", "Acme"), ("commonName", "billing"))
    assert subject_in(whole) == "CN=billing,O=Acme,C=DE"
    odd = cert(("organizationName", 'A, "B" + C'), ("commonName", " #x "))
    assert subject_in(odd) == r"CN=\ #x\ ,O=A\, \"B\" \+ C"
    several = {"subject": ((("commonName", "a"), ("userId", "b")),)}
    assert subject_in(several) == "CN=a+UID=b"
    assert subject_in(cert(("1.2.3", "x"))) == "1.2.3=x"


def test_hosts_are_compared_as_addresses() -> None:
    names = (
        ("IP Address", "0:0:0:0:0:0:0:1\n"),
        ("DNS", "North.Example"),
        ("URI", peer_uri("net")),
    )
    shown = identity_in(cert(names=names))
    assert shown.hosts == {"::1", "north.example"}
    assert shown.is_peer("net", "::1")
    assert not shown.is_peer("net", "127.0.0.1")
    assert not shown.is_peer("net2", "::1")


@given(*[NAMES] * 4)
def test_a_name_is_that_of_one_member_of_one_network(a: str, b: str, c: str, d: str) -> None:
    shown = Identity("", frozenset({broker_uri(a, b)}), frozenset())
    assert shown.is_broker(c, d) == ((a, b) == (c, d))
    assert shown.is_some_broker(c) == (a == c)
    assert not shown.is_some_storage(c)
    assert not shown.is_storage(c, d)
    assert storage_uri(a, b) != broker_uri(c, d)


def test_nobody() -> None:
    assert identity_of(None) is None
    context = ssl.create_default_context()
    unfinished = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a")
    with pytest.raises(ValueError, match="handshake"):
        identity_of(unfinished)
