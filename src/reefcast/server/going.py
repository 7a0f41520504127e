"""What is to be known of a client whose broker may be drained."""

from __future__ import annotations


class Going:
    """What becomes of a client while its broker is drained. `stores`: it is a storage, and stays.
    `collects`: it is able to come back once more, from another broker, for what has come for it;
    `moved`: it has gone, and has not been back yet; `collecting`: it is back for that only."""

    __slots__ = ("collecting", "collects", "moved", "stores")

    def __init__(self) -> None:
        self.stores = self.collects = self.moved = self.collecting = False
