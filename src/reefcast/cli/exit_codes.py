"""Exit codes, with the same meaning for all commands."""

from __future__ import annotations

from reefcast.errors import InternalError, LocalError, PeerError, ReefcastError

DONE = 0
NO = 1
"""The command did its work, and the answer is no: its own help says what that means."""
YOUR_FAULT = 2
"""`LocalError`, a usage error of click's, a file that cannot be read or written."""
NOT_QUIET = 3
"""`reefcast simulate` alone: the network never became quiet."""
OUR_FAULT = 4
"""`InternalError`, and every exception that nobody expected."""
THEIR_FAULT = 5
"""`PeerError`."""
AGAIN = 6
"""A broker ended because an operator wished it to be started again (`reefcast network roll`); the
same as `server.child.AGAIN`, which is not to load the command line."""
INTERRUPTED = 130
"""Ctrl-C, where that is not the usual end of a command."""

EXPLAINED = (
    "Exit codes: 0 it is done; 1 it is done, and the answer is no (a check failed, a broker does "
    "not answer: see the command); 2 something that you gave is wrong; 3 a simulated network never "
    "became quiet; 4 a fault of reefcast or of a routing; 5 a broker cannot be reached, or broke "
    "the protocol; 6 a broker that is to be started again; 130 interrupted."
)

_BY_FAULT: dict[type[ReefcastError], int] = {
    LocalError: YOUR_FAULT,
    PeerError: THEIR_FAULT,
    InternalError: OUR_FAULT,
}


def code_of(error: ReefcastError) -> int:
    """Return the exit code that says whose fault the error was."""
    for kind, code in _BY_FAULT.items():
        if isinstance(error, kind):
            return code
    return OUR_FAULT
