"""The rules that the `[[storage]]` entries of a network file must satisfy."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

from reefcast.errors import ConfigurationError
from reefcast.model.patterns import check_topic_pattern
from reefcast.model.values import Kind
from reefcast.network.sections import StorageEntry

KINDS = tuple(kind.name.lower() for kind in Kind)
"""The kinds of values, as `index` names them."""


def storage_named(name: str, storages: Sequence[StorageEntry]) -> StorageEntry:
    """Return the storage of this name. Raises `ConfigurationError` if there is none."""
    for entry in storages:
        if entry.name == name:
            return entry
    has = ", ".join(entry.name for entry in storages) or "none"
    raise ConfigurationError(f"there is no storage named {name!r}; the file has {has}")


def check_storages(storages: Sequence[StorageEntry], brokers: Collection[str]) -> None:
    """Raise `ConfigurationError`, which names the storage, for entries that make no sense."""
    names: set[str] = set()
    directories: dict[str, str] = {}
    for entry in storages:
        if not entry.name or entry.name in names:
            raise ConfigurationError(
                f"storage name {entry.name!r} is empty or given twice; names must be unique"
            )
        names.add(entry.name)
        where = f"storage {entry.name}"
        if entry.broker not in brokers:
            raise ConfigurationError(
                f"{where}: there is no broker named {entry.broker!r}; the file has "
                f"{', '.join(brokers)}"
            )
        directory = os.path.normpath(entry.directory) if entry.directory else ""
        if not directory or directory in directories:
            raise ConfigurationError(
                f"{where}: directory = {entry.directory!r} "
                + (f"is that of storage {directories[directory]}" if directory else "is empty")
                + "; give each storage one of its own"
            )
        directories[directory] = entry.name
        _check_topics(entry, where)
        _check_limits(entry, where)
    if twice := _twice(entry.session for entry in storages if entry.session):
        raise ConfigurationError(
            f"the session {twice!r} is that of two storages, which would share its events; give "
            "each storage one of its own"
        )


def _check_topics(entry: StorageEntry, where: str) -> None:
    if not entry.topics:
        raise ConfigurationError(f"{where} has no topics: say which it keeps, or take it out")
    for topic in entry.topics:
        try:
            check_topic_pattern(topic)
        except ValueError as error:
            raise ConfigurationError(f"{where}, topic {topic!r}: {error}") from error
    for given, what in ((entry.topics, "topics"), (entry.joining, "joining")):
        if twice := _twice(given):
            raise ConfigurationError(f"{where}: {twice!r} comes twice in {what}")
    for topic in entry.joining:
        if topic not in entry.topics:
            raise ConfigurationError(f"{where}: joining has {topic!r}, which is none of its topics")


def _twice(given: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for each in given:
        if each in seen:
            return each
        seen.add(each)
    return None


def _check_limits(entry: StorageEntry, where: str) -> None:
    for name, kind in entry.index.items():
        if not name or kind not in KINDS:
            raise ConfigurationError(
                f"{where}: index {name!r} = {kind!r} is none of {', '.join(KINDS)}"
            )
    for limit in ("lifetime_s", "most"):
        value = getattr(entry, limit)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigurationError(f"{where}: {limit} = {value} must be a number above 0")
    if not 0 <= entry.seal_after_s < float("inf"):
        raise ConfigurationError(
            f"{where}: seal_after_s = {entry.seal_after_s} must be a number, 0 or more"
        )
