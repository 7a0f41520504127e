"""Indexes: which stored filters does a publication match?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex

COMPILING = "preparing the matching index: it is compiled at the first start (about a minute)"


def new_index() -> CompiledIndex[Any]:
    """Make an empty index of the fastest kind. Its library is loaded here, not with this module."""
    from reefcast.matching.index import CompiledIndex

    return CompiledIndex()


def warm_up() -> None:
    """Compile every kernel, or load the kept code; call it before time counts."""
    import_module("reefcast.matching.index")
    import_module("reefcast.matching.passage.kernels")


def telling_of_compiling(tell: Callable[[str], None]) -> AbstractContextManager[None]:
    """Have `tell` called with `COMPILING`, in the thread that will wait, if kernels have to be
    compiled before the block ends: it begins before what imports them."""
    from reefcast.matching.native.store import before_compiling

    return before_compiling(lambda: tell(COMPILING))
