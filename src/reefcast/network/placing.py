"""A plan of storages, applied to a network file in two steps, so that nothing stored is lost.

1. The file is *widened*: storages get the topics of the plan, and keep those that they have. A
  topic that others keep already they *join*: a storage does not answer for it before it has all of
  it.
2. When all brokers know that all storages of the plan answer for all of their topics, the file is
  *narrowed* to the plan.

Both steps follow from the file and the plan alone: an interrupted command can start again, and a
network that is restarted in between continues. Repeating a step changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from reefcast.errors import ConfigurationError
from reefcast.model.patterns import topic_pattern_covers, topic_patterns_meet
from reefcast.network.plan_file import PlannedStorage
from reefcast.network.sections import StorageEntry

if TYPE_CHECKING:
    from tomlkit.items import Array, InlineTable, Table

LISTS = ("topics", "joining")
"""The lists of a remaining storage that a plan changes."""


def planned_storages(
    storages: Sequence[StorageEntry], plan: Iterable[PlannedStorage], directory: str
) -> list[StorageEntry]:
    """Return the storages of the plan: the storage at the same broker, if there is one (of several
    the one with most of its topics), otherwise a new one, with the limits and indexes of the
    storage with most of its topics; its history is in `directory`, under its name.

    Raises `ConfigurationError` for a plan that would drop a stored topic, and for topics of which
    several storages have parts: none could be taken over from."""
    made: list[StorageEntry] = []
    taken = {entry.name for entry in storages}
    for each in plan:
        here = [entry for entry in storages if entry.broker == each.broker]
        like = _most_like(each.topics, here) or _most_like(each.topics, storages)
        if here and like:
            made.append(replace(like, topics=list(each.topics), joining=[]))
            continue
        name = _new_name(each.broker, taken)
        new = StorageEntry(
            name=name, broker=each.broker, topics=list(each.topics), directory=directory
        )
        if like and _shared(each.topics, like):
            own = {"name": name, "broker": each.broker, "topics": new.topics}
            new = replace(like, **own, joining=[], session=name if like.session else "")
        made.append(replace(new, directory=str(PurePath(directory, name))))
    _check_kept(storages, made)
    _check_taken_over(storages, made)
    return made


def _most_like(topics: Collection[str], among: Sequence[StorageEntry]) -> StorageEntry | None:
    return max(among, key=lambda entry: _shared(topics, entry), default=None)


def _shared(topics: Collection[str], entry: StorageEntry) -> int:
    return len(set(topics).intersection(entry.topics))


def _new_name(broker: str, taken: set[str]) -> str:
    name, number = f"at-{broker}", 1
    while name in taken:
        number += 1
        name = f"at-{broker}-{number}"
    taken.add(name)
    return name


def _check_kept(storages: Iterable[StorageEntry], then: Sequence[StorageEntry]) -> None:
    for entry in storages:
        for topic in entry.topics:
            if not _kept(topic, then):
                raise ConfigurationError(
                    f"storage {entry.name} keeps {topic!r}, which no storage of the plan has: add "
                    "it to one of them, or remove it from the network file first, if its history "
                    "may be lost"
                )


def _check_taken_over(storages: Sequence[StorageEntry], then: Iterable[StorageEntry]) -> None:
    for topic in (topic for entry in then for topic in entry.topics):
        if _begun(topic, storages) and not _kept(topic, storages):
            has = next(entry for entry in storages if _begun(topic, [entry]))
            raise ConfigurationError(
                f"the plan has {topic!r}, of which storage {has.name} keeps only a part, and no "
                "storage keeps all: a topic is taken over whole, so use the topics of the network "
                "file in the plan"
            )


def _kept(topic: str, storages: Iterable[StorageEntry]) -> bool:
    """Return whether one of the storages has all of the topic."""
    return any(topic_pattern_covers(own, topic) for entry in storages for own in entry.complete)


def widened(storages: Sequence[StorageEntry], then: Sequence[StorageEntry]) -> list[StorageEntry]:
    """Return the storages of both; see the module's docstring."""
    wanted = {entry.name: entry for entry in then}
    both = [_joined(entry, wanted.pop(entry.name, entry).topics, storages) for entry in storages]
    for entry in wanted.values():
        both.append(_joined(replace(entry, topics=[]), entry.topics, storages))
    return both


def _joined(
    entry: StorageEntry, more: Iterable[str], storages: Sequence[StorageEntry]
) -> StorageEntry:
    """Return the entry with these topics as well."""
    new = [topic for topic in more if topic not in entry.topics]
    joining = [topic for topic in new if not _kept(topic, [entry]) and _kept(topic, storages)]
    return replace(entry, topics=entry.topics + new, joining=entry.joining + joining)


def _begun(topic: str, storages: Iterable[StorageEntry]) -> bool:
    """Return whether one of the storages has some of the topic."""
    return any(topic_patterns_meet(own, topic) for entry in storages for own in entry.complete)


def said_in(entry: StorageEntry) -> tuple[Any, ...]:
    """Return a key that is equal for two entries that mean the same: the order of topics does not
    matter."""
    plain = msgspec.structs.asdict(entry)
    return tuple(
        tuple(sorted(value)) if key in LISTS else value for key, value in sorted(plain.items())
    )


def say_the_same(some: Iterable[StorageEntry], others: Iterable[StorageEntry]) -> bool:
    return sorted(map(said_in, some), key=str) == sorted(map(said_in, others), key=str)


# --- the text of the file -------------------------------------------------------------------------


def with_storages(text: str, storages: Sequence[StorageEntry]) -> str:
    """Return the text of a network file with these storages; existing entries change only in their
    topics."""
    import tomlkit

    document = tomlkit.parse(text)
    tables = document.setdefault("storage", tomlkit.aot())
    wanted = {entry.name: entry for entry in storages}
    for at in reversed(range(len(tables))):
        entry = wanted.pop(tables[at]["name"], None)
        if entry is None:
            del tables[at]
        else:
            _change(tables[at], entry)
    for entry in wanted.values():
        tables.append(_table(entry, inline=not isinstance(tables, tomlkit.items.AoT)))
    if not tables:
        del document["storage"]
    return tomlkit.dumps(document)


def _change(table: Table | InlineTable, entry: StorageEntry) -> None:
    _change_list(table["topics"], entry.topics)
    if not entry.joining:
        table.pop("joining", None)
    elif "joining" in table:
        _change_list(table["joining"], entry.joining)
    else:
        table["joining"] = entry.joining


def _change_list(array: Array, topics: Sequence[str]) -> None:
    for at in reversed(range(len(array))):
        if array[at] not in topics:
            del array[at]
    for topic in topics:
        if topic not in array:
            array.append(topic)


def _table(entry: StorageEntry, *, inline: bool) -> Table | InlineTable:
    import tomlkit

    table: Table | InlineTable = tomlkit.inline_table() if inline else tomlkit.table()
    table.trivia.indent = "" if inline else "\n"
    for key, value in _said(entry):
        table[key] = _inline(value) if isinstance(value, dict) else value
    return table


def _inline(plain: dict[str, Any]) -> InlineTable:
    import tomlkit

    table = tomlkit.inline_table()
    table.update(plain)
    return table


def _said(entry: StorageEntry) -> Iterator[tuple[str, Any]]:
    """Yield the keys of an entry that differ from their defaults."""
    unsaid = StorageEntry(name="", broker="", topics=[], directory="")
    for key, value in msgspec.to_builtins(entry).items():
        if value != getattr(unsaid, key):
            yield key, value
