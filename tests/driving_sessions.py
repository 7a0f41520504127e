"""A driver of a `Home` for tests: a simulated disk that is written and synced when the test
says."""

from __future__ import annotations

import random
from collections.abc import Sequence

from reefcast.model.messages import Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication
from reefcast.sessions.home import Home
from reefcast.sessions.outcome import Outcome
from reefcast_lab.torture.stores import SimulatedStore


def publication(
    publisher: str, seq: int, time_s: float = 0.0, *, payload: bytes = b"", **attributes: object
) -> Publication:
    expires = {"$expires_s": attributes.pop("expires_s")} if "expires_s" in attributes else {}
    return Publication(publisher, seq, int(time_s * 1e6), attributes | expires, (), payload)


def publish(made: Publication) -> Publish:
    return Publish(made, body=encode_publication(made))


class Driver:
    """`home` with its `store`; `turn` does what a broker does after an input."""

    def __init__(self, memory_bytes: int = 1 << 20, dedup_s: float = 3600.0) -> None:
        self.store = SimulatedStore()
        self.now = 0.0
        self.token = 0
        self.unsynced: list[int] = []
        self._settings = {"memory_bytes": memory_bytes, "dedup_s": dedup_s}
        self.outcomes: list[Outcome] = []
        self.start()

    def start(self) -> None:
        self.home = Home(self.store.load(), now=self.now, **self._settings)

    def take(self) -> Outcome:
        """Return what one input brought about; it is written, not synced."""
        self.token += 1
        outcome = self.home.take(self.token)
        self.outcomes.append(outcome)
        if outcome.changes:
            self.store.write(outcome.changes)
            self.unsynced.append(self.token)
        if outcome.fetch:
            self.home.fetched(*self.store.bodies(outcome.fetch), self.now)
        return outcome

    def sync(self, rng: random.Random | None = None) -> int:
        """Sync all batches, or with `rng` some of the first; return the last token that counts."""
        count = len(self.unsynced) if rng is None else rng.randint(0, len(self.unsynced))
        self.store.sync(count)
        if not count:
            return self.unsynced[0] - 1 if self.unsynced else self.token
        token = self.unsynced[count - 1]
        del self.unsynced[:count]
        self.home.kept(token, self.now)
        return token

    def settle(self) -> Sequence[Outcome]:
        """Write and sync until nothing more happens; return everything that was brought about."""
        first = len(self.outcomes)
        while (outcome := self.take()).changes or outcome.fetch or outcome.read or outcome.replies:
            self.sync()
        return self.outcomes[first:]

    def kill(self, rng: random.Random | None) -> None:
        """Kill the broker (with `rng` the power fails) and start it again."""
        self.store.kill(rng)
        self.unsynced = []
        self.start()
