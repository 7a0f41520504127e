"""Tables of states and steps: a step that is not in the table is an internal error."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from reefcast.errors import InternalError

S = TypeVar("S", bound=Enum)
T = TypeVar("T", bound=Enum)


def follow(table: Mapping[tuple[S, T], S], what: str, state: S, step: T) -> S:
    """Return the state that `step` leads to from `state`. Raises `InternalError` for a step that is
    not in the table; `what` names, in the message, the thing that is in that state."""
    try:
        return table[state, step]
    except KeyError:
        raise InternalError(f"{what} that is {state.name} cannot {step.name}") from None
