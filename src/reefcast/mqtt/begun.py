"""How the deliveries of a client's durable session were begun, where its subscriptions say
something else by now.

Rules
-----
- What has begun is completed as it began, with its QoS and its identifiers, also over another
  connection, although its subscription has ended or has other options (MQTT-3.10.4-3).
- What the home hands out again has begun, and what it says of it follows from the subscriptions
  unless they have changed since. If so, the session's notes have it: for each delivery that is not
  over (`BEGUN` and its position), and for each number of a subscription that has changed while the
  home may still have to hand out again what a former connection had (`ENDED` and the number).
- The home hands out what it hands out again before anything new. So the notes of numbers go with
  the first new event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from reefcast.mqtt.lasting import BEGUN, ENDED
from reefcast.mqtt.outgoing import Delivery, State
from reefcast.mqtt.subscriptions import Match, merged
from reefcast.sessions.messages import Owed

Changes = dict[str, str | None]
"""Notes by their keys; None removes one."""

_encode = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(Match).decode


class Begun:
    """The deliveries of one connection. `take` returns what is to be noted."""

    __slots__ = ("_begun", "_changes", "_ended", "_returns")

    def __init__(self) -> None:
        self._begun: dict[int, Match] = {}
        self._ended: dict[int, Match] = {}
        self._changes: Changes = {}
        self._returns = False

    def resume(self, notes: Mapping[str, str]) -> None:
        """Go on with the notes of a session that a former connection has left."""
        self._returns = True
        for key, note in notes.items():
            if key.startswith(BEGUN):
                self._begun[int(key.removeprefix(BEGUN))] = _read(note)
            elif key.startswith(ENDED):
                self._ended[int(key.removeprefix(ENDED))] = _read(note)

    def nothing_owed(self) -> None:
        """Note that the session owes nothing: whatever had begun is over."""
        for position in list(self._begun):
            self.over(position)
        self._nothing_returns()

    def match_of(self, owed: Owed, says: Callable[[Iterable[int]], Match | None]) -> Match | None:
        """Return how an event that the home hands out is delivered, None if it is not. `says`
        returns what the subscriptions with these numbers say now."""
        now = says(owed.subscriptions)
        if owed.tries == 1:
            self._nothing_returns()
            return now
        began = self._begun.get(owed.position)
        if began is not None or not self._ended:
            return began or now
        ended = [self._ended[each] for each in owed.subscriptions if each in self._ended]
        still = says([each for each in owed.subscriptions if each not in self._ended])
        began = merged([*ended, still] if still else ended)
        if began is not None and began != now:
            self._keep(owed.position, began)
        return began

    def ends(self, number: int, said: Match | None) -> None:
        """Keep what a subscription of the session has said of deliveries, because it ends with the
        next change."""
        if self._returns and said is not None and number not in self._ended:
            self._ended[number] = said
            self._changes[f"{ENDED}{number}"] = _encode(said).decode()

    def changed(
        self, deliveries: Iterable[Delivery], says: Callable[[Delivery], Match | None]
    ) -> None:
        """Keep how deliveries were begun of which the changed subscriptions now say something
        else."""
        for each in deliveries:
            has_begun = each.state in (State.WAITING, State.SENT) and each.match is not None
            if has_begun and each.position not in self._begun and says(each) != each.match:
                assert each.match is not None
                self._keep(each.position, each.match)

    def over(self, position: int) -> None:
        """Forget a delivery that is over."""
        if self._begun.pop(position, None) is not None:
            self._changes[f"{BEGUN}{position}"] = None

    def take(self) -> Changes:
        """Return what is to be noted, once."""
        changes, self._changes = self._changes, {}
        return changes

    def _keep(self, position: int, match: Match) -> None:
        self._begun[position] = match
        self._changes[f"{BEGUN}{position}"] = _encode(match).decode()

    def _nothing_returns(self) -> None:
        if self._returns:
            self._returns = False
            self._changes |= dict.fromkeys((f"{ENDED}{each}" for each in self._ended), None)
            self._ended.clear()
