"""What ends the process of a broker, a peer or a storage, and what does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, os, signal
from reefcast.server import process

class Node:
    def reload(self):
        print("reloaded", flush=True)

async def serve(told_to_stop):
    if {reloads}:
        process.reload_at_hangup(Node().reload)
    for number in (signal.SIGHUP, signal.{last}):
        os.kill(os.getpid(), number)
        await asyncio.sleep(0)
    await told_to_stop.wait()
    print("stopped in order", flush=True)

asyncio.run(process._run(serve, False))
"""


@pytest.mark.parametrize("last", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("reloads", [True, False])
def test_sighup_ends_nothing(last: str, *, reloads: bool) -> None:
    """Process managers reload by it."""
    program = PROGRAM.format(reloads=reloads, last=last)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "reloaded\n" * reloads + "stopped in order\n"
