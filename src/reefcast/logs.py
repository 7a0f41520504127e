"""Logs of brokers, storages and peers: one event a line, as text or as JSON, on standard error.

Rules
-----
- A logger belongs to a *part* (`PARTS`), whose level can be set by itself.
- What a line is about are fields (`about`), besides its words. docs/reference/logs.md has all keys.
- Whatever others sent, a line is one line: what no printer prints is escaped, tracebacks too.
- A line that repeats is written `FEW` times in `PERIOD_S`; then they are counted, and a line says
  how many there were. `server/floods.py` does the same for what anybody can cause, by kinds, and
  counts in the broker's status. Lines below INFO are not limited: somebody asked for them."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, NamedTuple, TextIO

from reefcast.errors import ConfigurationError

PARTS = {
    "broker": "the broker itself: failures, with tracebacks, and the end",
    "connections": "who connects, who is refused, which connections end and why, TLS",
    "links": "links to other brokers, and publications that were lost on them",
    "clients": "clients that do not keep up, or did not come back",
    "routing": "at `debug`: each control message, with what the broker then sent and to whom",
    "sessions": "durable sessions, and the disk that keeps them",
    "security": "users, roles, keys, certificates, and the audit log",
    "storage": "storages: catching up, damage, sealing",
    "trace": "traces, statistics and the log of requests",
    "client": "the client library, also that of a storage",
    "matching": "the kernels of the matching index, and where they are kept",
}
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
FEW, PERIOD_S = 10, 10.0
MOST_CHARS = 10_000
ROOT = "reefcast"


def part(name: str) -> logging.Logger:
    """Return the logger of a part."""
    assert name in PARTS, name
    return logging.getLogger(f"{ROOT}.{name}")


def about(**fields: object) -> dict[str, Any]:
    """Return what a line is about, as the `extra` of a call of a logger."""
    return {"about": fields}


class Settings(NamedTuple):
    """How to log. `levels`: those of single parts."""

    format: str = "text"
    level: str = "warning"
    levels: Mapping[str, str] = {}

    def changed(self, format: str | None, levels: Sequence[str]) -> Settings:
        """Return the settings with those of a command line: `LEVEL` or `PART=LEVEL`. Raises
        `ConfigurationError`."""
        made = self if format is None else self._replace(format=format)
        for given in levels:
            name, _, level = given.rpartition("=")
            if "=" in given:
                made = made._replace(levels={**made.levels, name: level})
            else:
                made = made._replace(level=level)
        made.check()
        return made

    def check(self) -> None:
        """Raise `ConfigurationError` for a format, a part or a level that there is not."""
        if self.format not in FORMATS:
            raise ConfigurationError(f"log format {self.format!r} is none of {', '.join(FORMATS)}")
        for name in self.levels:
            if name not in PARTS:
                raise ConfigurationError(
                    f"there is no part {name!r} to log; the parts are {', '.join(PARTS)}"
                )
        for level in (self.level, *self.levels.values()):
            if level not in LEVELS:
                raise ConfigurationError(f"log level {level!r} is none of {', '.join(LEVELS)}")


def words_of(format: str | None, levels: Sequence[str]) -> list[str]:
    """Return the words of a command line that give another process the same options."""
    given = [] if format is None else ["--log-format", format]
    return [*given, *(word for each in levels for word in ("--log-level", each))]


def set_up(settings: Settings, stream: TextIO | None = None, **who: str) -> None:
    """Have this process log so, to `stream` or standard error.

    `who`: what it is, for instance `broker="north"`; lines that say this themselves, as where one
    process has several brokers, win."""
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter((_Json if settings.format == "json" else _Text)(who))
    root = logging.getLogger()
    for former in handlers():
        root.removeHandler(former)
        former.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    threading.excepthook = _of_a_thread
    set_levels(settings)


def handlers() -> list[_Handler]:
    """Return what `set_up` has log."""
    return [each for each in logging.getLogger().handlers if isinstance(each, _Handler)]


def set_levels(settings: Settings) -> None:
    """Set the levels of all parts."""
    logging.getLogger(ROOT).setLevel(settings.level.upper())
    for name in PARTS:
        part(name).setLevel(settings.levels.get(name, "notset").upper())


def tell(sentence: str, level: int = logging.INFO) -> bool:
    """Write a sentence that is no matter of levels as a line of the log, where that is JSON; return
    False where it is not, and people read along."""
    for handler in handlers():
        if isinstance(handler.formatter, _Json):
            handler.handle(logging.LogRecord(f"{ROOT}.broker", level, "", 0, sentence, (), None))
            return True
    return False


def _of_a_thread(failure: threading.ExceptHookArgs) -> None:
    found = failure.exc_value
    if found is not None:
        trace = (failure.exc_type, found, failure.exc_traceback)
        part("broker").error("a thread failed", exc_info=trace)


# --- one record -----------------------------------------------------------------------------------


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return what a line is about, without what is empty."""
    found: Mapping[str, object] = getattr(record, "about", {})
    return {name: value for name, value in found.items() if value not in (None, "")}


def printable(text: str) -> str:
    """Return a text without what no printer prints, in one line."""
    text = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}..."
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class _Lines(logging.Formatter):
    """What both formats share. `who`: what the process is."""

    def __init__(self, who: Mapping[str, str]) -> None:
        super().__init__()
        self._who = who

    def _plain(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return all fields of a line in their order."""
        at = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        plain: dict[str, Any] = {
            "time": f"{at.isoformat(timespec='milliseconds')}Z",
            "level": record.levelname.lower(),
            "part": record.name.removeprefix(f"{ROOT}."),
            **self._who,
        }
        plain.update(fields_of(record))
        message = plain.pop("message", None) or record.getMessage()
        if record.exc_info and record.exc_info[0]:
            plain["traceback"] = self.formatException(record.exc_info)
        return {**plain, "message": message}


class _Json(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        plain = {name: _simple(value) for name, value in self._plain(record).items()}
        return json.dumps(plain)  # in ASCII: whatever is in a text, it is one line


def _simple(value: object) -> object:
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_simple(each) for each in value]
    text = str(value)
    text = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}..."
    return text.encode("utf-8", "backslashreplace").decode()  # JSON knows no half characters


class _Text(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        plain = self._plain(record)
        here = next((str(plain[name]) for name in ("broker", *self._who) if name in plain), "")
        start = [plain["time"], here, plain["level"].upper(), f"{plain['part']}:"]
        line = f"{' '.join(filter(None, start))} {plain['message']}"
        if "traceback" in plain:
            line += f"\n{plain['traceback']}"
        return printable(line)


# --- lines that repeat ----------------------------------------------------------------------------


class _Handler(logging.StreamHandler[Any]):
    """Writes lines, but those that repeat only `FEW` times in `PERIOD_S`."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._seen: dict[tuple[str, str], tuple[int, logging.LogRecord]] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it; the handler's lock is held."""
        limited = record.levelno >= logging.INFO and "kind" not in getattr(record, "about", ())
        if limited:
            key = record.name, str(record.msg)
            count = self._seen[key][0] + 1 if key in self._seen else 1
            self._seen[key] = count, record
            if self._timer is None:
                self._timer = threading.Timer(PERIOD_S, self.sum_up)
                self._timer.daemon = True
                self._timer.start()
            if count > FEW:
                return
        super().emit(record)

    def sum_up(self) -> None:
        """Write how many lines were not written, and write the next ones again."""
        self.acquire()
        try:
            seen, self._seen = self._seen, {}
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            for count, last in seen.values():
                if count > FEW:
                    super().emit(_rest(count - FEW, last))
        finally:
            self.release()

    def close(self) -> None:
        self.sum_up()
        super().close()


def _rest(count: int, last: logging.LogRecord) -> logging.LogRecord:
    words = "%d more of these were not written; the last: %s"
    arguments = (count, last.getMessage())
    made = logging.LogRecord(last.name, last.levelno, "", 0, words, arguments, None)
    made.about = {**fields_of(last), "kind": "repeated", "count": count}
    return made
