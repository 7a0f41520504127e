"""What live demonstrations share: programs that receive tasks and report; events at a pace."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from reefcast.errors import PeerError
from reefcast_lab.demos.harness import Program, each, kill
from reefcast_lab.demos.program import Pace, Report

ECHO = """
import json, sys

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

say(json.dumps({"state": "loaded"}) + "\\n")
for line in sys.stdin:
    match line.strip():
        case "exit":
            sys.exit(3)
        case "half":
            say(json.dumps({"state": "half"}) + "\\n" + '{"state": "ha')
        case word:
            say(json.dumps({"state": word}) + "\\n")
"""
"""A program that repeats what it is told."""


@pytest.fixture
def noted() -> list[str]:
    return []


@pytest.fixture
async def echoes(noted: list[str]) -> AsyncIterator[list[Program[Report]]]:
    """Start two programs; record what they say."""
    started = []
    for number in (1, 2):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ECHO),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        program = Program(
            f"echo {number}", process, Report, lambda _, report: noted.append(report.state)
        )
        started.append(program)
    yield started
    await kill(started)
    assert not any(program.running for program in started)


@pytest.mark.live
async def test_programs_do_what_they_are_told(
    echoes: list[Program[Report]], noted: list[str]
) -> None:
    await each(echoes, "go", "go")
    await each(echoes[:1], "stay", "stay")
    await echoes[0].until("loaded")  # it was, some time ago
    assert sorted(noted) == ["go", "go", "loaded", "loaded", "stay"]
    assert [program.last for program in echoes] == [Report("stay"), Report("go")]


@pytest.mark.live
async def test_a_program_that_ends_or_takes_too_long_is_an_error(
    echoes: list[Program[Report]],
) -> None:
    with pytest.raises(PeerError, match=r"echo 2 took more than 0\.05 s until ready"):
        await echoes[1].until("ready", 0.05)
    echoes[0].tell("exit")
    with pytest.raises(PeerError, match="echo 1 ended before it was ready"):
        await echoes[0].until("ready")
    with pytest.raises(PeerError, match="echo 1 ended with exit code 3"):
        await echoes[0].end()


@pytest.mark.live
async def test_a_program_may_be_killed_in_the_middle_of_a_line(
    echoes: list[Program[Report]],
) -> None:
    await each(echoes, "half", "half")
    await kill(echoes)
    assert not any(program.running for program in echoes)
    assert [program.last for program in echoes] == [Report("half")] * 2


async def test_events_are_due_at_a_pace_and_never_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by what is slept, and by a little more."""
    now = [100.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds + 0.25

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0], raising=False)
    pace = Pace(2.0)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    late = [await pace.wait(number) for number in (0, 2, 3, 10)]
    assert late == [0.25, 0.25, 0.25, 0.25]
    assert pace.early_s(12) == 1.0 - 0.25
    now[0] = 200.0
    assert await pace.wait(11) == 200.25 - 105.5
