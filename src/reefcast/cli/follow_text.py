"""What `reefcast follow` prints of the path of a publication: lines for people, or one of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from reefcast.model.wording import printable
from reefcast.words import counted

if TYPE_CHECKING:
    from rich.text import Text

Told = Mapping[str, Any]
Piece = tuple[str, str]
"""A text and its style."""
STYLES = {
    "delivered": "green",
    "forwarded": "cyan",
    "refused": "bold red",
    "unwanted": "yellow",
    "held": "yellow",
}
"""The styles of what brokers decide; nothing for what neither helps nor harms (a duplicate)."""
QUIET, BAD = "dim", "bold red"


def json_line(path: Told, awaited: Told, share: float) -> str:
    """Return a path as a line of JSON. `awaited`: the brokers it was sent to that have not told of
    it, and why; `share`: of the publications that are followed."""
    attributes = msgspec.Raw(path["attributes"].encode())
    record = {**path, "attributes": attributes, "awaited": awaited, "share": share}
    return msgspec.json.encode(record).decode()


def plain(path: Told, awaited: Told) -> str:
    """Return lines about a path: the publication, then a line for each broker."""
    return "\n".join("".join(text for text, _ in line) for line in _lines(path, awaited))


def coloured(path: Told, awaited: Told) -> Text:
    """Return the same lines with colours."""
    from rich.text import Text

    lines = [Text.assemble(*line) for line in _lines(path, awaited)]
    return Text("\n").join(lines)


def _lines(path: Told, awaited: Told) -> Iterator[list[Piece]]:
    yield _head(path)
    brokers = [*(seen["broker"] for seen in path["sightings"]), *awaited]
    width = max(map(len, brokers), default=0)
    for seen in path["sightings"]:
        yield _step(path, seen, width)
    for broker, why in awaited.items():
        yield [(f"  {broker:{width}}  ", "bold"), (printable(why), BAD)]


def _head(path: Told) -> list[Piece]:
    """Return the publication as `reefcast subscribe` prints an event."""
    time = datetime.fromtimestamp(path["published_us"] / 1e6, UTC)
    attributes = msgspec.json.decode(path["attributes"])
    parts = [f"{name}={_value(value)}" for name, value in attributes.items()]
    if path["topics"]:
        parts.append(f"topics={','.join(path['topics'])}")
    if path["payload"]:
        parts.append(f"payload={path['payload']} bytes")
    if path["cut"]:
        parts.append("(in part)")
    rest = printable("  ".join(["", *parts]))
    stamp = f"{time:%Y-%m-%dT%H:%M:%S.%f}Z  "
    return [(stamp, QUIET), (printable(path["id"]), "bold"), (rest, "")]


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _step(path: Told, seen: Told, width: int) -> list[Piece]:
    """Return what one broker saw: when, from whom, what it decided, and for whom."""
    outcome = seen["outcome"]
    after = f"+{duration(seen['at_us'] - path['published_us'])}".replace("+-", "-")
    from_whom = f"from {seen['by']}" if seen["hops"] else "from its publisher"
    parts: list[Piece] = [
        (f"  {seen['broker']:{width}}  ", "bold"),
        (f"{after:>9}  ", ""),
        (outcome, STYLES.get(outcome, "")),
        (f"  {printable(from_whom)}{_remarks(seen)}", QUIET),
    ]
    if seen.get("why"):
        parts.append((f"  {printable(seen['why'])}", STYLES.get(outcome, "")))
    return parts + [(f"  {text}", "") for text in _targets(seen)]


def _remarks(seen: Told) -> str:
    text = ", sent again" if seen["again"] else ""
    text += ", to be confirmed" if seen["confirm"] else ""
    matched = seen.get("matched")
    if matched is not None:
        text += f"; {counted(matched, 'row')} matched, {duration(seen['took_us'])}"
    return text


def _targets(seen: Told) -> Iterator[str]:
    """Yield to whom it went: neighbours with their queues, and clients."""
    for hop in seen.get("to", ()):
        soft = ", a soft link" if hop["soft"] else ""
        yield f"-> {printable(hop['to'])} (queue {hop['queue_len']}{soft})"
    yield from _left_out(seen.get("hops_out", 0) - len(seen.get("to", ())))
    clients = seen.get("clients", ())
    if clients:
        yield f"to {printable(', '.join(clients))}"
    yield from _left_out(seen.get("delivered", 0) - len(clients))


def _left_out(count: int) -> Iterator[str]:
    if count > 0:
        yield f"and {count} more"


def duration(us: float) -> str:
    """Return microseconds as a person would say them."""
    if abs(us) < 1e3:
        return f"{us:.0f} us"
    return f"{us / 1e3:.1f} ms" if abs(us) < 1e6 else f"{us / 1e6:.1f} s"
