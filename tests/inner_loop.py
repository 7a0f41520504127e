"""The quick tests, which `make quick` runs: those that open no connection, start no process and
need no Spark.

No test declares itself quick. `is_quick` follows what the code of a test refers to, through the
helpers beside it and its fixtures. `Guard` fails a quick test that opens something all the same, in
every run, so that a wrong choice is noticed. Where references cannot be followed (a command that is
invoked, an example that is executed), the test has the mark `live`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "tests", ROOT / "lab" / "tests")
NOT_QUICK = ("live", "spark", "soak", "data")
"""Marks of tests that are not quick, whatever they refer to."""
LIVE = (
    *("subprocess.", "multiprocessing.", "concurrent.futures.process.", "pyspark.", "uvloop"),
    *("asyncio.subprocess.create_", "asyncio.streams.open_", "asyncio.streams.start_"),
    *("socket.create_", "socket.socket", "webbrowser."),
    *("reefcast.server.node.Node", "reefcast.server.peer.Peer", "reefcast.server.supervisor."),
    *("reefcast.client.connecting.", "reefcast.client.sync", "reefcast.server.admin."),
    *("reefcast.storage_node.node.", "reefcast.pipeline.session.spark_session"),
)
"""What opens connections, starts processes or needs Spark: the prefixes of qualified names."""
OPENING = frozenset(
    {
        *("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"),
        *("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn"),
    }
)
"""Python's audit events for what a quick test must not do."""
QUICK_TIMES = 0.05
"""The factor by which the inner loop multiplies the examples of a property."""
TEST_TIMES = 0.1
"""The factor by which `make test` multiplies them, which draws the same each time; new ones are for
the inner loop and `make soak`."""
SOAK_TIMES = 10
"""The factor by which `make soak` multiplies them."""
LEAST_EXAMPLES = 2
"""So many examples are tried of a property that asks for as many: the first one that hypothesis
tries is the simplest, which shows little."""


def is_quick(item: pytest.Item) -> bool:
    """Return whether nothing that a test and its fixtures refer to is `LIVE`."""
    if any(map(item.get_closest_marker, NOT_QUICK)) or not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return not reaches_live(
        [item.obj, item.cls, *parameters, *(each.func for several in fixtures for each in several)]
    )


def is_long(item: pytest.Item) -> bool:
    """Return whether a test takes seconds, by its mark."""
    return item.get_closest_marker("long") is not None


def reaches_live(roots: Iterable[object]) -> bool:
    """Return whether one of these objects is `LIVE`, or refers to something `LIVE`."""
    todo: list[tuple[object, object]] = [(root, None) for root in roots]
    seen: dict[int, tuple[object, object]] = {}
    while todo:
        thing, referrer = todo.pop()
        if id(thing) in seen or id(thing) in _free:
            continue
        seen[id(thing)] = thing, referrer
        if id(thing) in _live or _name(thing).startswith(LIVE):
            while referrer is not None:
                _live[id(referrer)] = referrer
                referrer = seen[id(referrer)][1]
            return True
        todo += [(each, thing) for each in _referred(thing)]
    _free.update(seen)
    return False


_free: dict[int, object] = {}
_live: dict[int, object] = {}
"""Objects that lead to nothing `LIVE`, and objects that lead to some of it, by id: thousands of
tests refer to the same helpers. Both keep their objects, because the id of an object that is gone
is used again."""


def _name(thing: object) -> str:
    """Return the qualified name of a module (with a dot), function or class, else nothing."""
    if isinstance(thing, ModuleType):
        return f"{thing.__name__}."
    if isinstance(thing, str):  # of a module that is not loaded yet
        return f"{thing}."
    name, module = getattr(thing, "__qualname__", None), getattr(thing, "__module__", None)
    return f"{module}.{name}" if isinstance(name, str) else ""


def _referred(thing: object) -> Iterable[object]:
    """Return what a function or class of the tests refers to, or what a container holds."""
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, list | tuple | set | frozenset):
        return thing
    if isinstance(thing, staticmethod | classmethod):
        return (thing.__func__,)
    if isinstance(thing, property):
        return (thing.fget,)
    if isinstance(thing, type):
        return (*vars(thing).values(), *thing.__bases__) if _is_ours(thing.__module__) else ()
    if callable(thing):
        return _referred_by_function(thing)
    return (type(thing),) if _is_ours(type(thing).__module__) else ()


def _referred_by_function(function: object) -> Iterable[object]:
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(function, FunctionType) or not _is_ours(function.__module__):
        return ()
    if function not in _references:
        _references[function] = list(_references_of(function))
    return _references[function]


_references: dict[FunctionType, list[object]] = {}
"""What each function that was followed refers to: hundreds of tests refer to the same helpers."""


def _references_of(function: FunctionType) -> Iterator[object]:
    names = set(_names_in(function.__code__))
    yield from (cell.cell_contents for cell in function.__closure__ or ())
    yield from function.__defaults__ or ()
    for name in names:
        found = function.__globals__.get(name, sys.modules.get(name, name))
        yield found
        if isinstance(found, ModuleType):
            yield from (vars(found).get(each) or _lazily(found, each) for each in names)


def _lazily(module: ModuleType, name: str) -> object:
    """Return what our own module loads lazily under this name."""
    return getattr(module, name, None) if module.__name__.startswith("reefcast") else None


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


@functools.cache
def _is_ours(module: str) -> bool:
    """Return whether a module stands beside the tests: only those are followed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and any(Path(file).is_relative_to(folder) for folder in FOLDERS)


def is_property(item: pytest.Item) -> bool:
    """Return whether hypothesis chooses examples for a test, or for a function within it."""
    return _holder(item) is not None or (
        isinstance(item, pytest.Function)
        and examples.__name__ in _names_in(inspect.unwrap(item.function).__code__)
    )


def try_examples(items: Iterable[pytest.Item], times: float) -> None:
    """Multiply the number of examples that properties ask for.

    Hypothesis has no public way to change what `@settings` on a test says. Tests with different
    parameters are one function, which is changed once.
    """
    THIS_RUN.times = times
    holders = {id(holder[0]): holder for holder in map(_holder, items) if holder is not None}
    for thing, name in holders.values():
        asked: settings = getattr(thing, name)
        setattr(thing, name, settings(asked, max_examples=examples(asked.max_examples)))


def examples(asked: int) -> int:
    """Return how many examples to try of a property that asks for so many. A property within a
    test, which no test item shows, calls it itself."""
    return max(min(asked, LEAST_EXAMPLES), round(asked * THIS_RUN.times))


THIS_RUN = SimpleNamespace(times=1.0)
"""What `try_examples` multiplied by."""


def _holder(item: pytest.Item) -> tuple[Any, str] | None:
    """Return the object that has the settings of a property, and their name there; of other tests
    nothing."""
    if not isinstance(item, pytest.Function):
        return None
    if getattr(item.cls, "settings", None) is not None:
        return item.cls, "settings"
    function = getattr(item.obj, "__func__", item.obj)
    return (function, "_hypothesis_internal_use_settings") if is_hypothesis_test(function) else None


class Guard:
    """A guard that fails a quick test at the place where it opens a connection or starts a process.

    Python calls an audit hook before it does either. A hook stays for the life of the process, so
    there is only one, which acts only while a quick test runs.
    """

    def __init__(self) -> None:
        self._on = False
        self._opened: list[str] = []
        sys.addaudithook(self._handle_message)

    def _handle_message(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._on and event in OPENING and not _of_spark(sys._getframe()):
            self._opened.append(f"{event} {arguments[1:]!r:.200}")
            raise NotQuickError(f"a quick test opens something: {self._opened[-1]}")

    @contextmanager
    def over(self) -> Iterator[None]:
        """Watch what happens in the block, and fail after it if it swallowed the error."""
        self._on = True
        self._opened.clear()
        try:
            yield
        finally:
            self._on = False
        if self._opened:
            pytest.fail(f"a quick test opens something: {self._opened}; give it the mark `live`")


GUARD = Guard()


class NotQuickError(RuntimeError):
    """Raised at the place where a quick test opens a connection or starts a process."""


def _of_spark(frame: FrameType | None) -> bool:
    """Return whether this is py4j, which tells Java of collected objects whenever Python collects
    them: also in a test that has nothing to do with the process's Spark session."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        frame = frame.f_back
    return False
