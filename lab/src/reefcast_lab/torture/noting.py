"""The notes that consumers leave with a durable session in a tortured network, and what must hold
of them.

A *writer* is a consumer under one of its numbers. Each of its steps writes, changes and removes
notes under keys of its own, in one message: so what is stored tells which step was the last, and
whether a step was written by halves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reefcast.model.keeping import Position

_SLOTS = 3
Step = tuple[str, int]
"""A writer, and the number of its step, from 1."""
NO_STEP: Step = ("", 0)


class Noting:
    """The notes of one life of a session. `done`: writer -> the last of its steps that was
    answered. `behind`: position -> the steps that were sent before its acknowledgements."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.behind: dict[Position, list[Step]] = {}

    def begin(self, writer: str) -> tuple[Step, dict[str, str | None]]:
        """Return the writer's next step, and its notes."""
        step = self._sent[writer] = self._sent.get(writer, 0) + 1
        removed = {_slot(writer, step + 1): None}
        return (writer, step), {**_written(writer, step), **removed}

    def is_done(self, step: Step) -> None:
        """Note that a step was answered: it is on disk for ever."""
        writer, number = step
        self.done[writer] = max(number, self.done.get(writer, 0))

    def check(self, notes: Mapping[str, str], least: Mapping[str, int]) -> Iterator[str]:
        """Yield what is wrong with all notes of the session. `least`: writer -> the step that they
        show at least."""
        for writer, sent in self._sent.items():
            its = {key: text for key, text in notes.items() if key.startswith(f"{writer}/")}
            step = int(its.get(f"{writer}/last", 0))
            if not least.get(writer, 0) <= step <= sent:
                yield (
                    f"notes: {writer} has sent {sent} steps, {least.get(writer, 0)} of them were "
                    f"answered, and step {step} is there"
                )
            elif its != _after(writer, step):
                yield f"notes: step {step} of {writer} is there by halves: {its}"

    def check_gone(self, gone: Iterable[Position], notes: Mapping[str, str]) -> Iterator[str]:
        """Yield what is wrong if these positions leave the queue for the disk, and these notes are
        on it then."""
        for position in gone:
            steps = self.behind.get(position, [NO_STEP])
            if all(int(notes.get(f"{writer}/last", 0)) < step for writer, step in steps):
                yield f"notes: {position} is acknowledged before {steps}"

    def check_done(self, step: Step) -> Iterator[str]:
        """Yield what is wrong if an acknowledgement behind this step is answered now."""
        writer, number = step
        if self.done.get(writer, 0) < number:
            yield f"notes: an acknowledgement is done, and step {number} of {writer} is not"


def _slot(writer: str, step: int) -> str:
    return f"{writer}/{step % _SLOTS}"


def _written(writer: str, step: int) -> dict[str, str]:
    return {f"{writer}/last": str(step), _slot(writer, step): str(step)}


def _after(writer: str, step: int) -> dict[str, str]:
    """Return the writer's notes after this step, as it is alone with them."""
    before = {_slot(writer, step - 1): str(step - 1)} if step > 1 else {}
    return before | _written(writer, step) if step else {}
