"""The files of the dashboard: package data, read once, and the same for everybody."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """A file, as it is sent."""

    body: bytes
    kind: str


def page_files() -> dict[str, PageFile]:
    """Read all files; return them by path."""
    folder = files("reefcast.server.web") / "static"
    found = {}
    for file in folder.iterdir():
        ending = file.name[file.name.rfind(".") :]
        if ending in KINDS:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = PageFile(file.read_bytes(), KINDS[ending])
    return found
