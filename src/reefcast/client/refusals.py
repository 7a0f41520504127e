"""The error for publications that the broker refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reefcast.client.batches import Published
from reefcast.errors import RefusedError

BATCHES_KEPT = 256
"""How many batches of `publish_many` are remembered, to name the rows of refused publications."""
NAMED = 5
"""How many refused publications the text of an error names; the error holds the ids of all."""


def refused(
    publisher: str, refusals: Sequence[tuple[int, str]], batches: Iterable[Published]
) -> RefusedError:
    """Make the error for refused publications. `refusals`: their numbers and the broker's
    reasons."""
    known = list(batches)
    texts = [f"publication {_named(seq, known)}" for seq, _ in refusals[:NAMED]]
    ids = tuple((publisher, seq) for seq, _ in refusals)
    if len(refusals) == 1:
        return RefusedError(f"{texts[0]} was refused: {refusals[0][1]}", publications=ids)
    more = f" and {len(refusals) - NAMED} more" if len(refusals) > NAMED else ""
    return RefusedError(
        f"{len(refusals)} publications were refused; the first: {texts[0]} was refused: "
        f"{refusals[0][1]}; the others: {', '.join(texts[1:])}{more}",
        publications=ids,
    )


def _named(seq: int, batches: Iterable[Published]) -> str:
    for batch in batches:
        row = seq - batch.first_seq
        if 0 <= row < batch.size:
            return f"{seq} (row {row} of a batch of {batch.size})"
    return str(seq)
