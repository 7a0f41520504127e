"""In which order tests run, in several processes (`pytest -n`) whose idle ones take over from the
others (`--dist worksteal`).

Each process is given a run of the list, and one that is done takes over the end of another's. So
each run begins with tests that wait or take long, and ends with quick ones:

- The tests that use the Spark session begin the first run, or of many processes the first two.
  These start a session and keep it, because the others take over from the end; one alone would be
  the last to end. The other processes give way to them (`NICE`): who takes over a test that uses
  the session starts one more, half a minute of a processor.
- The other tests that open connections or start processes begin the other runs.
- Of both, the long ones come first.
- Behind the latter come the quick ones that are long all the same: whatever is taken over at the
  end is short, and tests of one file, which share results, mostly stay in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

MANY = 5
"""From so many processes on, two of them have a Spark session."""
NICE = 5
"""By how much the others are nicer than these, where all share few processors."""


def dealt(
    items: list[pytest.Item], workers: int, is_quick: Callable[[pytest.Item], bool]
) -> list[pytest.Item]:
    """Return the tests in the order in which they are to be given to `workers` processes."""
    session = [item for item in items if _uses_session(item)]
    live = [item for item in items if not is_quick(item) and item not in session]
    slow = [item for item in items if is_quick(item) and _is_long(item)]
    quick = [item for item in items if is_quick(item) and not _is_long(item)]
    for some in (session, live):
        some.sort(key=lambda item: not _is_long(item))
    parts = _by_file(session, _sessions(workers))
    others = max(1, workers - len(parts))
    heads = zip(_slices(live, others), _slices(slow, others), strict=True)
    order: list[pytest.Item] = []
    for head in (*parts, *([*waiting, *computing] for waiting, computing in heads)):
        room = max(0, len(items) // workers - len(head))
        order += [*head, *quick[:room]]
        del quick[:room]
    return order + quick


def gives_way(first: pytest.Item, items: list[pytest.Item]) -> bool:
    """Return whether a process with this first test of all lets one with a session go first. (Which
    process is given which run depends on which was ready first.)"""
    return not _uses_session(first) and any(map(_uses_session, items))


def _sessions(workers: int) -> int:
    return 2 if workers >= MANY else 1


def _uses_session(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is not None


def _by_file(items: list[pytest.Item], count: int) -> list[list[pytest.Item]]:
    """Return so many parts with about as many files each, whose tests share fixtures."""
    files = sorted({_file(item) for item in items})
    part = {file: number % count for number, file in enumerate(files)}
    return [[item for item in items if part[_file(item)] == number] for number in range(count)]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _slices(items: list[pytest.Item], count: int) -> list[list[pytest.Item]]:
    """Return so many consecutive parts of about the same length."""
    cuts = [len(items) * number // count for number in range(count + 1)]
    return [items[start:end] for start, end in pairwise(cuts)]
