"""In which order tests run, in several processes (`pytest -n`) whose idle ones take over from the
others (`--dist worksteal`).

Each process is given a run of the list, and one that is done takes over the end of another's. So
each run begins with tests that wait or take long, and ends with quick ones:

- The tests that use the Spark session begin the first run. One process starts the session and keeps
  it, because the others take over from the end.
- The other tests that open connections or start processes begin the other runs.
- Of both, the long ones come first.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest


def dealt(
    items: list[pytest.Item], workers: int, is_quick: Callable[[pytest.Item], bool]
) -> list[pytest.Item]:
    """Return the tests in the order in which they are to be given to `workers` processes."""
    session = [item for item in items if "spark" in getattr(item, "fixturenames", ())]
    live = [item for item in items if not is_quick(item) and item not in session]
    quick = [item for item in items if is_quick(item)]
    for some in (session, live):
        some.sort(key=lambda item: item.get_closest_marker("long") is None)
    order: list[pytest.Item] = []
    for head in (session, *_slices(live, max(1, workers - 1))):
        room = max(0, len(items) // workers - len(head))
        order += [*head, *quick[:room]]
        del quick[:room]
    return order + quick


def _slices(items: list[pytest.Item], count: int) -> list[list[pytest.Item]]:
    """Return so many consecutive parts of about the same length."""
    cuts = [len(items) * number // count for number in range(count + 1)]
    return [items[start:end] for start, end in pairwise(cuts)]
