"""The judge of filters agrees with another one, SQLite."""

from __future__ import annotations

import random
import sqlite3

from torture.judge import TOPICS, draw_event, draw_filter

COLUMNS = ("topic", "price", "kind", "name", "weight", "urgent")


def test_filters_hold_for_the_same_events_as_in_sqlite() -> None:
    rng = random.Random(1)
    events = [draw_event(rng) for _ in range(200)]
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA case_sensitive_like = ON")
    database.execute(f"CREATE TABLE events (number, {', '.join(COLUMNS)})")
    rows = [(i, *(event.get(name) for name in COLUMNS)) for i, event in enumerate(events)]
    database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    held = 0
    for number in range(400):
        wanted = draw_filter(rng, names_topics=number % 2 == 0)
        said = database.execute(f"SELECT number FROM events WHERE {wanted.text}").fetchall()
        mine = [i for i, event in enumerate(events) if wanted.holds(event)]
        assert mine == sorted(i for (i,) in said), wanted.text
        held += len(mine)
    assert 0.1 < held / (400 * 200) < 0.6  # filters that want something, and not all


def test_filters_of_gossip_name_their_topics() -> None:
    rng = random.Random(2)
    for _ in range(50):
        wanted = draw_filter(rng, names_topics=True)
        assert wanted.text.startswith(("(topic = '", "(topic IN ('"))
        assert not wanted.holds({**draw_event(rng), "topic": "another"}), wanted.text
    assert draw_event(rng)["topic"] in TOPICS


def test_the_same_seed_draws_the_same() -> None:
    one, other = random.Random(3), random.Random(3)
    assert draw_event(one) == draw_event(other)
    assert draw_filter(one).text == draw_filter(other).text
