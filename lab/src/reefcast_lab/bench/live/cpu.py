"""CPU time of another process.

Linux has a clock for each process, in nanoseconds. Elsewhere (macOS) `ps` tells the time, in
hundredths of a second.
"""

from __future__ import annotations

import re
import subprocess
import time

_PS = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
"""Days, hours, minutes and seconds; the first two only if there are any."""


def used_s(pid: int) -> float | None:
    """Return the seconds of CPU time that all threads of the process have used; None if the system
    does not tell them."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # as glibc's clock_getcpuclockid makes it
    except OSError:
        return from_ps(pid)


def from_ps(pid: int) -> float | None:
    """Return the same as `ps` tells it."""
    try:
        told = subprocess.run(
            ["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return parse_ps(told.stdout)


def parse_ps(text: str) -> float | None:
    """Read seconds from `[[DAYS-]HOURS:]MINUTES:SECONDS`."""
    found = _PS.fullmatch(text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
