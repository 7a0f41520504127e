"""A durable session of a client in this process, with its notes."""

from __future__ import annotations

from collections.abc import Mapping

from reefcast.client.durable import DurableSession, SessionChoices, answer_to
from reefcast.server.http.inner import InnerClient
from reefcast.sessions.messages import MOST_DELAY_S, Done, Note, Notes, ReadNotes


class NotedSession(DurableSession):
    """See the module's docstring. `most_deliveries`: how often an event is handed out before it is
    a dead letter; `expiry_s`: for how many seconds the session lasts without consumers, 0: for
    ever. Both count when it is awaited."""

    def __init__(
        self,
        client: InnerClient,
        name: str,
        *,
        most_deliveries: int = 0,
        expiry_s: float = 0.0,
        prefetch: int = 1,
    ) -> None:
        choices = SessionChoices(
            max_deliveries=most_deliveries,
            expiry_s=expiry_s,
            ack_wait_s=MOST_DELAY_S,  # as long as a sink may want to be left alone
        )
        super().__init__(
            *(client.protocol_session, name),
            owner="",
            prefetch=prefetch,
            filter="",
            here=True,
            choices=choices,
        )

    async def notes(self) -> dict[str, str]:
        """Return the notes. Raises `RefusedError`, as all methods of a session do."""
        token = self._session.consuming.next_token()
        asked = ReadNotes(token=token, session=self.name)
        return (await answer_to(self._session, asked, Notes)).notes

    async def note(self, notes: Mapping[str, str | None]) -> None:
        """Keep notes on the home's disk; None removes one."""
        token = self._session.consuming.next_token()
        asked = Note(token=token, session=self.name, notes=dict(notes))
        await answer_to(self._session, asked, Done)
