"""Log lines that anybody may cause by the thousand are counted, not written."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from live_brokers import Live, OneBroker

from live_networks import until
from reefcast.model.wire import Role, StatusRequest
from reefcast.server.floods import FEW, PERIOD_S, Floods

log = logging.getLogger("floods")


def test_the_first_of_each_kind_are_written_and_the_rest_summed_up(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    counters: Counter[str] = Counter()
    floods = Floods(counters)
    floods.tick(100.0)
    for n in range(1000):
        floods.log(log, logging.INFO, "many", "number %d", n)
    floods.log(log, logging.WARNING, "one", "alone")
    floods.tick(100.0 + PERIOD_S - 1)
    assert [record.message for record in caplog.records] == [
        *(f"number {n}" for n in range(FEW)),
        "alone",
    ]
    caplog.clear()
    floods.tick(100.0 + PERIOD_S)
    assert [(r.message, r.name, r.levelno) for r in caplog.records] == [
        ("990 more of these were not written: many", "floods", logging.INFO)
    ]
    caplog.clear()
    floods.log(log, logging.INFO, "many", "another period")
    floods.tick(100.0 + 2 * PERIOD_S)
    assert [record.message for record in caplog.records] == ["another period"]
    assert counters == {"many": 1001, "one": 1}


def test_what_others_sent_forges_no_lines(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    forged = "bye\n2026-01-01 WARNING user 'root' was removed\x1b[2J\u2028ä"
    Floods(Counter()).log(log, logging.INFO, "closed", "%s closed it: %s, %d", "c", forged, 5)
    [record] = caplog.records
    assert record.message == (
        r"c closed it: bye\n2026-01-01 WARNING user 'root' was removed\x1b[2J\u2028ä, 5"
    )


def test_the_traceback_is_written_where_it_is_wanted(caplog: pytest.LogCaptureFixture):
    floods = Floods(Counter())
    try:
        raise RuntimeError("a fault")
    except RuntimeError:
        floods.log(log, logging.ERROR, "failures", "failed", traceback=True)
    (record,) = caplog.records
    assert record.exc_info is not None and "a fault" in str(record.exc_info[1])


async def test_connections_without_a_hello_are_counted(
    live: Live,
    one: OneBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("reefcast.server.connection.HELLO_S", 0.05)
    node = await one()
    for n in range(50):
        await live.dial(node, f"c{n}")
    counters = node.host.journal.counters
    await until(lambda: counters["no_hello"] == 50)
    assert caplog.text.count("no hello within") == FEW
    node.host.journal.floods.sum_up()
    assert "40 more of these were not written: no_hello" in caplog.text
    assert node.status(StatusRequest())["counters"]["no_hello"] == 50


async def test_refused_hellos_and_closed_connections_are_counted(
    live: Live, one: OneBroker, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    node = await one()
    for n in range(30):
        stranger = await live.dial(node, f"c{n}")
        stranger.say_hello(role=Role.CLIENT, network="another")
        assert "belongs to the network" in await stranger.reason()
    assert caplog.text.count("belongs to the network") == FEW
    assert node.host.journal.counters["turned_away"] == 30
