"""Published pages that wait for their runs, and what tests of pages make of that."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

UNMADE: dict[str, str] = {}
"""Pages that are older than what they are made from, or not there, and why; they are made by
`reefcast-lab experiment report NAME --scale paper`. A test of a page that is named here must fail,
so that nobody forgets to take it out."""


def with_unmade(names: Iterable[str]) -> list[object]:
    """Return names of pages as parameters of a test of published pages."""
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=UNMADE[name], strict=True))
        if name in UNMADE
        else name
        for name in names
    ]
