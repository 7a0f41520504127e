"""The interface of covering indexes: which stored filters cover a filter, and which does it cover?

`scan` holds the slow, obvious twins."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

from reefcast.model.filters import Filter

K = TypeVar("K", bound=Hashable)


class CoverIndex(Protocol[K]):
    """A multiset of filters under keys of the caller's choice.

    Keys are hashable and unique: adding a key that exists raises `LocalError`, and so does removing
    one that does not. `model.covering` defines covering, intersecting and equal; of two filters
    with many conjunctions each, an index may miss that one covers the other. The order of the keys
    found is not specified, but it depends only on the sequence of calls."""

    def add(self, key: K, filter: Filter) -> None: ...

    def remove(self, key: K) -> None: ...

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...

    def covering(self, filter: Filter) -> list[K]:
        """Return the keys of the stored filters that cover `filter`."""
        ...

    def covered(self, filter: Filter) -> list[K]:
        """Return the keys of the stored filters that `filter` covers."""
        ...

    def intersecting(self, filter: Filter) -> list[K]:
        """Return the keys of the stored filters that intersect `filter`."""
        ...

    def equal(self, filter: Filter) -> list[K]:
        """Return the keys of the stored filters that cover `filter` and that it covers."""
        ...

    def memory_bytes(self) -> int:
        """Return the bytes of the index, without the filters."""
        ...


class RootChange(NamedTuple, Generic[K]):
    """The keys that became roots, and those that ceased to be (a removed key among them), both in
    the order in which they were added."""

    entered: list[K]
    left: list[K]


class Roots(Protocol[K]):
    """Stored filters, and which of them are *roots*: those that no other filter dominates.

    `g` dominates `f` if `g` covers `f`, and `f` does not cover `g` or is younger. So of filters
    that cover each other the first added is a root, and when it is removed the next oldest takes
    over."""

    def add(self, key: K, filter: Filter) -> RootChange[K]: ...

    def remove(self, key: K) -> RootChange[K]: ...

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...

    def keys(self) -> list[K]:
        """Return the roots, in the order in which they were added."""
        ...

    def is_root(self, key: K) -> bool:
        """Return whether a key is a root; False for a key that is not stored."""
        ...

    def has_below(self, key: K) -> bool:
        """Return whether the key is the witness of others, which might be roots without it."""
        ...

    def below(self, key: K) -> list[K]:
        """Return the keys whose witness this one is: if it is removed, the new roots are among
        them."""
        ...

    def root_of(self, key: K) -> K:
        """Return a root that dominates the key, perhaps through others; the key itself if it is a
        root, or never matches."""
        ...
