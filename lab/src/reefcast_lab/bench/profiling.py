"""Where the time goes: a look at the running program every millisecond, which counts for the
processor time since the last one.

Profilers that listen to every call make a hot loop several times slower, and small functions look
dearest. This one costs nothing that shows. Python hears of a signal only at a few instructions; one
of them is the beginning of a function, and then the time was its caller's.

A function's time is its own and that of what it calls outside of Python (dicts, the socket,
compiled kernels).
"""

from __future__ import annotations

import dis
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import FrameType

import reefcast

EVERY_S = 0.001
LARGEST = 15
_BEGIN = dis.opmap["RESUME"]
_PACKAGE = Path(reefcast.__file__).parent


@dataclass(frozen=True, slots=True)
class Cost:
    """`share` of the processor time of the load `case`; `us` of it for each message."""

    case: str
    function: str
    share: float
    us: float


class Samples:
    """Seconds per function; see the module's docstring."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._before = 0.0

    def start(self) -> None:
        """Start to sample the main thread."""
        self._before = time.process_time()
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    @contextmanager
    def taken(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.stop()

    def _look(self, number: int, frame: FrameType | None) -> None:
        now = time.process_time()
        passed, self._before = now - self._before, now
        while frame is not None and frame.f_code is Samples._look.__code__:
            frame = frame.f_back  # the signal came while the one before was handled
        if frame is not None and frame.f_code.co_code[frame.f_lasti] == _BEGIN:
            frame = frame.f_back
        if frame is not None:
            self._seconds[frame.f_code.co_filename, frame.f_code.co_qualname] += passed

    def functions(self) -> dict[str, float]:
        """Return seconds of processor time by function."""
        return {f"{_short(file)}: {name}": s for (file, name), s in self._seconds.items()}


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(_PACKAGE)) if path.is_relative_to(_PACKAGE) else path.name


def largest(case: str, functions: dict[str, float], messages: int) -> list[Cost]:
    """Return the largest costs of a load of this many messages; `functions` as in
    `Samples.functions`."""
    total_s = sum(functions.values())
    return [
        Cost(case, function, seconds / total_s, seconds / messages * 1e6)
        for function, seconds in sorted(functions.items(), key=itemgetter(1), reverse=True)
    ][:LARGEST]


def broker(file: Path, name: str, out: Path) -> None:
    """Run a broker that is sampled from SIGUSR1 on, and write `Samples.functions` when it ends."""
    from reefcast.network.file import load_network
    from reefcast.server.process import run_broker

    samples = Samples()
    signal.signal(signal.SIGUSR1, lambda number, frame: samples.start())
    run_broker(load_network(file), name, lambda node: None)
    samples.stop()
    out.write_text(json.dumps(samples.functions()), encoding="utf-8")


if __name__ == "__main__":
    broker(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
