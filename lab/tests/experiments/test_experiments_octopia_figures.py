"""Figures computed from literal deliveries, queues and messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reefcast.overlay.scot import Place
from reefcast_lab.experiments.columns import Delivered
from reefcast_lab.experiments.octopia import burst, delivery
from reefcast_lab.experiments.octopia.measuring import delays_s, mean_rows


def test_the_delay_of_a_claim_ends_where_it_arrives_last() -> None:
    def claim(client: str, number: int, requested_s: float, subscription: bool) -> Any:
        return SimpleNamespace(**locals(), broker="1-0")

    claims = [
        claim("a", 1, 10.0, False),
        claim("a", 2, 20.0, False),
        claim("b", 1, 30.0, True),
    ]
    stored = {
        ("a", 1): {"1-0": 10.1},
        ("a@1-0", 1): {"2-0": 10.5},
        ("a@1-0", 2): {"1-0": 20.25},
        ("b", 1): {"1-0": 31.0},
    }
    simulated: Any = SimpleNamespace(result=lambda: SimpleNamespace(claims=claims))
    core = SimpleNamespace(known_as=lambda id, link: (f"{id[0]}@1-0", id[1]))
    host = SimpleNamespace(core=core)
    kernel: Any = SimpleNamespace(stored_s=stored, nodes={"1-0": host})
    assert delays_s(simulated, kernel, subscriptions=False) == pytest.approx([0.5, 0.25])
    assert delays_s(simulated, kernel, subscriptions=True) == pytest.approx([1.0])


def test_rows_are_the_mean_over_all_brokers() -> None:
    def node(**tables: int) -> Any:
        return SimpleNamespace(core=SimpleNamespace(tables=lambda: tables))

    kernel: Any = SimpleNamespace(nodes={"1-0": node(PRT=8, SRT=3), "2-0": node(PRT=0, SRT=3)})
    assert mean_rows(kernel, ("PRT",)) == 4.0
    assert mean_rows(kernel, ("CLT", "SRT")) == 3.0


DELIVERED = Delivered(
    np.array([5.0, 9.9, 10.0, 11.0, 12.0]),
    np.array([100.0, 100.0, 0.5, 2.0, 3.5]),
    np.array([1, 50, 5, 3, 2], dtype=np.int64),
)
"""The deliveries; the burst starts at 10 s."""


def test_deliveries_count_from_the_burst_on_each_subscription_once() -> None:
    found = burst._of_deliveries(DELIVERED, 10.0)
    assert found["mean_delay_s"] == pytest.approx((5 * 0.5 + 3 * 2.0 + 2 * 3.5) / 10)
    assert found["under_1_s"] == pytest.approx(0.5)


def test_messages_of_a_burst_are_publications() -> None:
    result: Any = SimpleNamespace(
        messages={"publish": 700, "subscribe": 40, "bind": 2},
        discards={"duplicate": 3, "unknown": 5},
        delivered_subscriptions=95,
    )
    subscribers = [
        SimpleNamespace(matches=(0, 1), burst=True),
        SimpleNamespace(matches=(1,), burst=False),
    ]
    crowd: Any = SimpleNamespace(subscribers=subscribers)
    entries: Any = SimpleNamespace(publications=20, burst=40)
    found = burst._of_messages(result, crowd, entries)
    assert found == {"messages": 700, "suppressed_copies": 3, "undelivered": 3 * 20 + 40 - 95}


def test_messages_of_a_delivery_are_publications() -> None:
    result: Any = SimpleNamespace(messages={"publish": 60, "bind": 9}, delivered_subscriptions=30)
    assert delivery._of_messages(result, 20) == {
        "messages_per_publication": 3.0,
        "deliveries_per_publication": 1.5,
    }


def test_queues_of_target_links() -> None:
    """1-0 is the burst's broker; 1-0 to 2-0 is an aLink, 1-0 to 1-1 an iLink."""
    queues = {
        ("1-0", "2-0"): (4, 100, 60),
        ("1-0", "1-1"): (1, 7, 7),
        ("2-0", "1-0"): (3, 5, 3),
        ("1-1", "1-0"): (0, 0, 0),
    }
    kernel: Any = SimpleNamespace(
        queues=lambda: queues, count_before=[10, 90, 30], busiest_before=lambda: 120
    )
    names = ("1-0", "2-0", "1-1")
    places = {name: Place(name[0], int(name[2])) for name in names}
    overlay: Any = SimpleNamespace(places=places)
    crowd: Any = SimpleNamespace(burst=SimpleNamespace(broker="1-0"))
    entries: Any = SimpleNamespace(before_s=60.0)
    assert burst._of_queues(kernel, overlay, crowd, entries) == {
        "queue_len": (100 + 7 + 5) / 8,
        "busiest_link_per_s": 1.5,
        "busiest_sender_per_s": 2.0,
        "longest_a_link_queue_own": 60.0,
        "longest_i_link_queue_own": 7.0,
        "longest_a_link_queue_other": 3.0,
        "longest_i_link_queue_other": 0.0,
    }


def test_copies_that_waited_on_a_links() -> None:
    queues = {("a", "b"): (8, 0, 0), ("b", "a"): (2, 0, 0), ("a", "c"): (90, 0, 0)}
    crowded = {("a", "b"): (3, 30.0), ("b", "a"): (1, 10.0), ("a", "c"): (50, 5000.0)}
    kernel: Any = SimpleNamespace(queues=lambda: queues, crowded=lambda: crowded)
    overlay: Any = SimpleNamespace(a_links=[("a", "b")])
    assert burst._crowded_a_links(kernel, overlay) == {
        "a_link_crowded": 4.0,
        "a_link_crowded_share": 0.4,
        "a_link_crowded_wait_s": 10.0,
    }


def test_only_padres_has_brokers_that_forward_only() -> None:
    """Where no client of a broker wants what this publisher publishes, the broker does not
    match."""

    def forwards_only(routing: str, broker: str) -> bool:
        kernel: Any = SimpleNamespace(setup=SimpleNamespace(routing=routing))
        return delivery._forwards_only(kernel, ("p000", 3), broker, {"p000": {"1-0"}})

    assert forwards_only("tid-s", "2-0")
    assert not forwards_only("tid-s", "1-0")
    assert not forwards_only("spr", "2-0")


def test_brokers_that_forward_only_count_as_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two publications passes both brokers; a match takes a second per row."""
    monkeypatch.setattr(delivery, "_time_of", lambda rows, asked, rounds: len(rows) * len(asked))
    monkeypatch.setattr(delivery, "warm_up", lambda: None)

    def kernel(routing: str) -> Any:
        ids = [("p000", 1), ("p001", 1)]
        nodes = {
            name: SimpleNamespace(core=SimpleNamespace(router=SimpleNamespace(prt=["row"] * rows)))
            for name, rows in (("1-0", 3), ("2-0", 5))
        }
        return SimpleNamespace(
            setup=SimpleNamespace(routing=routing),
            published=dict.fromkeys(ids, (None, "publication", "1-0")),
            path={(id, "2-0") for id in ids},
            nodes=nodes,
        )

    crowd: Any = SimpleNamespace(
        publishers=[SimpleNamespace(name="p000"), SimpleNamespace(name="p001")],
        subscribers=[SimpleNamespace(matches=(0,), broker="2-0")],
    )
    assert delivery.matching_delays(kernel("spr"), crowd, 2, 1) == {
        "matching_delay_s": (2 * 3 + 2 * 5) / 4,
        "forward_only_share": 0.0,
        "matches_per_broker": 1.0,
        "matching_delay_matched_s": (2 * 3 + 2 * 5) / 4,
    }
    assert delivery.matching_delays(kernel("tid-s"), crowd, 2, 1) == {
        "matching_delay_s": 5 / 4,
        "forward_only_share": 0.75,
        "matches_per_broker": 0.25,
        "matching_delay_matched_s": 5.0,
    }
