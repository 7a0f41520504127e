"""What two network files say differently, and by what a file is known on several machines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.listeners import name_of

_KEYS_OF_ENTRIES = {"broker": "name", "storage": "name", "role": "name", "certificate": "subject"}
_NOTHING = object()


class Change(NamedTuple):
    """`title`: the section, such as "[limits]", or the kind of an entry, such as "[[broker]]";
    `entry`: which one, such as "b1"; `key`: "" where a whole entry or section comes or goes.
    `before`, `after`: plain data; None: it is not there."""

    title: str
    entry: str
    key: str
    before: Any
    after: Any

    @property
    def what(self) -> str:
        """In words: what has changed."""
        return " ".join(filter(None, (self.title, self.entry, self.key)))

    @property
    def comes_or_goes(self) -> bool:
        """Whether an entry is new, or no longer there."""
        return bool(self.entry) and not self.key


def changes(before: NetworkFile, after: NetworkFile) -> list[Change]:
    """Return what `after` says differently, in the order of the sections."""
    old, new = _plain(before), _plain(after)
    found: list[Change] = []
    for name in old:
        if isinstance(old[name], list):
            found += _entries(name, old[name], new[name])
        elif old[name] is None or new[name] is None:
            if old[name] is not new[name]:
                found.append(Change(f"[{name}]", "", "", old[name], new[name]))
        else:
            found += (Change(f"[{name}]", "", *each) for each in _keys(old[name], new[name]))
    return found


def fingerprint(network: NetworkFile) -> str:
    """Return a text that is the same for the same network file on another machine, where the other
    files that it names may have another folder."""
    tls = {name: _without_folder(getattr(network.tls, name)) for name in ("certificate", "key")}
    moved = msgspec.structs.replace(
        network,
        tls=msgspec.structs.replace(
            network.tls, authority=_without_folder(network.tls.authority), **tls
        ),
        security=network.security
        and msgspec.structs.replace(
            network.security,
            **{
                name: _without_folder(getattr(network.security, name))
                for name in ("users", "tokens", "key", "audit")
            },
        ),
    )
    return hashlib.sha256(dump_network(moved).encode()).hexdigest()[:32]


def _without_folder(path: str) -> str:
    return Path(path).name if path else ""


def _plain(network: NetworkFile) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(network)
    return plain


def _keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in dict.fromkeys((*old, *new)):
        if old.get(key, _NOTHING) != new.get(key, _NOTHING):
            yield key, old.get(key), new.get(key)


def _entries(name: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    before, after = _by_key(name, old), _by_key(name, new)
    for key in dict.fromkeys((*before, *after)):
        one, other = before.get(key), after.get(key)
        if one is None or other is None:
            yield Change(f"[[{name}]]", key, "", one, other)
            continue
        for field, was, now in _keys(one, other):
            yield Change(f"[[{name}]]", key, field, was, now)


def _by_key(name: str, entries: list[Any]) -> dict[str, Any]:
    """Return entries by what tells them apart."""
    if name == "link":
        return {" - ".join(sorted(each["between"])): each for each in entries}
    if name == "listener":
        return {
            name_of(each["broker"], each["listen"], each["websocket"]): each for each in entries
        }
    return {each[_KEYS_OF_ENTRIES[name]]: each for each in entries}
