"""What operators wish of a broker over an admin connection, beside asking for its status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from reefcast.errors import LocalError
from reefcast.model.messages import Apply, OperatorWish, Wish


class Applier(Protocol):
    """What reads a broker's network file again (`applying.Applying`)."""

    def apply(self, wanted: str, *, dry: bool) -> Sequence[NamedTuple]: ...


class Wishes:
    """The wishes of broker `name`. `of_core`: meets those that its core is asked. `applying`: reads
    its network file again; None for a broker without one."""

    def __init__(self, of_core: Callable[[Wish], None], name: str) -> None:
        self._of_core = of_core
        self._name = name
        self.applying: Applier | None = None
        self._applied: Sequence[NamedTuple] = ()

    def meet(self, wish: OperatorWish) -> None:
        """Do what an operator wishes. Raises `LocalError` if that cannot be."""
        if not isinstance(wish, Apply):
            self._of_core(wish)
        elif self.applying is None:
            raise LocalError(f"broker {self._name} was started without a network file")
        else:
            self._applied = self.applying.apply(wish.fingerprint, dry=wish.dry)

    def status(self) -> dict[str, object]:
        """Return what is to be seen of wishes: what the last `Apply` found."""
        return {"applied": [each._asdict() for each in self._applied]}
