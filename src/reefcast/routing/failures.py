"""Failures of a broker on single inputs: a failure affects only its input, and the rest of the same
input happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from reefcast.errors import InternalError
from reefcast.model.messages import Effect, LinkName, Publish

Match = Callable[[Sequence[Publish], LinkName], Sequence[Any]]
"""See `Router.match`."""


class Failure(NamedTuple):
    """`publish` could not be routed or delivered; None: the failure is of all of them together."""

    publish: Publish | None
    error: Exception


class PartlyFailed(InternalError):
    """A broker failed on some publications; `effects` has the other effects of the input."""

    def __init__(self, broker: str, effects: list[Effect], failures: Sequence[Failure]) -> None:
        publish, error = failures[0]
        first = "what they gave cause for" if publish is None else f"{publish.publication.id}"
        super().__init__(
            f"broker {broker} failed on {len(failures)} of the publications; first on {first}: "
            f"{type(error).__name__}: {error}"
        )
        self.effects = effects
        self.failures = failures


class Failures(list[Failure]):
    """The failures of one input."""

    def on(self, publish: Publish | None, error: Exception) -> None:
        self.append(Failure(publish, error))

    def told(self, broker: str, effects: list[Effect]) -> list[Effect]:
        """Return `effects`, or raise a `PartlyFailed` with them if there are failures."""
        if not self:
            return effects
        failures = tuple(self)
        self.clear()
        raise PartlyFailed(broker, effects, failures) from failures[0].error

    def matched(
        self, match: Match, batch: Sequence[Publish], link: LinkName
    ) -> tuple[list[Publish], list[Any]]:
        """Match each publication by itself; return those that `match` does not fail on, and what it
        finds for each. It changes nothing, so it may be called again."""
        rest: list[Publish] = []
        found: list[Any] = []
        for publish in batch:
            try:
                found += match((publish,), link)
                rest.append(publish)
            except Exception as error:
                self.on(publish, error)
        return rest, found
