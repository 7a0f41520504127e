"""Random changes, as a broker makes them: numbers ascend, and only what is there is dropped."""

from __future__ import annotations

import random

from reefcast.model.keeping import (
    Change,
    DropEvents,
    DropOwed,
    DropRow,
    DropSeen,
    DropSession,
    PutEvent,
    PutMark,
    PutNotes,
    PutOwed,
    PutRow,
    PutSeen,
    PutSession,
    PutTries,
    SessionOptions,
    SessionRecord,
)


class Changes:
    """A source of random batches. `size`: the largest body."""

    def __init__(self, rng: random.Random, size: int = 300) -> None:
        self.rng = rng
        self.size = size
        self.sessions: list[int] = []
        self.last_session = self.event = 0
        self.position: dict[int, int] = {}

    def batch(self) -> list[Change]:
        return [change for _ in range(self.rng.randint(1, 8)) for change in self.some()]

    def some(self) -> list[Change]:
        rng = self.rng
        kind = rng.choice("rrRseeeeeommdDtnNpp" if self.sessions else "rRs")
        if kind in "rR":
            key = (rng.choice(("srt", "prt")), bytes([rng.randrange(8)]))
            return [PutRow(*key, rng.randbytes(9)) if kind == "r" else DropRow(*key)]
        if kind == "s":
            self.last_session += 1
            self.sessions.append(self.last_session)
            self.position[self.last_session] = 0
            return [PutSession(self.last_session, self.record())]
        session = rng.choice(self.sessions)
        at = rng.randint(0, self.position[session])
        if kind == "e":
            return self.publish()
        if kind == "o":
            return [PutSession(session, self.record())]
        if kind == "m":
            return [PutMark(session, at)]
        if kind == "t":
            return [PutTries(session, at, rng.randint(1, 9), rng.choice(("", "too often")))]
        if kind == "n":
            bits = rng.randbytes(16)
            return [PutSeen(session, rng.choice("pq"), rng.randint(-2, 3), bits, rng.random())]
        if kind == "N":
            return [DropSeen(session, rng.choice("pq"), rng.randint(-2, 3))]
        if kind == "p":
            keys = rng.sample(("", "a", "a\0", "ä" * 30_000), rng.randint(0, 3))
            texts = (None, "", "\0", "text", "ü" * self.size)
            return [PutNotes(session, {key: rng.choice(texts) for key in keys})]
        if kind == "d":
            return [DropOwed(session, at, min(self.position[session], at + rng.randint(0, 3)))]
        if rng.random() < 0.3:
            self.sessions.remove(session)
            return [DropSession(session)]
        first = rng.randint(0, self.event)
        return [DropEvents(first, min(self.event, first + rng.randint(0, 3)))]

    def record(self) -> SessionRecord:
        options = SessionOptions(max_events=self.rng.randint(1, 99))
        number = self.rng.randrange(1000)
        return SessionRecord(
            name="s", owner="ü", link=f"$s{number}", created_s=0.5, options=options,
            subscriptions={number: "x > 1"},
        )  # fmt: skip  # the text of a filter ends it

    def publish(self) -> list[Change]:
        self.event += 1
        body = self.rng.randbytes(self.rng.randint(1, self.size))
        changes: list[Change] = [PutEvent(self.event, ("p", self.event * 7), 1.5, body)]
        for session in self.sessions[:2]:
            self.position[session] += 1
            late = self.event % 2 == 1
            changes.append(
                PutOwed(
                    session,
                    self.position[session],
                    self.event,
                    2.5,
                    (1, 3),
                    late,
                )
            )
        return changes
