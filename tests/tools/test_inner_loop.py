"""The inner loop (`make quick`) opens nothing, covers the core, and has tests for the gaps of
`make test`."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from children import Children
from dealing import dealt, gives_way
from inner_loop import GUARD, is_long, is_quick, reaches_live, try_examples
from live_networks import running

ROOT = Path(__file__).parents[2]
AT_LEAST = {
    "model": 600,
    "matching": 280,
    "matching/cover": 20,
    "overlay": 30,
    "protocol": 60,
    "routing": 650,
    "history": 120,
    "network": 140,
    "simulation": 205,
}
"""How many tests of the inner loop each folder has at least: nine of ten of those that exist."""


def connect() -> None:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


def listen() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))


def start() -> None:
    subprocess.run([sys.executable, "--version"], check=True)


def serve() -> None:
    async def run() -> None:
        await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)

    asyncio.run(run())


@pytest.mark.parametrize("opens", [connect, listen, start, serve])
def test_a_quick_test_that_opens_something_fails(opens: Callable[[], None]) -> None:
    failed = pytest.raises(pytest.fail.Exception, match="a quick test opens something")
    with failed, GUARD.over(), suppress(Exception):
        opens()


def test_the_guard_heeds_nothing_after_the_test() -> None:
    with GUARD.over():
        asyncio.run(asyncio.sleep(0))
    listen()


def by_an_import() -> None:
    import multiprocessing

    multiprocessing.active_children()


def by_a_module() -> object:
    return asyncio.create_subprocess_exec


def by_a_helper() -> None:
    connect()


def by_a_class() -> object:
    return Children


@contextmanager
def by_a_wrapped_helper() -> Iterator[object]:
    yield running


@given(st.none())
def by_a_property(_: None) -> None:
    start()


def by_a_table() -> object:
    return TABLE


TABLE = {"start": [start]}


class Fixture:
    def start(self) -> None:
        start()


def by_a_method() -> None:
    Fixture()


@pytest.mark.parametrize(
    "leads",
    [
        by_an_import,
        by_a_module,
        by_a_helper,
        by_a_class,
        by_a_wrapped_helper,
        by_a_property,
        by_a_table,
        by_a_method,
    ],
)
def test_what_leads_to_a_process_or_connection_is_found(leads: object) -> None:
    assert reaches_live([leads])


def test_what_opens_nothing_is_quick() -> None:
    assert not reaches_live([test_the_runs_begin_with_what_takes_long, try_examples])


def test_it_covers_the_core(request: pytest.FixtureRequest) -> None:
    """They are collected in a process of its own where this one has collected only a part."""
    here = [item.nodeid for item in request.session.items if is_quick(item) and not is_long(item)]
    if missing(here):
        command = [sys.executable, "-m", "pytest", "--quick", "--collect-only", "-q"]
        command += ["-p", "no:cacheprovider"]
        command += sorted({f"tests/{folder.partition('/')[0]}" for folder in AT_LEAST})
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert missing(done.stdout.splitlines()) == {}


def missing(tests: Iterable[str]) -> dict[str, int]:
    """Return the folders that have fewer tests than they should, with how many of these they
    have."""
    found = Counter(map(of_folder, tests))
    return {folder: found[folder] for folder, least in AT_LEAST.items() if found[folder] < least}


def of_folder(test: str) -> str:
    """Return the folder of a test below `tests`, by its id."""
    found = re.match(r"tests/([\w/]+)/\w+\.py::", test)
    return found[1] if found else ""


PROPERTIES = """
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from inner_loop import examples

tried = {"a": 0, "b": 0, "few": 0, "machine": 0, "within": 0}

@pytest.mark.parametrize("name", ["a", "b"])
@settings(max_examples=40, database=None)
@given(number=st.integers())
def test_property(name, number):
    tried[name] += 1

@settings(max_examples=3, database=None)
@given(number=st.integers())
def test_a_costly_property(number):
    tried["few"] += 1

class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        tried["machine"] += 1

    @rule(number=st.integers())
    def step(self, number):
        pass

TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=1, database=None)

def test_a_property_within():
    @settings(max_examples=examples(40), database=None)
    @given(number=st.integers())
    def holds(number):
        tried["within"] += 1

    holds()

def test_of_something_else():
    pass

@pytest.fixture(autouse=True, scope="module")
def told():
    yield
    print(tried)
"""


@pytest.mark.parametrize(
    ("asked", "ran", "tried"),
    [
        (["--quick"], 6, {"a": 2, "b": 2, "few": 2, "machine": 2, "within": 2}),
        ([], 6, {"a": 4, "b": 4, "few": 2, "machine": 4, "within": 4}),
        (
            ["--soak", "-m", "soak"],
            5,
            {"a": 400, "b": 400, "few": 30, "machine": 400, "within": 400},
        ),
    ],
)
def test_how_many_examples_of_a_property_are_tried(
    asked: list[str], ran: int, tried: dict[str, int], tmp_path: Path
) -> None:
    """The inner loop, `make test` and `make soak` each multiply the examples; parameters do not
    count twice."""
    file = tmp_path / "test_properties.py"
    file.write_text(PROPERTIES, encoding="utf-8")
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist", "-c", ROOT / "pyproject.toml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "conftest", *plugins, *asked, file],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{ran} passed" in done.stdout
    assert str(tried) in done.stdout


def made_up(name: str, *marks: str) -> Any:
    """Return an imitation of a test with these marks and fixtures."""
    mark = {mark: mark for mark in marks}.get
    return SimpleNamespace(name=name, nodeid=name, fixturenames=marks, get_closest_marker=mark)


def test_the_runs_begin_with_what_takes_long() -> None:
    quick = [made_up(f"q{n}", *(["long"] if n > 6 else [])) for n in range(9)]
    live = [made_up(f"l{n}", *(["long"] if n == 4 else [])) for n in range(6)]
    session = [made_up(f"s{n}", "spark", *(["long"] if n == 2 else [])) for n in range(3)]
    items = [*quick[:5], *live, *quick[5:], *session]
    order = [item.name for item in dealt(items, 3, lambda item: item in quick)]
    assert sorted(order) == sorted(item.name for item in items)
    assert order[:3] == ["s2", "s0", "s1"]
    assert order[6:10] == ["l4", "l0", "l1", "q7"]
    assert order[12:16] == ["l2", "l3", "l5", "q8"]


def test_of_many_processes_two_have_a_spark_session() -> None:
    session = [made_up(f"s{n}", "spark") for n in range(4)]
    quick = [made_up(f"q{n}") for n in range(36)]
    order = dealt([*quick, *session], 5, lambda item: item in quick)  # runs of eight
    assert [at for at, item in enumerate(order) if item in session] == [0, 1, 8, 9]
    order = dealt([*quick, *session], 4, lambda item: item in quick)  # runs of ten
    assert [at for at, item in enumerate(order) if item in session] == [0, 1, 2, 3]


def test_processes_without_a_spark_session_give_way_to_those_with_one() -> None:
    quick, session = made_up("q"), made_up("s", "spark")
    assert gives_way(quick, [session, quick])
    assert not gives_way(session, [session, quick])
    assert not gives_way(quick, [quick])


def test_only_runs_that_look_for_something_draw_examples_anew(
    pytestconfig: pytest.Config,
) -> None:
    looks = pytestconfig.getoption("--quick") or pytestconfig.getoption("--soak")
    assert settings().derandomize is not looks
