"""Numba's `njit` for functions that take arrays, and where it keeps them.

Modules with such functions import `njit` from here, so that the directory is chosen before the
first of them is compiled. It is the one that `REEFCAST_CACHE_DIR` names; or numba's choice
(`NUMBA_CACHE_DIR`, beside the package, in the user's home); or as a last resort one among the
temporary files (`native.directories`)."""

from __future__ import annotations

from typing import Any

from numba import config, njit

from reefcast.matching.native.directories import named, temporary, writable

__all__ = ["njit"]


def _settle(numba: Any) -> None:
    """Choose the directory. `numba`: its settings, which have no types."""
    if named() is not None:
        numba.CACHE_DIR = str(writable())
    elif not _numba_finds_one():
        numba.CACHE_DIR = str(temporary())


def _numba_finds_one() -> bool:
    try:
        njit(cache=True)(_nothing)
    except RuntimeError:  # "cannot cache function"
        return False
    return True


def _nothing() -> None:
    """Return nothing: a kernel that is never compiled."""


_settle(config)
