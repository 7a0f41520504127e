"""What is logged as JSON: each line an object with keys that docs/reference/logs.md names."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reefcast.logs import PARTS, ROOT, handlers

PAGE = (Path(__file__).parents[1] / "docs/reference/logs.md").read_text(encoding="utf-8")
KNOWN = set(re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Parts")[0], re.MULTILINE))
"""The keys that the reference names."""
FORGED = 'x\n{"level": "error"}\r\x00\x1b[2J\u2028\u0085"\\'
"""What somebody might send who wants to forge lines, or to do something to a terminal."""


def objects(text: str) -> list[dict[str, object]]:
    """Return the lines of a log, each of which must be an object with known keys."""
    assert text.endswith("\n") or not text
    found = [json.loads(line) for line in text.split("\n")[:-1]]
    assert all(set(each) <= KNOWN for each in found), found
    assert all({"time", "level", "part", "message"} <= set(each) for each in found), found
    return found


@contextmanager
def log_stream() -> Iterator[io.StringIO]:
    """Yield a stream to log to; what `set_up` did ends with the block."""
    yield io.StringIO()
    for handler in handlers():
        logging.getLogger().removeHandler(handler)
        handler.close()
    logging.captureWarnings(False)
    for name in (ROOT, *(f"{ROOT}.{name}" for name in PARTS)):
        logging.getLogger(name).setLevel(logging.NOTSET)
