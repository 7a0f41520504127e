"""Subjects of certificates as text, as RFC 4514 writes them: `CN=billing,O=Acme`."""

from __future__ import annotations

import re

from reefcast.errors import ConfigurationError

Subject = frozenset[tuple[str, str]]
"""The attributes of a subject, each with its short name."""
_SEPARATOR = re.compile(r"(?<!\\)[,+]")
_ESCAPED = re.compile(r"\\(.)")


def subject_of(text: str) -> Subject:
    """Return the subject that a text describes; the order of its parts does not count. Raises
    `ConfigurationError`."""
    pairs = [part.strip().partition("=") for part in _SEPARATOR.split(text)]
    if not all(sign and name.strip() and value.strip() for name, sign, value in pairs):
        raise ConfigurationError(
            f"the subject {text!r} of a certificate cannot be read: write it as "
            '"CN=billing, O=Acme"'
        )
    return frozenset((name.strip(), _ESCAPED.sub(r"\1", value.strip())) for name, _, value in pairs)
