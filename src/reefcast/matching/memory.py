"""The process's allocator, for programs that hold large indexes."""

from __future__ import annotations

import ctypes

M_MXFAST = 1
"""Of glibc's `mallopt`: pieces up to so many bytes are kept aside when they are given back."""


def keep_no_small_pieces() -> None:
    """Prevent a pause of the process: glibc merges the small pieces that it keeps aside all at
    once, now and then, which takes 9 ms while 100 000 filters go. Not to keep any costs nothing
    that shows. It affects the whole process, so only the program may decide it. Other libraries of
    C have no such switch."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MXFAST, 0)
