"""Indexes: which stored filters does a publication match?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex


def new_index() -> CompiledIndex[Any]:
    """An empty index of the fastest kind. Its library is loaded here, not with this module."""
    from reefcast.matching.index import CompiledIndex

    return CompiledIndex()


def warm_up() -> None:
    """Compiles every kernel, or loads it from numba's cache on disk; call it before time counts."""
    from reefcast.matching.index import warm_up as warm_up_index

    warm_up_index()
