"""`Seen` beside a dictionary of ids with their times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.keeping import CHUNK, Contents, SessionRecord, StoredSession
from reefcast.sessions.collecting import Collected
from reefcast.sessions.seen import Seen
from reefcast_lab.torture.stores import Stored, apply

KEEP_S = 10.0
ids = st.tuples(
    st.sampled_from(("p", "q")),
    st.one_of(st.integers(-3, 3), st.integers(CHUNK - 2, CHUNK + 2), st.integers()),
)


@given(st.lists(st.tuples(ids, st.floats(0, 6)), max_size=20))
def test_ids_are_remembered_for_long_enough_and_survive_a_restart(
    had: list[tuple[tuple[str, int], float]],
) -> None:
    collected, now = Collected(), 0.0
    seen = Seen(1, KEEP_S, {})
    times: dict[tuple[str, int], float] = {}
    state = Stored()
    state.contents = Contents(
        sessions={1: StoredSession(SessionRecord(name="s", owner="", link="$s", created_s=0.0))}
    )
    for id, wait_s in had:
        now += wait_s
        seen.forget(now, collected)
        assert seen.due_s > now
        if id in seen:
            assert id in times
        else:
            assert times.get(id, -KEEP_S) + KEEP_S <= now
            seen.add(id, now, collected)
            times[id] = now
        assert all(each in seen for each, at in times.items() if at + KEEP_S > now)
        for change in collected.take_changes():
            apply(change, state)
        again = Seen(1, KEEP_S, state.contents.sessions[1].seen)
        assert {each for each in times if each in again} == {e for e in times if e in seen}
    seen.forget(now, collected)
    latest: dict[tuple[str, int], float] = {}
    for (publisher, seq), at in times.items():
        chunk = publisher, seq // CHUNK
        latest[chunk] = max(at, latest.get(chunk, at))
    for publisher, seq in times:
        if latest[publisher, seq // CHUNK] + KEEP_S <= now:
            assert (publisher, seq) not in seen, "it is remembered for ever"
    seen.forget(now + KEEP_S, collected)
    for change in collected.take_changes():
        apply(change, state)
    assert not any(each in seen for each in times)
    assert not state.contents.sessions[1].seen
