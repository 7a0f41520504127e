"""What a client has to do with durable sessions."""

from __future__ import annotations

import asyncio
from typing import Unpack

from reefcast.client.durable import PREFETCH, DurableSession, SessionChoices, rows_of
from reefcast.client.session import Session
from reefcast.sessions.messages import ListSessions, SessionRow


class SessionClient:
    """The part of a client that opens durable sessions. `_session`: its state."""

    _session: Session

    def session(
        self,
        name: str,
        *,
        prefetch: int = PREFETCH,
        filter: str = "",
        owner: str = "",
        here: bool = False,
        **choices: Unpack[SessionChoices],
    ) -> DurableSession:
        """Return the durable session with this name, at whatever broker it is; await the result to
        make it, at the broker that this client is connected to, if there is none. See
        `DurableSession`.

        `prefetch`: how many events this consumer may have without having acknowledged them; 0: none
        until `resize`.
        `filter`: a further one, for this consumer alone, which takes only the session's events that
        match. `owner`: the user whose session it is, this client's by default; other users' are for
        administrators. `here`: make the session although some broker cannot be asked whether it has
        one with this name; else the client asks again for ten seconds. `choices`: see
        `SessionChoices`. Raises `FilterSyntaxError` and `LocalError`; awaiting it raises
        `RefusedError` if this broker is to make the session and keeps none, or some broker cannot
        be asked.
        """
        return DurableSession(
            *(self._session, name),
            owner=owner,
            prefetch=prefetch,
            filter=filter,
            here=here,
            choices=choices,
        )

    async def sessions(self, owner: str = "") -> list[SessionRow]:
        """Return the durable sessions of a user at the broker that this client is connected to; by
        default its own, "*" for everybody's. Others' are for administrators (`RefusedError`)."""
        token = self._session.consuming.next_token()
        return await rows_of(self._session, ListSessions(token=token, owner=owner))

    async def _until_events_acknowledged(self) -> None:
        """Wait until the homes of durable sessions have what was acknowledged."""
        await asyncio.sleep(0)  # what was acknowledged in this turn of the loop is said now
        with self._session.awaiting_answer():
            for attachment in self._session.consuming.consumers:
                while not (attachment.is_acknowledged() or attachment.ended):
                    await attachment.changed.wait()
