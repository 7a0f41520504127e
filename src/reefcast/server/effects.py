"""Carrying out what the core says: the hot half of a live broker.

A publication goes out as the bytes that it came in as; subscribers with the same subscription
numbers share one frame, and so do neighbours with the same header.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import (
    Deliver,
    Discard,
    Effect,
    LinkName,
    Publish,
    Refused,
    Send,
    SetTimer,
)
from reefcast.model.wire import FrameKind
from reefcast.server.broker_link import BrokerLink
from reefcast.server.client_session import ClientSession
from reefcast.server.tracing import LiveTrace


class Effector:
    """Puts effects on links and into subscribers' queues.

    Effects for a client that has left meanwhile are passed over: the core is about to hear of it.
    One that cannot be carried out (`failed` hears of it) takes no other with it.
    """

    def __init__(
        self,
        links: dict[LinkName, BrokerLink],
        sessions: dict[LinkName, ClientSession],
        set_timer: Callable[[SetTimer], None],
        discarded: Callable[[Discard], None],
        failed: Callable[[Effect], None],
        trace: LiveTrace | None,
    ) -> None:
        self._links = links
        self._sessions = sessions
        self._set_timer = set_timer
        self._discarded = discarded
        self._failed = failed
        self._trace = trace
        self._last: tuple[object, object, bytes] = (None, None, b"")

    def carry_out(self, effects: Sequence[Effect]) -> int:
        """Returns how many of them failed."""
        failures = 0
        for effect in effects:
            try:
                self._do(effect)
            except Exception:
                failures += 1
                self._failed(effect)
        return failures

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            self._deliver(effect)
        elif isinstance(effect, Send):
            self._send(effect)
        elif isinstance(effect, Discard):
            self._discarded(effect)
        else:
            self._set_timer(effect)

    def _deliver(self, deliver: Deliver) -> None:
        sessions, body = self._sessions, deliver.publish.body
        frames: dict[tuple[int, ...], bytes] = {}
        for client, numbers in deliver.to.items():
            key = tuple(numbers)
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = wire.encode_deliver(key, body)
            session = sessions.get(client)
            if session is not None:
                session.outbox.push_data(frame)

    def _send(self, send: Send) -> None:
        message = send.message
        link = self._links.get(send.link)
        if isinstance(message, Publish):
            if link is None:
                return
            frame = self._publish_frame(message)
            link.send_publication(frame, message)
        else:
            frame = wire.encode(FrameKind.CONTROL, message)
            if link is not None:
                link.send_control(frame)
            elif send.link in self._sessions:
                outbox = self._sessions[send.link].outbox
                if isinstance(message, Refused) and message.publication is not None:
                    outbox.push_urgent(frame)  # the acknowledgement must not overtake it
                else:
                    outbox.push_control(frame)
        if self._trace is not None:
            queue_len = link.window.queue_len if link is not None else 0
            self._trace.message(send, len(frame), queue_len)

    def _publish_frame(self, publish: Publish) -> bytes:
        """The frame; the same for each neighbour that gets the same header."""
        publication, header, frame = self._last
        if publication is not publish.publication or header is not publish.header:
            frame = wire.encode_publish(publish)
            if len(frame) > wire.LENGTH_BYTES + wire.MAX_FRAME_BYTES:
                # It grew by its header; the neighbour would end the connection, again and again.
                raise ProtocolError(f"the frame of {len(frame)} bytes is larger than frames may be")
            self._last = (publish.publication, publish.header, frame)
        return frame


def in_words(effect: Effect) -> str:
    """For the log; a publication, which may be very large, by its id."""
    if isinstance(effect, Send) and isinstance(effect.message, Publish):
        return "send publication {}#{} to {}".format(*effect.message.publication.id, effect.link)
    if isinstance(effect, Deliver):
        return "deliver publication {}#{}".format(*effect.publish.publication.id)
    return f"{effect!r:.500}"


def fed_links(effects: Sequence[Effect]) -> set[LinkName]:
    """The links that got a publication."""
    fed: set[LinkName] = set()
    for effect in effects:
        if isinstance(effect, Deliver):
            fed.update(effect.to)
        elif isinstance(effect, Send) and isinstance(effect.message, Publish):
            fed.add(effect.link)
    return fed
