"""The sessions of a broker, with a note of what they turned away because they were full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reefcast.model.messages import LinkName, Publish
from reefcast.model.publication import PublicationId
from reefcast.sessions.home import Home
from reefcast.sessions.outcome import Verdict

TurnedAway = set[tuple[LinkName, PublicationId]]
"""(link of a session, event): the session has refused the event, or another one has that was to
have it by the same copy and this one has it.

P3 owes no place in the order to what a session has refused (rule 13: the publisher gets an error
for it). A custody on the way may offer it again all the same, before the publisher has heard of the
refusal or after it; if there is room by then, the session takes it, behind what is newer."""


class NotingHome(Home):
    """A `Home` that notes in `turned_away` what its sessions refuse."""

    def __init__(self, *arguments: Any, turned_away: TurnedAway, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._turned_away = turned_away

    def owe(self, publish: Publish, to: Mapping[LinkName, Sequence[int]], now: float) -> Verdict:
        """Owe a publication to sessions, and note those that may have refused it."""
        verdict = super().owe(publish, to, now)
        if verdict.refused:
            self._turned_away.update((link, publish.publication.id) for link in to)
        return verdict
