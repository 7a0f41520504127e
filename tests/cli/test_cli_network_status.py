"""What `reefcast network status` shows, from answers as brokers of a SCOT give them."""

from __future__ import annotations

from typing import Any

import pytest

from reefcast.cli.network_status import MOST_ADVERTISEMENTS, print_status


def a_link(name: str, kind: str, **changes: Any) -> dict[str, Any]:
    link = {
        "link": name,
        "kind": kind,
        "state": "up",
        "queue_len": 0,
        "reconnects": 0,
        "in_per_s": 0.0,
        "out_per_s": 0.0,
        "found_overloaded": 0,
    }
    return link | changes


def an_answer(links: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    calm = {"queue_len": 0, "queue_in": 0, "queue_out": 0.0, "load": 0.0, "overloaded": False}
    answer = {
        "uptime_s": 187.4,
        "stopping": False,
        "relearning": False,
        "congested": False,
        "clients": [],
        "tables": {"CLT": 1, "PRT": 0},
        "counters": {},
        "memory_mb": 100.0,
        "links": links,
        "lst": {link["link"]: calm for link in links if link["state"] == "up"},
        "clt": [],
        "left_out": {},
    }
    return answer | changes


def shown(capsys: pytest.CaptureFixture[str], answers: dict[str, Any]) -> list[str]:
    """The rows, with one blank between words."""
    print_status(answers)
    lines = capsys.readouterr().out.splitlines()
    return [" ".join(line.replace("│", " ").split()) for line in lines]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_links_in_trouble_come_first_and_idle_ones_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    links = [
        a_link("b1-1", "i_link", out_per_s=12.0),
        a_link("b1-2", "i_link"),
        a_link("b1-3", "i_link", queue_len=40, found_overloaded=31, out_per_s=7.0),
        a_link("b2-0", "a_link", state="broken", queue_len=3),
    ]
    answer = an_answer(links)
    answer["lst"]["b1-3"] = answer["lst"]["b1-3"] | {"load": 160.25, "overloaded": True}
    rows = shown(capsys, {"b1-0": answer})
    assert rows.index("b1-0 b1-3 iLink up 40 160 NOW 31x 0 7") + 1 == rows.index(
        "b2-0 aLink broken 3 0 0"
    )
    assert "b1-1 iLink up 0 0.0 0 12" in rows
    assert not any(row.startswith("b1-2") for row in rows)
    assert "1 end of a link is up and idle" in rows
    assert "b1-0 up 3:07 min 0 CLT 1, PRT 0 0 0 100 MB" in rows


def test_what_a_narrow_terminal_shows_is_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    link = a_link("b1-3", "i_link", queue_len=40, found_overloaded=9, in_per_s=900.0)
    row = {"advertisement": "publisher-f0fb18e3f135#1", "filter": "symbol = 'IBM' AND price < 9"}
    here = row | {"context": "advertisement", "civ": "0011", "last_hop": "p"}
    counters = {"published": 123456, "delivered": 654321, "idr_case_3": 9}
    answer = an_answer([link], clt=[here], counters=counters, uptime_s=5000)
    rows = shown(capsys, {"b1-0": answer})
    assert "b1-0 up 1:23 h 0 CLT 1, PRT 0 123456 654321 100 MB" in rows
    assert "b1-0 b1-3 iLink up 40 0.0 9x 900 0" in rows
    assert any("0011" in row for row in rows)


def test_an_advertisement_is_shown_with_its_bits_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"advertisement": "p#1", "filter": "a > 1", "context": "advertisement"}
    host = an_answer([], clt=[row | {"civ": "011", "last_hop": "p"}])
    other = row | {"context": "subscription", "last_hop": "b1-0"}
    answers = {
        "b1-0": host,
        "b1-1": an_answer([], clt=[other | {"civ": "011"}]),
        "b1-2": an_answer([], clt=[other | {"civ": "001"}]),
    }
    assert "b1-0 p#1 a > 1 011 b1-1 011, b1-2 001" in shown(capsys, answers)
    many = [host["clt"][0] | {"advertisement": f"p#{i}"} for i in range(MOST_ADVERTISEMENTS + 5)]
    rows = shown(capsys, {"b1-0": an_answer([], clt=many)})
    assert "and 5 more" in rows
    assert sum("a > 1" in row for row in rows) == MOST_ADVERTISEMENTS


def test_what_dynamic_routing_did(capsys: pytest.CaptureFixture[str]) -> None:
    answers = {
        "b1-0": an_answer([], counters={"idr_case_1": 5, "idr_case_3": 2, "idr_no_tree_link": 1}),
        "b1-1": an_answer([]),
        "b1-2": None,
    }
    rows = shown(capsys, answers)
    assert "b1-0 5 0 2 0 1 0" in rows
    assert "b1-2 does not answer" in rows
    assert not any(row.startswith("Decisions") for row in shown(capsys, {"a": an_answer([])}))


@pytest.mark.parametrize("text", ["[/b]", "[b]", ":heart:", "[link=x]y[/link]"])
def test_what_clients_wrote_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    row = {"advertisement": f"{text}#1", "filter": f"name = '{text}'", "context": "advertisement"}
    link = a_link(text, "i_link", in_per_s=3.0)
    answer = an_answer([link], clt=[row | {"civ": "01", "last_hop": text}])
    rows = shown(capsys, {"b1-0": answer})
    assert f"b1-0 {text}#1 name = '{text}' 01" in rows
    assert f"b1-0 {text} iLink up 0 0.0 3 0" in rows


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"advertisement": "p#1", "filter": "a = '\x1b[2J'", "context": "advertisement"}
    rows = shown(capsys, {"b1-0": an_answer([], clt=[row | {"civ": "01", "last_hop": "p"}])})
    assert r"b1-0 p#1 a = '\x1b[2J' 01" in rows


def test_rows_that_a_broker_did_not_send_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"advertisement": "p#1", "filter": "a > 1", "context": "advertisement"}
    answer = an_answer([], clt=[row | {"civ": "01", "last_hop": "p"}])
    assert not any("left out" in row for row in shown(capsys, {"b1-0": answer}))
    answer["left_out"] = {"clt": 19000}
    assert "b1-0 sent 1 rows of its CLT and left out 19000" in shown(capsys, {"b1-0": answer})


def test_full_a_links_are_those_of_decisions_that_met_overloaded_i_links(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = " ".join(shown(capsys, {"a": an_answer([], counters={"idr_overloaded_a_link": 3})}))
    assert "those of decisions inside a cluster, or that met no overloaded iLink, are not" in text
