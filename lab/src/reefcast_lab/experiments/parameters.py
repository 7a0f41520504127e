"""A paper's file of parameters, read: values only. Units and sources are for its readers.

An entry has one value, or one for each scale: `x = { value = 20, unit = "s", source = "paper" }`,
`x = { small = 2, paper = 20, unit = "s", source = "paper" }`.
"""

from __future__ import annotations

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

from reefcast.errors import ConfigurationError

Entries = dict[str, dict[str, Any]]


class Section:
    """The entries of one section at one scale, as attributes."""

    def __init__(self, file: Path, name: str, scale: str, entries: Entries) -> None:
        self._where = f"{file.name} has no {name}"
        self._values = {
            key: _value(f"{file.name}: {name}.{key}", scale, entry)
            for key, entry in entries.items()
        }

    def with_values(self, **values: Any) -> Section:
        """Return the section with other values of some entries. Raises `ConfigurationError` for an
        entry that there is not."""
        for key in values:
            getattr(self, key)
        other = object.__new__(Section)
        other._where, other._values = self._where, self._values | values
        return other

    def __getattr__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise ConfigurationError(f"{self._where}.{key}") from None


def _value(where: str, scale: str, entry: dict[str, Any]) -> Any:
    for name in ("unit", "source"):
        if not entry.get(name):
            raise ConfigurationError(f"{where} has no {name}; give one")
    value = entry.get("value", entry.get(scale))
    if value is None:
        raise ConfigurationError(f"{where} has no value for the scale {scale!r}")
    return value


class ParameterFile:
    """One file, read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sections: dict[tuple[str, str], Section] = {}

    @cached_property
    def _entries(self) -> dict[str, Entries]:
        return tomllib.loads(self.path.read_text(encoding="utf-8"))

    def section(self, name: str, scale: str = "paper") -> Section:
        """Return a section. Raises `ConfigurationError` for a section that the file does not
        have."""
        if name not in self._entries:
            raise ConfigurationError(f"{self.path.name} has no section {name!r}")
        place = name, scale
        if place not in self._sections:
            self._sections[place] = Section(self.path, name, scale, self._entries[name])
        return self._sections[place]
