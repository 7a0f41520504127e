"""What is to be known of a client whose broker may be drained."""

from __future__ import annotations


class Going:
    """`stores`: it is a storage, and stays. `collects`: it comes back once more for what has come
    for it, from another broker; `moved`: it has gone, and has not been back yet; `collecting`: it
    is back for that only."""

    __slots__ = ("collecting", "collects", "moved", "stores")

    def __init__(self) -> None:
        self.stores = self.collects = self.moved = self.collecting = False
