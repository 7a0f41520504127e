"""Rewriting a network file after a link has moved: one entry changes, everything else stays as it
was written."""

from __future__ import annotations

from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.network.rewriting import rewrite


def write_moved_link(file: Path, broker: str, old: str, new: str) -> None:
    """Change the link of `broker` to `old` in `file` so that it leads to `new`. Raises
    `ConfigurationError` if there is no such link, and what `rewrite` raises."""
    rewrite(file, lambda text, _: with_moved_link(text, broker, old, new))


def with_moved_link(text: str, broker: str, old: str, new: str) -> str:
    """Return the text of a network file with the link moved. Raises `ConfigurationError` if it has
    no such link."""
    import tomlkit

    document = tomlkit.parse(text)
    for link in document.get("link", []):
        between = link["between"]
        if sorted(between) == sorted((broker, old)):
            between[list(between).index(old)] = new
            return tomlkit.dumps(document)
    raise ConfigurationError(f"the network file has no [[link]] between {broker} and {old}")
