"""The environment variables that stand for options which are not given."""

from __future__ import annotations

import os
from collections.abc import Mapping

from reefcast.tls.files import TlsFiles

VARIABLES = {
    "authority": "REEFCAST_AUTHORITY",
    "certificate": "REEFCAST_CERTIFICATE",
    "key": "REEFCAST_KEY",
    "server_name": "REEFCAST_SERVER_NAME",
}
"""The variable of each option."""


def completed(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options, with what the environment says of those that are not given."""
    return {
        name: given.get(name) or os.environ.get(variable, "")
        for name, variable in VARIABLES.items()
    }


def own_files(given: TlsFiles) -> TlsFiles:
    """Return the certificate and the key that are given, or those that the environment names."""
    if given.certificate:
        return given
    said = completed({})
    return given._replace(certificate=said["certificate"], key=said["key"])
