"""An import leaves the allocator of its process alone."""

from __future__ import annotations

import subprocess
import sys

SPY = """
import ctypes
asked = []
class Library:
    def __getattr__(self, name):
        asked.append(name)
        return lambda *_: None
real = ctypes.CDLL
ctypes.CDLL = lambda name=None, *rest, **more: real(name, *rest, **more) if name else Library()
import reefcast.matching.index
assert "mallopt" not in asked, asked
from reefcast.matching.memory import keep_no_small_pieces
keep_no_small_pieces()
assert "mallopt" in asked, asked
"""


def test_only_a_program_that_asks_for_it_changes_how_its_process_gets_memory() -> None:
    subprocess.run([sys.executable, "-c", SPY], check=True, timeout=600)
