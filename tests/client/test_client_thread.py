"""The thread of the synchronous client."""

from __future__ import annotations

import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from reefcast.client.thread import LoopThread
from reefcast.errors import LocalError


def test_what_is_begun_is_made_in_the_thread_and_not_at_all_if_that_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[threading.Thread] = []
    done = threading.Event()

    async def work() -> None:
        done.set()

    def make() -> Any:
        made.append(threading.current_thread())
        return work()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with closing(SimpleNamespace(close=(thread := LoopThread()).stop)):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(thread, "_loop", SimpleNamespace(call_soon_threadsafe=interrupt))
            thread.begin(make)
        assert not made
        thread.begin(make)
        assert done.wait(60)
        assert made == [thread._thread]
    with pytest.raises(LocalError, match="closed"):
        thread.begin(make)
