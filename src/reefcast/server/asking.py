"""What a client may ask of its broker: filters and topics within `[limits]`, looked at before any
work is done for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reefcast.errors import LimitError, ProtocolError
from reefcast.history.messages import End, Find, Request, Stores
from reefcast.model.effort import FilterLimits, admit_filter
from reefcast.model.filters import Filter
from reefcast.model.grants import Grant
from reefcast.model.messages import Advertise, ControlMessage, Publish, Refused, Subscribe
from reefcast.network.sections import LimitsSection
from reefcast.retaining.messages import NotRetained, Recall
from reefcast.routing.clients import ClientState
from reefcast.sessions.messages import (
    AboutSession,
    AddFilter,
    Attach,
    Deposit,
    Failed,
    ListSessions,
    Note,
    ReadNotes,
)

WithFilter = Advertise | Subscribe | AddFilter | Attach | Recall | Request
"""What has a filter that a broker parses."""
WithTopics = Find | Stores | Request
LIMITED = (Advertise, Subscribe, AddFilter, Attach, Recall, Request, Find, Stores)


def admit(
    asked: WithFilter | WithTopics, limits: LimitsSection, client: ClientState | None
) -> Filter | None:
    """Check a client's request against the limits. Raises `LimitError`, which names the limit. The
    caller keeps the filter that this may return until the broker has handled the message (see
    `admit_filter`)."""
    if isinstance(asked, Find | Stores | Request):
        _check_topics(asked, limits)
    if isinstance(asked, Find | Stores):
        return None
    if isinstance(asked, Advertise | Subscribe) and client is not None:
        _check_room(asked, limits, client)
    return admit_filter(asked.filter, filter_limits(limits))


def filter_limits(limits: LimitsSection) -> FilterLimits:
    """Return the limits of a single filter."""
    return FilterLimits(limits.filter_steps, limits.filter_depth, limits.name_chars)


def refusal(asked: WithFilter | WithTopics, reason: str, me: str, client: str) -> ControlMessage:
    """Return the answer to a request that exceeds a limit. Raises `ProtocolError` for a request
    that has no such answer."""
    if isinstance(asked, Advertise | Subscribe):
        return Refused(asked.token, reason)
    if isinstance(asked, AddFilter | Attach):
        return Failed(token=asked.token, reason=reason)
    if isinstance(asked, Recall):
        return NotRetained(token=asked.token, reason=reason)
    if isinstance(asked, Request):
        return End(id=asked.id, path=(client, me), at=0, reason=reason, refused=True)
    raise ProtocolError(reason)


def check_for_others(asked: AboutSession | ListSessions, grant: Grant | None) -> None:
    """Check a user's request about a session of another user, whatever his rights. `grant`: what he
    may do, None for everything. Raises `ProtocolError` for what only the session's own user may
    ask."""
    if isinstance(asked, Deposit) and grant is not None:
        raise ProtocolError(
            "only their own user puts past events into a durable session: nobody else's "
            "word counts for what others have published"
        )
    if isinstance(asked, Note | ReadNotes):
        raise ProtocolError(
            "only its own user leaves notes with a durable session, or reads them: they are secrets"
        )


def small_enough(
    batch: Iterable[Publish], limits: LimitsSection, tell: Callable[[Refused], object]
) -> list[Publish]:
    """Return the publications that are not too large, and refuse the others."""
    fitting, most = [], limits.publication_bytes
    for publish in batch:
        size = len(publish.body)
        if size <= most:
            fitting.append(publish)
            continue
        reason = (
            f"this publication has {size} bytes, and may have {most} "
            "(publication_bytes in [limits])"
        )
        tell(Refused(0, reason, publish.publication.id))
    return fitting


def _check_topics(asked: WithTopics, limits: LimitsSection) -> None:
    longest = max(map(len, asked.topics), default=0)
    if longest > limits.topic_chars:
        raise LimitError(
            f"a topic of {longest} characters is asked for; a topic has {limits.topic_chars} "
            "(topic_chars in [limits])"
        )


def _check_room(asked: Advertise | Subscribe, limits: LimitsSection, client: ClientState) -> None:
    if client.registered >= limits.max_subscriptions:
        raise LimitError(
            f"this client has {client.registered} subscriptions and advertisements already, which "
            "is the most (max_subscriptions in [limits])"
        )
    size = client.filter_bytes + len(asked.filter.encode())
    if size > limits.max_filter_bytes:
        raise LimitError(
            f"with this one, the filters of this client have {size} bytes, and may have "
            f"{limits.max_filter_bytes} (max_filter_bytes in [limits])"
        )
