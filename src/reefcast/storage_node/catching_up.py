"""Catching up: a storage gets what it lacks from all storages that answer for a topic, since each
may have been away at another time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from reefcast.client.event import Event
from reefcast.client.history import History
from reefcast.client.session import Session
from reefcast.errors import ConnectionLostError, RefusedError
from reefcast.history.asking import SLACK_S, question_about
from reefcast.history.store import HistoryStore
from reefcast.logs import part
from reefcast.model.topics import topic_filter

log = part("storage")

OVERLAP_S = SLACK_S
"""How long before its last certain event a storage starts to ask another one."""
PATIENCE_S = 10.0
AT_ONCE = 32
"""Topics that are fetched at the same time."""


class CatchUp:
    """`append` stores the missing events of other storages.

    The answer stays open for `handover_s`: publications that were routed before our subscription
    had settled, and are still on their way to the other storage, are then in the answer."""

    def __init__(
        self,
        session: Session,
        store: HistoryStore,
        append: Callable[[Sequence[Event]], Awaitable[None]],
        handover_s: float,
    ) -> None:
        self._session = session
        self._store = store
        self._append = append
        self._handover_s = handover_s
        self._free = asyncio.Semaphore(AT_ONCE)

    async def of(self, topic: str, is_wanted: Callable[[str], bool]) -> bool:
        """Fetch what is missing of this topic, and return whether all other storages sent all of
        it. There may be no other, an answer may break off, or the topic may no longer be wanted."""
        since_us = self._store.whole_us(topic)
        question = question_about(
            topic_filter([topic]),
            since_us=None if since_us is None else since_us - int(OVERLAP_S * 1e6),
            handover_s=self._handover_s,
            for_storage=True,
        )
        history = History(self._session, question, PATIENCE_S)
        history.start()
        try:
            async with self._free:
                while not history.hands_over and is_wanted(topic):
                    await self._append(await history.next_batch())
            while is_wanted(topic):
                await self._append(await history.next_batch())
        except StopAsyncIteration:
            return True
        except (RefusedError, ConnectionLostError) as error:
            if self._session.ended:
                raise
            log.info("catching up on %s: %s", topic, error)
        finally:
            history.cancel()
        return False
