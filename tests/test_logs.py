"""One event a line, as text or as JSON, whatever is in it; levels of parts; lines that repeat."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_lines import FORGED, KNOWN, PAGE, log_stream, objects
from reefcast import logs
from reefcast.errors import ConfigurationError
from reefcast.logs import FEW, PARTS, Settings, about, part
from reefcast.network.file import dump_network, read_network

ANYTHING = st.text(st.characters(), max_size=30)  # surrogates and control characters, too
HALF = f"{FORGED}\ud800"


@pytest.fixture
def stderr() -> Iterator[io.StringIO]:
    with log_stream() as stream:
        yield stream


def lines(stderr: io.StringIO) -> list[dict[str, object]]:
    """Return the lines written since the last call."""
    text = stderr.getvalue()
    stderr.seek(0)
    stderr.truncate()
    return objects(text)


def formatted(format: str, text: str, *, traceback: bool = False) -> str:
    """Return the line of a record that has this text everywhere."""
    formatter = (logs._Json if format == "json" else logs._Text)({"broker": text})
    trace = None
    if traceback:
        try:
            raise ValueError(text)
        except ValueError:
            trace = sys.exc_info()
    record = logging.LogRecord("reefcast.broker", 30, "", 0, "says %s", (text,), trace)
    record.about = {"reason": text, "client": text, "count": 3, "user": ""}
    return formatter.format(record)


@given(ANYTHING, st.booleans())
def test_a_line_is_one_line_whatever_is_in_it(text: str, traceback: bool) -> None:
    line = formatted("json", text, traceback=traceback)
    assert line.isascii() and line.isprintable()
    found = json.loads(line)
    said = text.encode("utf-8", "backslashreplace").decode()
    assert found["message"] == f"says {said}" and found["count"] == 3
    assert ("reason" in found) is bool(text) and "user" not in found
    assert set(found) <= KNOWN
    line = formatted("text", text, traceback=traceback)
    assert line.isprintable() and len(line.splitlines()) == 1


def test_text_has_the_time_the_broker_the_level_and_the_part(stderr: io.StringIO) -> None:
    logs.set_up(Settings(), stderr, broker="north")
    part("links").warning("lost %d of %s", 3, FORGED, extra=about(link="south", count=3))
    part("links").info("nobody asked for this")
    line = stderr.getvalue()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z north WARNING links: lost 3 of x\\n.*\n", line
    )
    assert line.count("\n") == 1 and "\x1b" not in line


def test_json_has_fields(stderr: io.StringIO) -> None:
    logs.set_up(Settings("json"), stderr, broker="north")
    part("links").warning("lost %d", 3, extra=about(link="south", count=3, reason=HALF))
    part("clients").warning("slow", extra=about(broker="another of this process"))
    logging.getLogger("asyncio").error("of a library")
    first, second, third = lines(stderr)
    del first["time"]
    assert first == {
        "level": "warning",
        "part": "links",
        "broker": "north",
        "link": "south",
        "count": 3,
        "reason": f"{FORGED}\\ud800",
        "message": "lost 3",
    }
    assert second["broker"] == "another of this process"
    assert (third["part"], third["level"]) == ("asyncio", "error")


def test_each_part_has_a_level(stderr: io.StringIO) -> None:
    settings = Settings("json").changed(None, ["info", "routing=debug", "links=error"])
    logs.set_up(settings, stderr)
    for name in ("routing", "links", "clients"):
        for level in ("debug", "info", "warning", "error"):
            getattr(part(name), level)(f"{name} {level}")
    assert [each["message"] for each in lines(stderr)] == [
        *(f"routing {level}" for level in ("debug", "info", "warning", "error")),
        "links error",
        *(f"clients {level}" for level in ("info", "warning", "error")),
    ]
    logs.set_levels(Settings("json"))
    part("routing").debug("no more")
    assert lines(stderr) == []
    words = logs.words_of("json", ["info", "links=error"])
    assert words == ["--log-format", "json", "--log-level", "info", "--log-level", "links=error"]
    assert logs.words_of(None, []) == []


def test_what_repeats_is_counted(stderr: io.StringIO) -> None:
    logs.set_up(Settings("json"), stderr)
    for n in range(100):
        part("sessions").error("the disk fails: %d", n)
        part("sessions").error("another")
        part("links").error("of a kind that is limited already", extra=about(kind="link_lost"))
    written = [each["message"] for each in lines(stderr)]
    assert written.count("another") == FEW
    assert sum(str(each).startswith("the disk fails") for each in written) == FEW
    assert len(written) == 100 + 2 * FEW
    [handler] = logs.handlers()
    handler.sum_up()
    assert [(each["message"], each["count"], each["kind"]) for each in lines(stderr)] == [
        (f"90 more of these were not written; the last: {last}", 90, "repeated")
        for last in ("the disk fails: 99", "another")
    ]
    part("sessions").error("the disk fails: %d", 100)
    assert len(lines(stderr)) == 1


def test_settings_that_there_are_not_are_refused() -> None:
    for level, words in (
        ("loud", "log level 'loud' is none of debug, info"),
        ("rooting=debug", "there is no part 'rooting' to log; the parts are broker, "),
        ("routing=loud", "log level 'loud'"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            Settings().changed(None, [level])
    broker = '[[broker]]\nname = "a"\nlisten = "127.0.0.1:1"\n'
    with pytest.raises(ConfigurationError, match="no part 'rooting'"):
        read_network(f'{broker}[log]\nlevels = {{rooting = "debug"}}')
    network = read_network(f'{broker}[log]\nformat = "json"\nlevels = {{routing = "debug"}}')
    assert network.log.settings == Settings("json", "warning", {"routing": "debug"})
    assert read_network(dump_network(network)) == network


def test_the_reference_names_all_parts() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.partition("## Parts")[2], re.M))
    assert table == PARTS
