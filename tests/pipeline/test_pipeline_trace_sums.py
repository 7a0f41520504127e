"""What the driver adds up of a trace: each message once, at its link, its kind and its broker."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reefcast.pipeline import trace_sums
from reefcast.traces.vocabulary import FOUND_OVERLOADED

BROKERS = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["publish", "subscribe", "advertise"])
SENT = st.tuples(BROKERS, BROKERS, KINDS).filter(lambda sent: sent[0] != sent[1])


def rows(sent: dict[tuple[str, str, str], int]) -> list[dict[str, Any]]:
    return [
        {"broker": broker, "link": link, "message": kind, "count": count, "size_bytes": 10 * count}
        for (broker, link, kind), count in sent.items()
    ]


@given(sent=st.dictionaries(SENT, st.integers(1, 100)))
def test_each_message_is_counted_once(sent: dict[tuple[str, str, str], int]) -> None:
    counts = rows(sent)
    links = trace_sums.link_load(counts, [("b", "a")])
    assert [(link["a"], link["b"]) for link in links] == sorted(
        {("a", "b"), *((min(a, b), max(a, b)) for a, b, _ in sent)}
    )
    for link in links:
        here = [
            (kind, count)
            for (a, b, kind), count in sent.items()
            if {a, b} == {link["a"], link["b"]}
        ]
        assert link["publications"] == sum(n for kind, n in here if kind == "publish")
        assert link["control"] == sum(n for kind, n in here if kind != "publish")
        assert link["size_bytes"] == 10 * sum(n for _, n in here)
    kinds = trace_sums.messages_by_type(counts)
    assert kinds == sorted(kinds, key=lambda row: (-row["count"], row["message"]))
    for row in kinds:
        count = sum(n for (*_, kind), n in sent.items() if kind == row["message"])
        assert (row["count"], row["size_bytes"]) == (count, 10 * count)
    assert {row["message"] for row in kinds} == {kind for *_, kind in sent}
    published = {row["broker"]: row["sent"] for row in trace_sums.sent_by_broker(counts)}
    for broker in "abc":
        count = sum(n for (a, _, kind), n in sent.items() if (a, kind) == (broker, "publish"))
        assert published.get(broker, 0) == count


def test_counters_of_links_stand_for_themselves() -> None:
    def row(broker: str, link: str | None, counter: str, count: int) -> dict[str, Any]:
        return {"broker": broker, "link": link, "counter": counter, "count": count}

    last = [
        *(row("b", None, "one", 1), row("a", None, "one", 2), row("a", None, "another", 3)),
        *(row("b", "a", FOUND_OVERLOADED, 4), row("a", "b", FOUND_OVERLOADED, 5)),
    ]
    assert trace_sums.counters(last) == [
        {"counter": "another", "count": 3},
        {"counter": "one", "count": 3},
    ]
    assert trace_sums.overloaded(last) == [
        {"broker": "a", "link": "b", "count": 5},
        {"broker": "b", "link": "a", "count": 4},
    ]
