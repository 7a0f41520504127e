"""Options and profiles that all tests share."""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
import inspect
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from dealing import NICE, dealt, gives_way
from forked import starting_anew, use_fork_server
from inner_loop import (
    GUARD,
    QUICK_TIMES,
    SOAK_TIMES,
    TEST_TIMES,
    is_long,
    is_property,
    is_quick,
    try_examples,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEALTHY = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
"""Checks of hypothesis about the machine, or the luck of a run, that say nothing of the code."""
settings.register_profile("usual", deadline=None, suppress_health_check=HEALTHY, print_blob=True)
settings.load_profile("usual")
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "tests" / "spark_conf"))
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    # The directories of tests: brokers and storages sync what they write, which takes a disk
    # milliseconds each time, and memory none.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore Ctrl-C; children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ASYNC_TEST_S, SOAK_TEST_S = 900.0, 6 * 3600.0
"""The time limits of a test of live brokers, in seconds, whatever it forgot to limit itself: many
times what one takes on a busy machine."""
TOO_BUSY = 4.0
"""The load average per core from which a Python process may take ten seconds to start."""
QUICK = pytest.StashKey[bool]()
"""For each test: whether it is one of the inner loop."""
BEGUN = pytest.StashKey[pytest.Item]()
"""For the session: the first test of this process."""
DATA = Path(__file__).parents[1] / "shared" / "data"
"""Public data sets beside the checkout; not everybody has them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run the inner loop: nothing is opened")
    parser.addoption("--soak", action="store_true", help="run the long seeded tests too")
    parser.addoption(
        "--data",
        type=Path,
        default=DATA if DATA.is_dir() else None,
        help="directory of public data sets: run the tests that read them too",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same examples in each run of the tests: what fails is then the change's fault, not
    the day's. New ones are drawn by `--quick` and `--soak`, which are there to find something."""
    if not (config.getoption("--quick") or config.getoption("--soak")):
        settings.register_profile("same", settings.get_profile("usual"), derandomize=True)
        settings.load_profile("same")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Load the kernels as brokers do. With which others a kernel is compiled depends on what was
    imported before, so that tests would compile, and try, other kernels than brokers have. Commands
    are forked, but with `--soak` all are started anew."""
    from reefcast.matching import warm_up

    warm_up()
    if not session.config.getoption("--soak"):
        use_fork_server()
    from reefcast.server import supervisor

    # While a broker is killed its port is free, and no other process of tests may choose it.
    number, workers = process_of_many()
    share = len(supervisor.PORTS) // workers
    supervisor.PORTS = supervisor.PORTS[number * share :][:share]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the collector of garbage: half a million objects are made that stay, and it
    would look through them again and again (a fifth of the time that this takes)."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, not skip, tests that must be asked for. With `--soak`, every property is one of the
    long seeded tests, with many times its examples."""
    unasked = [marker for marker in ("soak", "data") if not config.getoption(f"--{marker}")]
    leave_out(config, items, lambda item: any(map(item.get_closest_marker, unasked)))
    for item in items:
        item.stash[QUICK] = is_quick(item)
    if config.getoption("--quick"):
        leave_out(config, items, lambda item: not item.stash[QUICK] or is_long(item))
        try_examples(items, QUICK_TIMES)
    elif config.getoption("--soak"):
        properties = [item for item in items if is_property(item)]
        try_examples(properties, SOAK_TIMES)
        for item in properties:
            item.add_marker("soak")
    else:
        try_examples(items, TEST_TIMES)
    _, workers = process_of_many()
    items[:] = dealt(items, workers, lambda item: item.stash[QUICK])
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            soak = item.get_closest_marker("soak") is not None
            item.obj = bounded(item.obj, SOAK_TEST_S if soak else ASYNC_TEST_S)


def process_of_many() -> tuple[int, int]:
    """Return the number of this process among those that run the tests, and their count."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return int(number), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def leave_out(
    config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], bool]
) -> None:
    wanted, left_out = [], []
    for item in items:
        (left_out if unwanted(item) else wanted).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = wanted


def pytest_collection_finish() -> None:
    """Let the collector of garbage ignore what was made for all tests. It is not asked to look
    through it first (0.7 s in each process): what collecting leaves behind is little."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Give back what was frozen as late as possible, because pytest still looks for garbage:
    libraries report what is left at the end as leaked."""
    atexit.register(gc.unfreeze)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Before the first test, give way to the process that has the Spark session."""
    session = item.session
    if session.stash.setdefault(BEGUN, item) is not item:
        return
    _, workers = process_of_many()
    if workers > 1 and gives_way(item, session.items):
        os.nice(NICE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test of the inner loop that opens anything. Skip one in which Spark gave up waiting
    for a Python process that it had started, on a busy machine: it waits for ten seconds, which no
    setting changes."""
    try:
        with GUARD.over() if item.stash[QUICK] else nullcontext():
            return (yield)
    except Exception as error:
        if "Python worker failed to connect back" not in str(error):
            raise
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        if load < TOO_BUSY:
            raise
        pytest.skip(f"Spark gave up starting a Python process: {load:.1f} run per core")


def bounded(test: Callable[..., Awaitable[None]], limit_s: float) -> Callable[..., Awaitable[None]]:
    """Return the test with a time limit; it fails at the place where it waits."""

    @functools.wraps(test)
    async def in_time(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(limit_s):
            await test(*args, **kwargs)

    return in_time


@pytest.fixture
def started_anew() -> Iterator[None]:
    """Start every process of a test anew, and fork none: for tests of how commands start."""
    with starting_anew():
        yield


@pytest.fixture(scope="session")
def data(request: pytest.FixtureRequest) -> Path:
    """Return the directory of the data sets that tests marked `data` read."""
    directory: Path = request.config.getoption("--data")
    return directory


@pytest.fixture(scope="session")
def java() -> None:
    """Skip tests that need Java where there is none; `make test` checks for it first."""
    from reefcast.errors import LocalError
    from reefcast.pipeline.session import check_java

    try:
        check_java()
    except LocalError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    """Yield the one Spark session of a test process."""
    from reefcast.pipeline.session import spark_session

    with spark_session("reefcast tests", brief=True) as session:
        yield session
