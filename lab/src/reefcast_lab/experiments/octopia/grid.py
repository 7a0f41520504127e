"""The routings of OctopiA's campaigns."""

from __future__ import annotations

PAPER = "octopia"
STATIC = ("spr", "tid-s")
"""One routing of each system: what advertisements and subscriptions do is the same for both."""
ALL = ("spr", "idr", "tid-s", "tid-d")
