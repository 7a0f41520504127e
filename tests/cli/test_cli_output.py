"""Output beside the event loop, into a pipe that nobody reads at first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from reefcast.cli import output as output_module
from reefcast.cli.output import Output

LINES = ["x" * 999] * 1000
"""More lines than a pipe holds."""
BYTES = 1_000_000


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the end from which standard output can be read."""
    source, sink = os.pipe()
    stdout = SimpleNamespace(encoding="utf-8", errors="strict", fileno=lambda: sink)
    monkeypatch.setattr(output_module, "sys", SimpleNamespace(stdout=stdout))  # pytest has sys's
    yield source
    os.close(sink)


def read_all(source: int) -> None:
    left = BYTES
    while left:
        left -= len(os.read(source, left))


async def test_while_nobody_reads_the_loop_goes_on(source: int) -> None:
    output = Output()
    writing = asyncio.create_task(output.write(LINES))
    done, _ = await asyncio.wait([writing], timeout=0.05)
    assert not done and output.lines == 0
    await asyncio.to_thread(read_all, source)
    await writing
    assert output.lines == 1000
    os.close(source)


async def test_lines_come_as_they_are(source: int) -> None:
    await Output().write(["one", "zwölf"])
    assert os.read(source, 100).decode() == "one\nzwölf\n"
    os.close(source)


async def test_what_is_being_written_counts_when_it_is_read_at_the_end(source: int) -> None:
    output = Output()
    writing = asyncio.create_task(output.write(LINES))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    await asyncio.to_thread(read_all, source)
    output.finish()
    assert output.lines == 1000
    os.close(source)


async def test_the_end_waits_but_a_moment_for_a_reader_that_stands_still(
    source: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_module, "LAST_S", 0.01)
    output = Output()
    writing = asyncio.create_task(output.write(LINES))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    output.finish()
    assert output.lines == 0
    os.close(source)  # lets the thread go


async def test_who_has_enough_ends_it(source: int) -> None:
    os.close(source)
    with pytest.raises(BrokenPipeError):
        await Output().write(LINES)
