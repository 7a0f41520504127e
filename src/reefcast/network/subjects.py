"""Subjects of certificates as text: `CN=billing, O=Reef`."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.errors import ConfigurationError

Subject = frozenset[tuple[str, str]]
"""The attributes of a subject, by their long names."""
_LONG = {
    "CN": "commonName",
    "O": "organizationName",
    "OU": "organizationalUnitName",
    "C": "countryName",
    "ST": "stateOrProvinceName",
    "L": "localityName",
    "DC": "domainComponent",
    "UID": "userId",
}


def subject_of(text: str) -> Subject:
    """Return the subject that a text describes. A backslash before a comma makes it part of a
    value. Raises `ConfigurationError`."""
    parts = text.replace("\\,", "\0").split(",")
    pairs = [part.replace("\0", ",").partition("=") for part in parts]
    if not all(sign and name.strip() and value.strip() for name, sign, value in pairs):
        raise ConfigurationError(
            f"the subject {text!r} of a certificate cannot be read: write it as "
            '"CN=billing, O=Reef"'
        )
    return frozenset(
        (_LONG.get(name.strip(), name.strip()), value.strip()) for name, _, value in pairs
    )


def subject_in(certificate: Iterable[Iterable[tuple[str, str]]]) -> Subject:
    """Return the subject of a certificate, as `ssl.SSLSocket.getpeercert` tells it."""
    return frozenset(pair for pairs in certificate for pair in pairs)
