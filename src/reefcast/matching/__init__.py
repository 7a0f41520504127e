"""Indexes: which stored filters does a publication match?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex


def new_index() -> CompiledIndex[Any]:
    """Make an empty index of the fastest kind. Its library is loaded here, not with this module."""
    from reefcast.matching.index import CompiledIndex

    return CompiledIndex()


def warm_up() -> None:
    """Compile every kernel, or load the kept code; call it before time counts."""
    import_module("reefcast.matching.index")
    import_module("reefcast.matching.passage.kernels")
