"""Messages on circuits in parts that any link carries."""

from __future__ import annotations

from reefcast.model import wire
from reefcast.model.messages import ControlMessage, LinkName, Send
from reefcast.sessions.relay_messages import OnCircuit, ToClient, ToHome

PART_BYTES = 256 * 1024
"""The most that one message on a circuit carries."""
Parts = dict[LinkName, list[bytes]]
"""By client, the parts of messages that are not complete."""


def in_parts(
    kind: type[ToHome | ToClient],
    id: str,
    client: LinkName,
    message: ControlMessage,
    link: LinkName,
) -> list[Send]:
    """Return a message for the other end of a circuit, in parts that any link carries."""
    body = wire.encode_message(message)
    cuts = range(0, len(body), PART_BYTES)
    parts = [body[cut : cut + PART_BYTES] for cut in cuts]
    last = len(parts) - 1
    return [
        Send(link, kind(id=id, client=client, part=part, last=i == last))
        for i, part in enumerate(parts)
    ]


def whole(parts: Parts, message: OnCircuit) -> bytes | None:
    """Return the message of which this is the last part; None if more are to come."""
    if not message.last:
        parts.setdefault(message.client, []).append(message.part)
        return None
    if message.client not in parts:
        return message.part
    return b"".join([*parts.pop(message.client), message.part])
