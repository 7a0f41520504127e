"""Carrying out the effects of the core: the hot half of a live broker.

A publication leaves in the bytes in which it came; neighbours with the same header share a frame. A
delivery goes to the port of its client (`client_port`), as a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from reefcast.errors import InternalError
from reefcast.history.messages import End
from reefcast.model import wire
from reefcast.model.messages import (
    CloseLink,
    ControlMessage,
    Deliver,
    Discard,
    Effect,
    Fetch,
    Keep,
    LinkName,
    OpenLink,
    Promote,
    Publish,
    Refused,
    Send,
    SessionNews,
    SetTimer,
)
from reefcast.model.wire import FrameKind
from reefcast.protocol.batches import Batch
from reefcast.retaining.messages import NotRetained
from reefcast.server.keeper import Keeping
from reefcast.server.outputs import Outputs
from reefcast.server.passage import Output
from reefcast.server.tracing import Journal
from reefcast.sessions.messages import Failed


class LinkOpener(Protocol):
    """Opens and closes soft links for the core, and promotes and demotes links; the core learns the
    outcome from inputs."""

    def open(self, to: LinkName) -> None: ...

    def close(self, name: LinkName) -> None: ...

    def promote(self, name: LinkName) -> None: ...
    def demote(self, name: LinkName) -> None: ...


class Effector:
    """Carries out effects on links and clients' ports.

    Effects for a client that has left are skipped: the core is about to learn of it. An effect that
    fails does not affect the others. `opener` is set before the first effect, and `keeper` if the
    broker has a disk."""

    def __init__(
        self, outputs: Outputs, journal: Journal, set_timer: Callable[[SetTimer], None]
    ) -> None:
        self._links = outputs.links
        self._clients = outputs.clients
        self._journal = journal
        self._set_timer = set_timer
        self.opener: LinkOpener
        self.keeper: Keeping
        self._last: tuple[object, object, bytes] = (None, None, b"")

    def carry_out(self, effects: Sequence[Effect]) -> int:
        """Carry the effects out; return how many of them failed. The journal has the reasons."""
        failures = 0
        for effect in effects:
            try:
                if isinstance(effect, Deliver):
                    self._deliver(effect)
                elif isinstance(effect, Send):
                    self._send(effect.link, effect.message)
                elif isinstance(effect, Discard):
                    self._journal.discarded(effect)
                elif isinstance(effect, OpenLink):
                    self.opener.open(effect.to)
                elif isinstance(effect, CloseLink):
                    self.opener.close(effect.link)
                elif isinstance(effect, SetTimer):
                    self._set_timer(effect)
                elif isinstance(effect, Keep | Fetch | SessionNews):
                    self._about_sessions(effect)
                elif isinstance(effect, Promote):
                    self.opener.promote(effect.link)
                else:
                    self.opener.demote(effect.link)
            except Exception:
                failures += 1
                self._journal.failed(f"to carry out: {in_words(effect)}")
        return failures

    def _about_sessions(self, effect: Keep | Fetch | SessionNews) -> None:
        if isinstance(effect, Keep):
            self.keeper.keep(effect.changes, effect.token)
        elif isinstance(effect, Fetch):
            self.keeper.fetch(effect.events)
        else:
            self._journal.happened_to_session(effect)

    def hand_out(self, outputs: Iterable[Output]) -> None:
        """Queue the outputs of the compiled path on links and ports."""
        for name, is_client, batch in outputs:
            try:
                if not is_client:
                    self._links[name].send_batch(batch)
                elif not self._clients[name].push_batch(batch):
                    self._push_each(name, batch)
            except Exception:
                self._journal.failed(f"to hand out {batch.count} publications to {name}")

    def _push_each(self, client: LinkName, batch: Batch) -> None:
        """Push deliveries one by one while the client has a session: one too many may end it."""
        for frame in batch.frames():
            port = self._clients.get(client)
            if port is None:
                return
            port.push_delivery(frame)

    def _deliver(self, deliver: Deliver) -> None:
        clients, publish = self._clients, deliver.publish
        for client, numbers in deliver.to.items():
            port = clients.get(client)
            if port is not None:
                port.deliver(numbers, publish)
        if self._journal.details is not None:
            self._journal.details.delivered(deliver)

    def _send(self, link: LinkName, message: ControlMessage | Publish) -> None:
        queue = self._links.get(link)
        if isinstance(message, Publish):
            if queue is None:
                self._journal.lost(message, "link_lost", link)
                return
            frame = self._publish_frame(message)
            queue.send_publication(frame, message)
            size = len(frame)
        elif queue is not None:
            frame = wire.encode(FrameKind.CONTROL, message)
            queue.send_control(frame)
            size = len(frame)
        else:
            port = self._clients.get(link)
            size = 0 if port is None else port.tell(message)
            if port is not None and is_refusal(message):
                port.on_refused(message)
        if self._journal.details is not None:
            queue_len = 0 if queue is None else queue.window.queue_len
            self._journal.details.message(link, message, size, queue_len)

    def _publish_frame(self, publish: Publish) -> bytes:
        """Return the frame of a publication; neighbours with the same header share it."""
        if publish.again:
            return _checked(wire.encode_publish(publish))
        publication, header, frame = self._last
        if publication is not publish.publication or header is not publish.header:
            frame = _checked(wire.encode_publish(publish))
            self._last = (publish.publication, publish.header, frame)
        return frame


def is_refusal(message: ControlMessage) -> bool:
    """Return whether a client is told by this that it does not get, or may not do, something."""
    if isinstance(message, Failed):
        return not (message.gone or message.again)
    if isinstance(message, End):
        return message.refused
    return isinstance(message, Refused | NotRetained)


def _checked(frame: bytes) -> bytes:
    """Return `frame` if a neighbour accepts its size: a header makes a publication larger on its
    way."""
    if len(frame) > wire.LENGTH_BYTES + wire.MAX_FRAME_BYTES:
        # The neighbour would end the connection, again and again.
        raise InternalError(
            f"the frame has {len(frame)} bytes with its header; at most {wire.MAX_FRAME_BYTES} "
            "are allowed"
        )
    return frame


def in_words(effect: Effect) -> str:
    """Describe an effect for the log: a publication, which may be very large, by its id."""
    if isinstance(effect, Send) and isinstance(effect.message, Publish):
        return "send publication {}#{} to {}".format(*effect.message.publication.id, effect.link)
    if isinstance(effect, Deliver):
        return "deliver publication {}#{}".format(*effect.publish.publication.id)
    return f"{effect!r:.500}"


def fed_links(effects: Sequence[Effect]) -> set[LinkName]:
    """Return the links to which a publication was sent or delivered, those of clients included."""
    fed: set[LinkName] = set()
    for effect in effects:
        if isinstance(effect, Deliver):
            fed.update(effect.to)
        elif isinstance(effect, Send) and isinstance(effect.message, Publish):
            fed.add(effect.link)
    return fed
