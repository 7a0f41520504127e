"""Between the terms of `home` and those of `messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from reefcast.errors import LocalError
from reefcast.model.keeping import SessionOptions
from reefcast.model.messages import LinkName
from reefcast.sessions.messages import Handed, LetterRow, Owed, SessionRow
from reefcast.sessions.outcome import ConsumerName, Delivery, Letter
from reefcast.sessions.status import SessionStatus

MOST_TOGETHER, MOST_BYTES = 256, 256 * 1024
"""Events, and bytes of them, in one message to a consumer."""
MOST_ROWS, MOST_LOOKED_AT_BYTES = 1000, 4 * 1024 * 1024
"""Sessions in one message, and bytes of filters or events in one that is looked at."""


def changed_options(options: SessionOptions, given: Mapping[str, object]) -> SessionOptions:
    """Return the options with what is given in their place. Raises `LocalError` for what is no
    option, or none of its values."""
    names = SessionOptions.__struct_fields__
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise LocalError(f"a session has no option {unknown[0]!r}; it has {', '.join(names)}")
    try:
        return msgspec.convert({**msgspec.structs.asdict(options), **given}, SessionOptions)
    except msgspec.ValidationError as error:
        raise LocalError(f"options of a session: {error}") from error


def number_of(status: SessionStatus, filter: str) -> int | None:
    """Return the number of the session's subscription with this filter, if it has one."""
    for number, text in status.subscriptions.items():
        if text == filter:
            return number
    return None


def handed_to(
    consumers: Mapping[ConsumerName, tuple[LinkName, int]], deliveries: Sequence[Delivery]
) -> Iterator[tuple[LinkName, Handed]]:
    """Yield messages with the deliveries of each consumer, in their order; `consumers`: the client
    of each, and its number of it."""
    by_consumer: dict[ConsumerName, list[Delivery]] = {}
    for delivery in deliveries:
        by_consumer.setdefault(delivery.consumer, []).append(delivery)
    for name, its in by_consumer.items():
        if name in consumers:
            client, number = consumers[name]
            for events in in_parts(its):
                yield client, Handed(consumer=number, events=events)


def in_parts(deliveries: Sequence[Delivery]) -> Iterator[tuple[Owed, ...]]:
    """Yield the deliveries in the form in which they travel, as many as one message holds."""
    part: list[Owed] = []
    size = 0
    for each in deliveries:
        if part and (len(part) >= MOST_TOGETHER or size + len(each.body) > MOST_BYTES):
            yield tuple(part)
            part, size = [], 0
        part.append(Owed(each.position, each.tries, each.late, each.subscriptions, each.body))
        size += len(each.body)
    if part:
        yield tuple(part)


def letters_of(letters: Sequence[Letter]) -> tuple[LetterRow, ...]:
    """Return events of a queue as clients are shown them, as many as one message holds."""
    count = _that_fit([len(letter.body) for letter in letters])
    return tuple(map(letter_of, letters[:count]))


def rows_of(statuses: Sequence[SessionStatus], home: str) -> tuple[SessionRow, ...]:
    """Return sessions of this home as clients are shown them, as many as one message holds."""
    some = statuses[:MOST_ROWS]
    sizes = [sum(4 * len(text) for text in each.subscriptions.values()) for each in some]
    return tuple(row_of(each, home) for each in some[: _that_fit(sizes)])


def _that_fit(sizes: Sequence[int]) -> int:
    """Return how many of the first ones fit into a message, at least one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if count and total > MOST_LOOKED_AT_BYTES:
            return count
    return len(sizes)


def row_of(status: SessionStatus, home: str) -> SessionRow:
    """Return a session of this home as clients are shown it."""
    fields = status._asdict()
    del fields["link"], fields["subject"]
    return SessionRow(**fields, home=home)


def letter_of(letter: Letter) -> LetterRow:
    """Return an event of a queue as clients are shown it."""
    return LetterRow(**msgspec.structs.asdict(letter))
