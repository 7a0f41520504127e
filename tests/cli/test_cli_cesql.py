"""`reefcast cesql` evaluates, translates, and says what is wrong."""

from __future__ import annotations

import msgspec
from click.testing import CliRunner

from reefcast.cli.main import group


def run(*arguments: str) -> str:
    done = CliRunner().invoke(group, ["cesql", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_text() -> None:
    text = "type = 'a' AND seats > 5"
    output = run(text, '{"type": "a", "seats": 7}', '{"type": "b"}', '{"type": "a", "seats": "x"}')
    assert output.splitlines()[:5] == [
        "event 1 passes: true",
        "event 2 does not pass: false",
        "event 3 does not pass: false",
        "  cast: line 1, column 16: 'x' is no Integer; '5' or '-5' would be, within 32 bits; "
        "IS_INT tells beforehand",
        "    type = 'a' AND seats > 5",
    ]
    assert output.splitlines()[-1].startswith("wider filter: type = 'a' AND (")


def test_json() -> None:
    record = msgspec.json.decode(run("LENGTH(gate) = 3", "gate=B12", "--json"))
    assert record == {
        "filter": "gate IS NOT NULL",
        "exact": False,
        "events": [{"value": True, "error": None, "passes": True}],
    }
    record = msgspec.json.decode(run("nobody", "a=1", "--json"))
    [event] = record["events"]
    assert (event["value"], event["passes"], event["error"]["kind"], event["error"]["column"]) == (
        *(False, False),
        *("missingAttribute", 1),
    )


def test_without_events_it_translates() -> None:
    assert run("type = 'a'") == "filter: type = 'a'\n"


def test_what_cannot_be_parsed_is_refused() -> None:
    done = CliRunner().invoke(group, ["cesql", "type ="])
    assert isinstance(done.exception, Exception)
    assert "but the expression ends" in str(done.exception)
