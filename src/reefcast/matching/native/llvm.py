"""The libraries that describe machine code, loaded when they are first needed: a process whose code
is compiled already needs neither."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    """A module that is imported at the first use of one of its names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


ir = _Later("llvmlite.ir")
types = _Later("numba.types")


def word() -> Any:
    """Return LLVM's type of an int64."""
    return ir.IntType(64)
