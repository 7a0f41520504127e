"""What operators wish of a broker over an admin connection, beside asking for its status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from reefcast.errors import LocalError
from reefcast.logs import about, part
from reefcast.model.messages import TakenOut, Wish
from reefcast.model.operations import Apply, Drain, OperatorWish, Stop
from reefcast.server.draining import Draining

log = part("broker")


class Applier(Protocol):
    """What reads a broker's network file again (`applying.Applying`)."""

    def apply(self, wanted: str, *, dry: bool) -> Sequence[NamedTuple]: ...


class Wishes:
    """The wishes of broker `name`. `of_core`: meets those that its core is asked. `applying`: reads
    its network file again; None for a broker without one. `draining`: hands its clients to
    others. `end_process`: ends its process, to be started again or not; None inside a program."""

    def __init__(
        self, of_core: Callable[[Wish | TakenOut], None], name: str, draining: Draining
    ) -> None:
        self._of_core = of_core
        self._name = name
        self.draining = draining
        self.applying: Applier | None = None
        self.end_process: Callable[[bool], None] | None = None
        self._applied: Sequence[NamedTuple] = ()

    def meet(self, wish: OperatorWish) -> None:
        """Do what an operator wishes. Raises `LocalError` if that cannot be."""
        if isinstance(wish, Drain):
            self._drain(on=wish.on)
        elif isinstance(wish, Stop):
            self._stop(again=wish.again)
        elif not isinstance(wish, Apply):
            self._of_core(wish)
        elif self.applying is None:
            raise LocalError(f"broker {self._name} was started without a network file")
        else:
            self._applied = self.applying.apply(wish.fingerprint, dry=wish.dry)

    def _drain(self, *, on: bool) -> None:
        if on:
            self.draining.begin()
        else:
            self.draining.end()

    def _stop(self, *, again: bool) -> None:
        if self.end_process is None:
            raise LocalError(f"broker {self._name} runs inside a program: only that can end it")
        words, what = "broker %s ends %s", "to be started again" if again else "for good"
        log.warning(words, self._name, what, extra=about(broker=self._name))
        if not again:
            self._of_core(TakenOut())
        self.end_process(again)

    def status(self) -> dict[str, object]:
        """Return what is to be seen of wishes: what the last `Apply` found, and how far the broker
        is drained."""
        applied = [each._asdict() for each in self._applied]
        return {"applied": applied, "drain": self.draining.status()}
