"""The batches of a streaming query, as its checkpoint records them.

Spark writes the time of a batch there before it runs the batch, and reads it from there when it
runs the batch again: so the time is the same, unlike everything else that a sink is told."""

from __future__ import annotations

import json
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from reefcast.errors import ConfigurationError

OFFSETS = "offsets"
SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes that Arrow calls otherwise."""


class Batch(NamedTuple):
    number: int
    time_us: int


def last_batch(checkpoint: str) -> Batch:
    """Return the batch that runs, or is about to. Raises `ConfigurationError` if the checkpoint
    cannot be read."""
    from pyarrow import ArrowException, fs

    try:
        files, path = _opened(checkpoint)
        infos = files.get_file_info(fs.FileSelector(f"{path.rstrip('/')}/{OFFSETS}"))
        last = max((info for info in infos if info.base_name.isdigit()), key=_number)
        with files.open_input_stream(last.path) as stream:
            written = json.loads(stream.read().decode().split("\n")[1])
        return Batch(_number(last), int(written["batchTimestampMs"]) * 1000)
    except (OSError, ValueError, LookupError, ArrowException) as error:
        raise ConfigurationError(
            f"the times of batches cannot be read from the checkpoint {checkpoint} ({error}): they "
            "make the times of events, so that a batch that is repeated publishes the same; give "
            "each row a column timestamp, or the query a checkpoint that Python can read"
        ) from error


def _number(info: object) -> int:
    return int(info.base_name)  # type: ignore[attr-defined]  # Arrow comes without types


def _opened(checkpoint: str):  # type: ignore[no-untyped-def]  # a file system of Arrow, and a path
    from pyarrow import fs

    parts = urlparse(checkpoint)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), unquote(parts.path) if parts.scheme else checkpoint
    scheme = SCHEMES.get(parts.scheme, parts.scheme)
    return fs.FileSystem.from_uri(parts._replace(scheme=scheme).geturl())
