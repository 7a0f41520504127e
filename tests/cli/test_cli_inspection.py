"""What `network status` and `simulate --inspect` print for given answers of brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reefcast
from live_networks import running
from reefcast.cli.inspection import check_tables, print_status
from reefcast.cli.network import command as network_command
from reefcast.cli.simulate import command as simulate_command
from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, dump_network, scot_network
from reefcast.network.sections import BrokerEntry, LinkEntry
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import names, path
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.registry import ROUTINGS, routing_named
from reefcast.routing.router import COUNTED, Shape
from reefcast.server.supervisor import free_ports
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

IDR = routing_named("idr")


def a_link(name: str, kind: str, **changes: Any) -> dict[str, Any]:
    """Return everything that the core and a live driver say of a link, in one."""
    link = {
        "link": name,
        "kind": kind,
        "state": "up",
        "queue_len": 0,
        "load": 0.0,
        "overloaded": False,
        "reconnects": 0,
        "in_per_s": 0.0,
        "out_per_s": 0.0,
        "found_overloaded": 0,
    }
    return link | changes


LIVE = {"link", "state", "reconnects"}
"""The fields of a link that only the driver knows."""


def an_answer(links: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    answer = {
        "uptime_s": 187.4,
        "stopping": False,
        "relearning": False,
        "congested": False,
        "clients": [],
        "tables": {"CLT": 1, "PRT": 0},
        "rows": {"CLT": a_table()},
        "counters": {},
        "counted": counts(),
        "legend": dict(IDR.legend),
        "owed": {},
        "tau": 10.0,
        "memory_mb": 100.0,
        "links": [{key: link[key] for key in LIVE} for link in links],
        "lst": {link["link"]: {key: link[key] for key in link.keys() - LIVE} for link in links},
    }
    return answer | changes


def simulated(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without what only a live broker says."""
    live = ("uptime_s", "stopping", "congested", "memory_mb")
    links = [{key: link[key] for key in ("link", "state")} for link in answer["links"]]
    return {key: told for key, told in answer.items() if key not in live} | {"links": links}


def a_table(*rows: tuple[str, ...], left_out: int = 0) -> dict[str, Any]:
    """Return the CLT."""
    columns = ("advertisement", "filter", "last hop", "context", "CIV")
    return {"columns": columns, "rows": rows, "left_out": left_out}


def counts(**counted: int) -> dict[str, int]:
    return {words: counted.get(name, 0) for name, words in IDR.counted.items()}


def shown(capsys: pytest.CaptureFixture[str], answers: Mapping[str, Any]) -> list[str]:
    """Return the printed rows, with one blank between words."""
    print_status(answers)
    return lines_of(capsys.readouterr().out)


def lines_of(text: str) -> list[str]:
    bare = text.replace("│", " ").replace("┃", " ")
    return [" ".join(line.split()) for line in bare.splitlines()]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


# --- brokers and links ----------------------------------------------------------------------------


def test_links_in_trouble_come_first_and_idle_ones_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    links = [
        a_link("b1-1", "i_link", out_per_s=12.0),
        a_link("b1-2", "i_link"),
        a_link(
            "b1-3",
            "i_link",
            queue_len=40,
            load=160.25,
            overloaded=True,
            found_overloaded=31,
            out_per_s=7.0,
        ),
        a_link("b2-0", "a_link", state="broken", queue_len=3, load=3.0),
    ]
    rows = shown(capsys, {"b1-0": an_answer(links)})
    assert rows.index("b1-0 b1-3 iLink up 40 160 NOW 31x 0 7") + 1 == rows.index(
        "b2-0 aLink broken 3 3.0 0 0"
    )
    assert "b1-1 iLink up 0 0.0 0 12" in rows
    assert not any(row.startswith("b1-2") for row in rows)
    assert "LST: 1 end of a link is up and idle" in rows
    assert "a link is overloaded above tau = 10." in " ".join(rows)
    assert "b1-0 up 3:07 min 0 CLT 1, PRT 0 0 0 100 MB" in rows


def test_what_only_live_brokers_tell_is_left_out_of_simulated_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    links = [
        a_link("b1-1", "i_link", queue_len=40, found_overloaded=31, in_per_s=5.0, reconnects=1),
        a_link("b1-2", "i_link", state="away"),
        a_link("b2-0", "a_link"),
    ]
    answer = an_answer(links, counters={"published": 3, "delivered": 9})
    live = shown(capsys, {"b1-0": answer})
    bare = shown(capsys, {"b1-0": simulated(answer)})
    assert "broker state clients tables published delivered memory" in live
    assert "broker clients tables published delivered" in bare
    assert "b1-0 0 CLT 1, PRT 0 3 9" in bare
    assert "broker link kind state queue load overloaded in/s out/s" in live
    assert "broker link kind state queue load overloaded in/s out/s" in bare
    assert "b1-1 iLink up, 1x again 40 0.0 31x 5 0" in live
    assert "b1-1 iLink up 40 0.0 31x 5 0" in bare
    assert "b1-0 b1-2 iLink away 0 0.0 0 0" in bare
    relearns = simulated(answer) | {"relearning": True}
    assert "b1-0 relearns 0 CLT 1, PRT 0 3 9" in shown(capsys, {"b1-0": relearns})


def test_links_are_counted_where_brokers_open_them(capsys: pytest.CaptureFixture[str]) -> None:
    links = [a_link("b", ""), a_link("c", "soft"), a_link("d", "soft", state="opening")]
    told = shown(capsys, {"a": an_answer(links), "b": an_answer([a_link("a", "")])})
    assert "broker state clients links tables published delivered memory" in told
    assert "a up 3:07 min 0 2 CLT 1, PRT 0 0 0 100 MB" in told
    assert "b up 3:07 min 0 CLT 1, PRT 0 0 0 100 MB" in told


def test_what_a_narrow_terminal_shows_is_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    link = a_link("b1-3", "i_link", queue_len=40, found_overloaded=9, in_per_s=900.0)
    filter = "symbol = 'IBM' AND price < 9"
    row = ("publisher-f0fb18e3f135#1", filter, "p", "advertisement", "0011")
    counters = {"published": 123456, "delivered": 654321}
    rows = {"CLT": a_table(row)}
    answer = an_answer([link], rows=rows, counters=counters, uptime_s=5000)
    told = shown(capsys, {"b1-0": answer | {"counted": counts(idr_case_3=9)}})
    assert "b1-0 up 1:23 h 0 CLT 1, PRT 0 123456 654321 100 MB" in told
    assert "b1-0 b1-3 iLink up 40 0.0 9x 900 0" in told
    assert "b1-0 0 0 9 0 0 0" in told
    assert "broker advertisement filter last hop context CIV" in told
    text = "".join(told).replace(" ", "")
    assert "advertisement0011" in text
    assert "…" not in text


@pytest.mark.parametrize(
    ("broker", "uptime_s", "columns"),
    [
        ("b1-0", 73, 80),
        ("b1-0", 73, 100),
        ("broker-of-berlin", 73, 80),
        ("broker-of-berlin", 43000, 80),
        ("broker-of-greater-berlin", 43000, 90),
    ],
)
def test_no_table_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    broker: str,
    uptime_s: float,
    columns: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    links = [a_link(f"{broker}-{i}", "i_link", queue_len=40, load=160.0) for i in range(3)]
    counters = {"published": 123456, "delivered": 654321}
    tables = {"CLT": 0, "PRT": 1}
    answer = an_answer(links, uptime_s=uptime_s, tables=tables, counters=counters)
    print_status({broker: answer | {"counted": counts(idr_case_3=9)}, "gone": None})
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:1] in "┏┡└┃│"]
    assert len(lines) > 15
    assert {len(line) for line in lines} <= set(range(columns + 1))
    for line in lines:
        assert line[0] + line[-1] in ("┏┓", "┡┩", "└┘", "┃┃", "││")
    told = "".join(cell for line in lines for cell in line.split())
    for words in ("CLT", "PRT", "123456", "654321", "published", "delivered", "overloaded", "160"):
        assert words in told


@pytest.mark.long
def test_simulated_links_have_the_rates_of_the_last_window(
    capsys: pytest.CaptureFixture[str],
) -> None:
    simulation = Simulation(Setup(graph=path(["a", "b"])))
    simulation.subscribe("s", "b", "n > 0", at_s=0.0)
    for n in range(1, 8):
        simulation.publish("p", "a", {"n": n}, at_s=1.0 + n / 10)
    simulation.run(until_s=2.5)
    rows = shown(capsys, simulation.status())
    assert "a b up 0 0.0 0 7" in rows
    assert "b a up 0 0.0 7 0" in rows


def test_certificates_that_end_soon_are_spoken_of(capsys: pytest.CaptureFixture[str]) -> None:
    ends = {"ends": "2026-12-01T08:00:00+00:00"}
    told = shown(
        capsys,
        {
            "a": an_answer([], certificate={**ends, "days": 4.9}),
            "b": an_answer([], certificate={**ends, "days": -0.1}),
            "c": an_answer([], certificate={**ends, "days": 20.0}),
            "d": an_answer([], certificate=None),
        },
    )
    assert "a: its certificate ends on 2026-12-01, in 5 days: renew it" in told
    assert "b: its certificate has ended on 2026-12-01: renew it" in told
    assert sum("its certificate" in line for line in told) == 2


def test_a_broker_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert "b2 does not answer" in shown(capsys, {"b1": an_answer([]), "b2": None})
    assert "b2 does not answer" in shown(capsys, {"b2": None})


# --- the routing's tables -------------------------------------------------------------------------


def test_rows_of_every_table_of_the_answers_with_what_they_mean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = {"columns": ("walk", "steps"), "rows": [("w1", 7), ("w2", 8)], "left_out": 3}
    answers = {
        "a": an_answer([], rows={"WALKS": mine}, legend={"WALKS": "Steps: so far."}),
        "b": an_answer([], rows={"WALKS": {**mine, "rows": [("w3", 9)], "left_out": 0}}),
    }
    rows = shown(capsys, answers)
    title = rows.index("WALKS")
    assert rows[title + 2] == "broker walk steps"
    assert [row for row in rows[title + 3 :] if row[:1].isalpha()] == [
        "a w1 7",
        "w2 8",
        "and 3 more",
        "b w3 9",
        "Steps: so far.",
    ]
    assert "CLT" not in rows


def test_an_advertisement_has_a_row_wherever_it_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(last_hop: str, context: str, civ: str) -> dict[str, Any]:
        return an_answer([], rows={"CLT": a_table(("p#1", "a > 1", last_hop, context, civ))})

    answers = {
        "b1-0": answer("p", "advertisement", "011"),
        "b1-1": answer("b1-0", "subscription", "011"),
        "b1-2": answer("b1-0", "subscription", "001"),
    }
    rows = shown(capsys, answers)
    assert "b1-0 p#1 a > 1 p advertisement 011" in rows
    assert "b1-2 p#1 a > 1 b1-0 subscription 001" in rows
    assert "CIV: a bit for each cluster, cluster 0 at the right." in " ".join(rows)
    assert "CIV: " not in " ".join(shown(capsys, {"b1-0": an_answer([])}))


def test_rows_that_a_broker_did_not_send_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    row = ("p#1", "a > 1", "p", "advertisement", "01")
    assert not any("more" in line for line in shown(capsys, {"b": an_answer([])}))
    some = an_answer([], rows={"CLT": a_table(row, left_out=19000)})
    assert "and 19000 more" in shown(capsys, {"b": some})
    none = an_answer([], rows={"CLT": a_table(left_out=2)})
    assert "b and 2 more" in shown(capsys, {"b": none})


@pytest.mark.parametrize("text", ["[/b]", "[b]", ":heart:", "[link=x]y[/link]"])
def test_what_clients_wrote_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    row = (f"{text}#1", f"name = '{text}'", text, "advertisement", "01")
    link = a_link(text, "i_link", in_per_s=3.0)
    rows = shown(capsys, {"b1-0": an_answer([link], rows={"CLT": a_table(row)})})
    assert f"b1-0 {text}#1 name = '{text}' {text} advertisement 01" in rows
    assert f"b1-0 {text} iLink up 0 0.0 3 0" in rows


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = ("p#1", "a = '\x1b[2J'", "p", "advertisement", "01")
    rows = shown(capsys, {"b1-0": an_answer([], rows={"CLT": a_table(row)})})
    assert r"b1-0 p#1 a = '\x1b[2J' p advertisement 01" in rows


def test_a_filter_of_a_page_does_not_fill_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = ("p#1", "a = 'x' OR " * 500, "p", "advertisement", "01")
    rows = shown(capsys, {"b1-0": an_answer([], rows={"CLT": a_table(row)})})
    assert sum("a = 'x' OR" in line for line in rows) == 1
    assert any("... p advertisement 01" in line for line in rows)


# --- what it counts -------------------------------------------------------------------------------


def test_what_dynamic_routing_did(capsys: pytest.CaptureFixture[str]) -> None:
    counted = counts(idr_case_1=5, idr_case_3=2, idr_no_tree_link=1)
    answers = {
        "b1-0": an_answer([], counted=counted),
        "b1-1": an_answer([]),
        "b1-2": None,
    }
    rows = shown(capsys, answers)
    assert "broker case I case II case III full aLinks no tree link cut off" in rows
    assert "b1-0 5 0 2 0 1 0" in rows
    assert not any(row.startswith("b1-1 0") for row in rows)
    assert not any(row.startswith("Decisions") for row in shown(capsys, {"a": an_answer([])}))


def test_full_a_links_are_those_of_decisions_that_met_overloaded_i_links(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = an_answer([], counted=counts(idr_overloaded_a_link=3))
    text = " ".join(shown(capsys, {"a": answer}))
    assert "those of decisions inside a cluster, or that met no overloaded iLink, are not" in text


def test_ghosts_and_what_covering_did(capsys: pytest.CaptureFixture[str]) -> None:
    options = AcyclicOptions(covering="incremental")
    simulation = Simulation(Setup(graph=path(["a", "b"]), options=options))
    simulation.advertise("p", "b", "x > 0", at_s=0.0)
    for filter in ("x = 1", "x = 2"):
        simulation.subscribe("s", "a", filter, at_s=1.0)
    simulation.withdraw(simulation.subscribe("m", "a", "x > 0", at_s=2.0), at_s=3.0)
    for x in (1, 5, 6):
        simulation.publish("p", "b", {"x": x}, at_s=4.0)
    simulation.run()
    rows = shown(capsys, simulation.status())
    title = rows.index("ghosts")
    assert rows[title + 2] == "broker ghost filter neighbour stands for false positives"
    assert rows[title + 4] == "a m#1 x > 0 b 2 2 of 3"
    assert any("SRT 1, PRT 2, ghosts 1" in row for row in rows)
    told = " ".join(rows)
    assert "broker quenched replaced NRS preserved collected false positives" in rows
    assert "a 0 2 0 1 0 2" in rows
    assert "the neighbour still holds for this broker" in told
    assert "Quenched: subscriptions not sent to it" in told


MOST_TABLES = {
    "acyclic": AcyclicOptions(covering="incremental"),
    "gossip": GossipOptions(contacts=("x",)),
}
"""The options with which a routing has all of its tables; without an entry, its defaults."""


@pytest.mark.parametrize("name", ROUTINGS)
def test_a_legend_is_for_a_table_that_there_is_or_for_counts(name: str) -> None:
    kind = routing_named(name)
    made = scot(path(["x", "y"]), 2)
    graphs = {Shape.TREE: path(names(2)), Shape.NONE: {"x": [], "y": []}}
    setup = Setup(
        graph=graphs.get(kind.overlay, made.graph),
        routing=name,
        scot=None if kind.overlay in graphs else made,
        options=MOST_TABLES.get(name),
    )
    simulation = Simulation(setup)
    simulation.run()
    (answer, *_) = simulation.status().values()
    assert answer is not None
    assert answer["legend"].keys() <= answer["tables"].keys() | {COUNTED}
    assert (COUNTED in answer["legend"]) == bool(answer["counted"])
    for words in answer["counted"]:
        assert f"{words}: ".lower() in answer["legend"][COUNTED].lower()


# --- the commands ---------------------------------------------------------------------------------


def a_scot() -> NetworkFile:
    """Return a SCOT of 2 regions and 2 clusters, on free ports of loopback."""
    made = scot(path(["x", "y"]), 2)
    ports = free_ports(len(made.graph))
    return scot_network(made, [f"127.0.0.1:{port}" for port in ports], routing="idr")


def written(network: NetworkFile, folder: Path) -> Path:
    file = folder / "scot.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    return file


@pytest.mark.parametrize("command", [network_command, simulate_command])
def test_an_unknown_table_is_answered_with_those_that_there_are(
    tmp_path: Path, command: Any
) -> None:
    file = written(a_scot(), tmp_path)
    first = ["status", str(file)] if command is network_command else [str(file), "--inspect"]
    done = CliRunner().invoke(command, [*first, "--table", "SRT"])
    assert isinstance(done.exception, ConfigurationError)
    assert str(done.exception).startswith("routing 'idr' has no table 'SRT'; it has CLT, PRT,")


def test_tables_of_a_network_without_places() -> None:
    network = NetworkFile(broker=[BrokerEntry("a")])
    check_tables(network, ["SRT", "PRT"])
    with pytest.raises(ConfigurationError, match="has no table 'CLT'"):
        check_tables(network, ["PRT", "CLT"])


def test_ghosts_are_a_table_where_one_broker_prunes() -> None:
    brokers = [BrokerEntry("a"), BrokerEntry("b")]
    links = [LinkEntry(between=("a", "b"))]
    with pytest.raises(ConfigurationError, match="has no table 'ghosts'; it has SRT, PRT, and"):
        check_tables(NetworkFile(broker=brokers, link=links), ["ghosts"])
    brokers[1].routing["covering"] = "incremental"
    check_tables(NetworkFile(broker=brokers, link=links), ["ghosts"])


CLAIMS = (
    ("p1", "x-0", "advertise", "n > 0"),
    ("p2", "y-1", "advertise", "kind = 'b' AND n < 5"),
    ("s1", "y-1", "subscribe", "n < 3"),
    ("s2", "y-0", "subscribe", "n > 7 AND kind = 'b'"),
    ("p3", "y-0", "advertise", "kind = 'c'"),
    ("s3", "x-1", "subscribe", "kind IN ('b', 'd')"),
    ("p4", "x-0", "advertise", "kind = 'z' AND n > 50"),
)
"""Client, broker, and what the client does; each waits until the one before has settled."""


async def live_answers(network: NetworkFile, file: Path) -> dict[str, Any]:
    """Return what the command says in JSON of the running network with these clients, under the
    names of simulated clients."""
    asked = ["status", str(file), "--table", "PRT", "--rows", "50", "--json"]
    ids: dict[str, str] = {}
    claims: list[Any] = []  # a subscription that nobody holds is withdrawn
    async with AsyncExitStack() as stack:
        for name, broker, kind, filter in CLAIMS:
            url = f"reefcast://{network.entry(broker).listen}"
            client = await stack.enter_async_context(reefcast.connect(url, name=name))
            ids[client.id] = name
            claims.append(getattr(client, kind)(filter))
            await asyncio.wait_for(claims[-1].settled(), 10)
        done = await asyncio.to_thread(CliRunner().invoke, network_command, asked)
    assert done.exit_code == 0, done.output
    text = done.output
    for id, name in ids.items():
        text = text.replace(id, name)
    return json.loads(text)


def simulated_answers(network: NetworkFile) -> dict[str, Any]:
    setup = Setup(graph=network.graph(), routing=network.network.routing, scot=network.scot())
    simulation = Simulation(setup)
    for i, (client, broker, kind, filter) in enumerate(CLAIMS, 1):
        getattr(simulation, kind)(client, broker, filter, at_s=i)
    simulation.run()
    return json.loads(json.dumps(simulation.status(("PRT",), 50)))


async def test_live_and_simulated_brokers_show_the_same_tables_in_the_same_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = a_scot()
    async with running(network):
        live = await live_answers(network, written(network, tmp_path))
    same = simulated_answers(network)
    for name, answer in same.items():
        for key in ("routing", "region", "cluster", "tau", "tables", "rows", "legend"):
            assert live[name][key] == answer[key], (name, key)
        lst = answer["lst"]
        assert {link: row.keys() for link, row in live[name]["lst"].items()} == {
            link: row.keys() for link, row in lst.items()
        }
        for links in (live[name]["links"], answer["links"]):
            assert [(link["link"], link["state"]) for link in links] == [(n, "up") for n in lst]
        assert live[name].keys() > answer.keys()
    civs = {row[4] for answer in same.values() for row in answer["rows"]["CLT"]["rows"]}
    assert civs == {"01", "10", "11"}
    assert all(answer["rows"]["PRT"]["rows"] for answer in same.values())
    texts = [shown(capsys, answers) for answers in (live, same)]
    tables = [rows[rows.index("CLT") :] for rows in texts]
    assert tables[0] == tables[1]


def a_client(name: str, **changes: Any) -> dict[str, Any]:
    client = {"client": name, "slow": False, "queue_len": 0, "queue_policy": "drop_oldest"}
    return client | {"dropped": 0} | changes


def test_clients_that_do_not_keep_up_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    clients = [
        a_client("quick-1"),
        a_client("lost-1", dropped=7),
        a_client("blocks-1", slow=True, queue_len=10_001, queue_policy="block"),
    ]
    print_status({"b1": an_answer([], clients=clients)})
    shown = capsys.readouterr().out
    assert "Clients that do not keep up" in shown and "quick-1" not in shown
    assert shown.index("blocks-1") < shown.index("lost-1")
    print_status({"b1": an_answer([], clients=[a_client("quick-1"), {"client": "simulated"}])})
    assert "Clients that do not keep up" not in capsys.readouterr().out
