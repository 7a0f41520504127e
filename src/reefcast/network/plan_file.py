"""A plan of storages as a TOML file: a `[[storage]]` for each, with its broker and the topics that
it keeps."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from reefcast.errors import ConfigurationError


class PlannedStorage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """broker: where it is; topics: those that it keeps, sorted."""

    broker: str
    topics: tuple[str, ...]


class _PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    storage: tuple[PlannedStorage, ...]


def dump_plan(storages: Iterable[PlannedStorage], remarks: Iterable[str] = ()) -> str:
    """Return the text of a plan file, headed by `remarks`."""
    lines = [f"# {remark}" for remark in remarks]
    for storage in storages:
        topics = ", ".join(map(_text, storage.topics))
        lines += ["", "[[storage]]", f"broker = {_text(storage.broker)}", f"topics = [{topics}]"]
    return "\n".join(lines).lstrip("\n") + "\n"


def _text(value: str) -> str:
    """Return a string as TOML: strings of JSON are strings of TOML, except for a DEL, which must be
    escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def load_plan(file: Path, brokers: Iterable[str]) -> tuple[PlannedStorage, ...]:
    """Load the storages of a plan for an overlay of these brokers.

    Raises `ConfigurationError`, naming the file, for a file that is not a plan, for an unknown
    broker or one with two storages, and for a topic that comes twice at one storage."""
    try:
        plan = msgspec.toml.decode(file.read_bytes(), type=_PlanFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{file}: is not a plan of storages: {error}") from error
    left = set(brokers)
    for storage in plan.storage:
        if storage.broker not in left:
            raise ConfigurationError(
                f"{file}: storage at {storage.broker!r}: there is no such broker, or the plan has "
                "another storage there"
            )
        left.remove(storage.broker)
        if len(set(storage.topics)) < len(storage.topics):
            raise ConfigurationError(f"{file}: storage at {storage.broker!r}: a topic comes twice")
    return plan.storage
