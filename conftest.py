"""Options and profiles that all tests share."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "quick", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("quick")
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "tests" / "spark_conf"))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore Ctrl-C; children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ASYNC_TEST_S, SOAK_TEST_S = 900.0, 3600.0
"""No test of live brokers waits for ever, whatever it forgot to bound itself; many times what one
takes on a machine that has much else to do."""
DATA = Path(__file__).parents[1] / "shared" / "data"
"""Public data sets beside the checkout; not everybody has them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long seeded tests too")
    parser.addoption(
        "--data",
        type=Path,
        default=DATA if DATA.is_dir() else None,
        help="directory of public data sets: run the tests that read them too",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that must be asked for are deselected, not skipped. Those of Spark come first: one of
    two processes takes them, with one session, and whoever has done takes over short ones."""
    unasked = [marker for marker in ("soak", "data") if not config.getoption(f"--{marker}")]
    left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            soak = item.get_closest_marker("soak") is not None
            item.obj = bounded(item.obj, SOAK_TEST_S if soak else ASYNC_TEST_S)


def bounded(test: Callable[..., Awaitable[None]], limit_s: float) -> Callable[..., Awaitable[None]]:
    """The test, which fails where it waits when its time is over."""

    @functools.wraps(test)
    async def in_time(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(limit_s):
            await test(*args, **kwargs)

    return in_time


@pytest.fixture(scope="session")
def data(request: pytest.FixtureRequest) -> Path:
    """Where the data sets are that the tests marked `data` read."""
    directory: Path = request.config.getoption("--data")
    return directory


@pytest.fixture(scope="session")
def java() -> None:
    """Tests that need Java are skipped where there is none; `make test` asks for it first."""
    from reefcast.errors import LocalError
    from reefcast.pipeline.session import check_java

    try:
        check_java()
    except LocalError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    """The one Spark session of a test process."""
    from reefcast.pipeline.session import spark_session

    with spark_session("reefcast tests") as session:
        yield session
