"""The plugin for pytest, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = "reefcast.testing.plugin"
TESTS = """
import pytest
import reefcast

@pytest.fixture
def reefcast_settings():
    return "[limits]\\npublication_bytes = 1000"

def test_in_a_thread(reefcast_broker):
    with reefcast.sync.connect(reefcast_broker.url) as client:
        client.publish(n=1)

async def test_with_asyncio(reefcast_broker, reefcast_async_broker):
    async with reefcast.connect(reefcast_broker.url) as client:
        await client.publish(n=1)
    async with reefcast.connect(reefcast_async_broker.url) as client:
        with pytest.raises(reefcast.RefusedError, match="publication_bytes"):
            await client.publish(n="x" * 2000)
            await client.flush()

def test_that_fails(reefcast_broker):
    client = reefcast.sync.connect(reefcast_broker.url)
    assert False, "on purpose"
"""
IMPORTED = """
import sys
import reefcast.testing.plugin
print(*sorted(name for name in sys.modules if name.startswith("reefcast")))
"""

pytestmark = pytest.mark.live


def test_fixtures_need_no_import(tmp_path: Path) -> None:
    file = tmp_path / "test_program.py"
    file.write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_asyncio.plugin", "-p", PLUGIN, str(file)],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "on purpose" in done.stdout
    assert "error" not in done.stdout.lower().replace("assertionerror", "")


def test_pytest_finds_it_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_it_costs_nothing_where_it_is_not_used() -> None:
    """Whoever has Reefcast installed loads it with every pytest."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["reefcast", "reefcast.testing", PLUGIN]
