"""Tasks that ask the broker something and go on when it has answered, without an event loop.

A task is a coroutine: `await asking.ask(message)` sends a message with a token of its own, and
returns the answer to it. What drives the coroutine is the answer (`Asking.answered`), so a task
runs as part of the input that it waits for. A task that is given up is closed, and no answer
reaches it any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from reefcast.model.messages import ControlMessage

Task = Coroutine[Any, Any, None]
Make = Callable[[int], ControlMessage]
"""Makes the message with this token."""


@coroutine
def _answer_to(token: int) -> Generator[int, ControlMessage, ControlMessage]:
    return (yield token)


class Asking:
    """What one client asks of its broker. `control` sends a message; it may answer at once."""

    def __init__(self, control: Callable[[ControlMessage], None]) -> None:
        self._control = control
        self._last = 0
        self._waiting: dict[int, Task] = {}
        self._early: dict[int, deque[ControlMessage]] = {}
        self._queue: list[Task] = []  # a deque takes half a kilobyte, and there are many clients
        self._queued: Task | None = None

    async def ask(self, make: Make) -> Any:
        """Send a message; return the answer."""
        self._last = token = self._last + 1
        return await self.more(token, make(token))

    async def more(self, token: int, message: ControlMessage | None = None) -> Any:
        """Send a message that belongs to a question with this token, if there is one; return the
        next answer to the question."""
        early = self._early.setdefault(token, deque())
        if message is not None:
            self._control(message)
        if early:
            return early.popleft()
        del self._early[token]
        return await _answer_to(token)

    def tell(self, make: Make) -> None:
        """Send a message whose answer nobody waits for."""
        self._last += 1
        self._control(make(self._last))

    def begin(self, task: Task) -> None:
        """Begin a task, beside the others."""
        self._go_on(task, None)

    def queue(self, task: Task) -> None:
        """Begin a task when the queued ones before it are over."""
        self._queue.append(task)
        if self._queued is None:
            self._next()

    @property
    def busy(self) -> bool:
        """Whether a queued task is not over."""
        return self._queued is not None

    def answered(self, token: int, answer: ControlMessage) -> None:
        """Hand over an answer to the task that waits for it."""
        task = self._waiting.pop(token, None)
        if task is not None:
            self._go_on(task, answer)
        elif token in self._early:
            self._early[token].append(answer)

    def close(self) -> None:
        """Give up all tasks."""
        tasks = [*self._waiting.values(), *self._queue]
        self._waiting.clear()
        self._queue.clear()
        self._queued = None
        for task in tasks:
            task.close()

    def _go_on(self, task: Task, answer: ControlMessage | None) -> None:
        try:
            self._waiting[task.send(answer)] = task
        except StopIteration:
            if task is self._queued:
                self._next()

    def _next(self) -> None:
        self._queued = None
        while self._queue and self._queued is None:
            self._queued = task = self._queue.pop(0)
            self._go_on(task, None)
