"""Printing to a terminal what others wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def plain_console() -> Console:
    """Return a console for names, ids and filters: `[b]` and `:x:` in them are text, not rich's
    markup or emoji."""
    from rich.console import Console

    return Console(markup=False, emoji=False)
