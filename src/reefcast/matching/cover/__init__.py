"""Indexes of covering: which stored filters cover a filter, and which does it cover?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reefcast.matching.cover.interface import CoverIndex, RootChange, Roots

if TYPE_CHECKING:
    from reefcast.matching.cover.index import CompiledCoverIndex
    from reefcast.matching.cover.roots import CompiledRoots

__all__ = ["CoverIndex", "RootChange", "Roots", "new_cover_index", "new_roots", "warm_up"]


def new_cover_index() -> CompiledCoverIndex[Any]:
    """Return an empty index of the fastest kind. Its library is loaded here, not with this
    module."""
    from reefcast.matching.cover.index import CompiledCoverIndex

    return CompiledCoverIndex()


def new_roots() -> CompiledRoots[Any]:
    """Return an empty set of roots."""
    from reefcast.matching.cover.roots import CompiledRoots

    return CompiledRoots()


def warm_up() -> None:
    """Compile every kernel of covering, or load the kept code."""
    import_module("reefcast.matching.cover.roots")
