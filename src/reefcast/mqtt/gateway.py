"""One connection of an MQTT client: its packets become what a client says to its broker, and what
the broker says becomes packets. No I/O.

Rules
-----
- The gateway begins with a CONNECT whose user is proved, and is not `ready` for other packets
  before it has sent the CONNACK: the client's durable session has to be found first.
- An MQTT session that outlives its connection is a durable session (`lasting`); any other one is
  what the broker has of a connected client.
- Who connects takes the session over, from any other connection at any broker (MQTT-3.1.4-3).
- What goes wrong with one packet ends with DISCONNECT, a reason code and a sentence; 3.1.1 has no
  words for it.

Source: MQTT 5.0 and MQTT 3.1.1, chapters 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from reefcast.model import messages
from reefcast.model.messages import ControlMessage, Refused
from reefcast.model.publication import Publication
from reefcast.mqtt import packets
from reefcast.mqtt.asking import Asking
from reefcast.mqtt.begun import Changes
from reefcast.mqtt.delivering import NO_LIMIT, Delivering, Renderer, Shape
from reefcast.mqtt.fitting import fitted
from reefcast.mqtt.handing import Handing
from reefcast.mqtt.incoming import Answer, Incoming
from reefcast.mqtt.lasting import (
    NEVER,
    SUBSCRIPTION,
    TAKEN,
    TOLD,
    LastingSession,
    SessionFailed,
    expiry_s,
    session_name,
)
from reefcast.mqtt.packets import MQTT_5, Connack, Connect, Packet
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.publishing import Aliases, Publishing
from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.mqtt.requests import MOST_WORDS, OWN_SOURCE, Requests
from reefcast.mqtt.subscriptions import Match, Subscription, Subscriptions, identifiers_of
from reefcast.mqtt.surroundings import Broker, Settings
from reefcast.retaining.messages import NotRetained, Recalled, Retained
from reefcast.sessions.messages import ConsumerEnded, Done, Failed, Handed, Notes, Sessions

MOST_RECEIVED = 65_535
AT_ONCE_S = 1.0
"""How long a durable session outlives a connection that it is not to outlive, if nobody can close
it then."""


class Gateway:
    """One connection. `client_id`: the client's identifier; `publisher`: its id in the network;
    `version`: the protocol level; `encode`: makes bytes of a packet; `assigned`: whether this
    broker chose the identifier. `will`: what to publish if the connection is lost. `most_bytes`:
    the largest packet that the client takes. `expiry_s`: for how many seconds the session outlives
    the connection, `NEVER`: for ever."""

    def __init__(
        self,
        broker: Broker,
        connect: Connect,
        version: int,
        client_id: str,
        publisher: str,
        settings: Settings,
        renderer: Renderer,
        encode: Callable[[Packet], bytes],
        *,
        assigned: bool = False,
    ) -> None:
        self._broker = broker
        self._connect = connect
        self._encode = encode
        self._client_id, self._publisher = client_id, publisher
        self._settings = settings
        self._assigned = assigned
        self.will = connect.will
        self.asking = Asking(broker.control)
        asked = connect.properties
        self._tells_problems = asked.request_problem_information is not False
        self.version = version
        self.expiry_s = min(_expiry_of(connect, version), settings.session_expiry_s)
        self._subscriptions = Subscriptions(version)
        self.most_bytes = asked.maximum_packet_size or NO_LIMIT
        most = asked.receive_maximum or MOST_RECEIVED
        window = min(most, settings.receive_maximum)
        self._handing = Handing(
            *(broker, self.asking, most, window),
            lambda outgoing: Delivering(
                *(self._subscriptions, outgoing, renderer, version),
                *(self.most_bytes, broker.send, broker.now_us),
                publisher.__eq__,
            ),
            self.write,
        )
        self._outgoing, self._delivering = self._handing.outgoing, self._handing.delivering
        open_most = settings.receive_maximum if version == MQTT_5 else MOST_RECEIVED
        self._incoming = Incoming(open_most, self._acknowledge)
        aliases = Aliases(settings.topic_alias_maximum)
        self.publishing = Publishing(
            *(publisher, settings.content, self._incoming, aliases, self.asking),
            *(broker.publish, broker.unspent, broker.now_us, broker.count),
            lambda: renderer.packets,
        )
        share_s = max(1.0, expiry_s(self.expiry_s)) if self.expiry_s != NEVER else 0.0
        self._requests = Requests(
            *(self, self.asking, self._subscriptions, publisher, window, share_s),
            broker.limits,
        )
        self._handlers: dict[type, Callable[..., None]] = {
            packets.Publish: self.publishing.handle,
            packets.Puback: self._outgoing.acknowledged,
            packets.Pubrec: self._handing.received,
            packets.Pubrel: self._released,
            packets.Pubcomp: self._outgoing.completed,
            packets.Subscribe: self._subscribe,
            packets.Unsubscribe: self._unsubscribe,
            packets.Pingreq: lambda _: self.write(packets.Pingresp()),
            packets.Disconnect: self._disconnected,
            packets.Auth: self._no_authentication,
        }

    # --- the beginning ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Find the client's session, and answer its CONNECT."""
        self.asking.begin(self._begin())

    async def _begin(self) -> None:
        try:
            present = await self._find()
            notes = await self._lasting.notes() if self._lasting and present else {}
        except SessionFailed as error:
            self._broker.end(Reason.SERVER_UNAVAILABLE, str(error))
            return
        self.write(Connack(present, Reason.SUCCESS, self._welcome()))
        if self._lasting is not None:
            try:
                await self._go_on(self._lasting, notes)
            except SessionFailed as error:
                self._broker.end(Reason.UNSPECIFIED_ERROR, str(error))
                return
        self._broker.ready()

    async def _find(self) -> bool:
        """Find or make the durable session, if there is to be one; return whether the client finds
        what it left."""
        session = LastingSession(self.asking, session_name(self._client_id), OWN_SOURCE)
        clean = self._connect.clean_start
        if clean and not self._assigned:
            await session.close()
        if self.expiry_s:
            is_new = await session.open(expiry_s(self.expiry_s), here=clean)
        elif clean or await session.row() is None:
            return False
        else:
            is_new = await session.open(AT_ONCE_S, here=False)
        self._handing.lasting = session
        self.publishing.lasting = self._requests.lasting = session
        return not (is_new or clean)

    async def _go_on(self, session: LastingSession, notes: Mapping[str, str]) -> None:
        """Resume a session with these notes, and become its consumer."""
        for key, note in notes.items():
            if key.startswith(TAKEN):
                number, _, told = note.partition(" ")
                packet_id = int(key.removeprefix(TAKEN))
                self._incoming.restore(packet_id, int(number), told=bool(told))
        self._handing.resume(session, notes)
        own = {
            key.removeprefix(SUBSCRIPTION): note
            for key, note in notes.items()
            if key.startswith(SUBSCRIPTION)
        }
        if notes:
            row = await session.row()
            numbers = {} if row is None else row.subscriptions
            if row is not None and not row.events:
                self._handing.owes_nothing()
            await self._requests.resume(own, {text: number for number, text in numbers.items()})
        await self._handing.join(session)

    def _welcome(self) -> Properties:
        """Return what the CONNACK says of this broker."""
        connect, settings = self._connect, self._settings
        asked = connect.properties.session_expiry_interval or 0
        return Properties(
            session_expiry_interval=self.expiry_s if self.expiry_s != asked else None,
            receive_maximum=settings.receive_maximum,
            maximum_packet_size=settings.maximum_packet_size,
            assigned_client_id=self._client_id if self._assigned else None,
            topic_alias_maximum=settings.topic_alias_maximum or None,
            server_keep_alive=settings.keep_alive_s or None,
        )

    @property
    def _lasting(self) -> LastingSession | None:
        return self._handing.lasting

    # --- packets of the client --------------------------------------------------------------------

    def handle(self, packet: Packet) -> None:
        """Handle a packet of the client. Raises `MqttError`."""
        handler = self._handlers.get(type(packet))
        if handler is None:
            raise MqttError(
                Reason.PROTOCOL_ERROR,
                f"a client must not send {type(packet).__name__.upper()} here",
            )
        handler(packet)

    def flush(self) -> None:
        """Pass on what the packets of one read were gathered for."""
        self.publishing.flush()
        self._handing.flush()
        for session in self._handing.sessions:
            session.flush()

    def _subscribe(self, packet: packets.Subscribe) -> None:
        self.publishing.flush()
        self.asking.queue(self._requests.subscribe(packet))

    def _unsubscribe(self, packet: packets.Unsubscribe) -> None:
        self.publishing.flush()
        self.asking.queue(self._requests.unsubscribe(packet))

    def _released(self, packet: packets.Pubrel) -> None:
        if not self._incoming.release(packet):
            self._acknowledge(
                packets.Pubcomp(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND), ""
            )
        elif self._lasting is None:
            self.write(packets.Pubcomp(packet.packet_id))
        else:
            self.asking.begin(self._complete(self._lasting, packet.packet_id))

    async def _complete(self, session: LastingSession, packet_id: int) -> None:
        try:
            await session.note({f"{TAKEN}{packet_id}": None})
        except SessionFailed as error:
            self._broker.end(Reason.UNSPECIFIED_ERROR, str(error))
            return
        self.write(packets.Pubcomp(packet_id))

    def _disconnected(self, packet: packets.Disconnect) -> None:
        asked = packet.properties.session_expiry_interval
        if asked is not None and asked and not self.expiry_s:
            raise MqttError(
                Reason.PROTOCOL_ERROR,
                "DISCONNECT: the session cannot outlive the connection, as CONNECT has said",
            )
        if packet.reason is not Reason.DISCONNECT_WITH_WILL_MESSAGE:
            self.will = None
        self.flush()
        if asked is not None:
            self.expiry_s = min(asked, self._settings.session_expiry_s)
            if self.expiry_s and self._lasting is not None:
                self.asking.begin(self._expire_in(self._lasting, expiry_s(self.expiry_s)))
        self._broker.end(Reason.NORMAL_DISCONNECTION, "")

    async def _expire_in(self, session: LastingSession, expiry_s: float) -> None:
        await session.open(expiry_s, here=False)

    def _no_authentication(self, packet: packets.Auth) -> None:
        raise MqttError(
            Reason.PROTOCOL_ERROR,
            "AUTH: this connection has no authentication method, and this broker knows none",
        )

    # --- what the broker says ---------------------------------------------------------------------

    def answer(self, message: ControlMessage) -> None:
        """Handle a message of the core."""
        if isinstance(message, Handed):
            self._handing.handed(message)
        elif isinstance(message, messages.Confirmed):
            self.publishing.confirmed(message)
        elif isinstance(message, Refused) and message.publication is not None:
            self.publishing.refused(message)
        elif isinstance(message, ConsumerEnded):
            self._handing.ended(message)
        elif isinstance(message, _ANSWERS):
            self.asking.answered(message.token, message)

    def deliver(self, numbers: Sequence[int], event: Publication) -> None:
        """Deliver an event to passing subscriptions."""
        self._delivering.deliver(numbers, event)

    # --- what requests and publications use -------------------------------------------------------

    def write(self, packet: Packet) -> None:
        """Send a packet, as the client accepts it. End the connection if it cannot be sent, unless
        it is a publication."""
        data = fitted(packet, self._encode, self.most_bytes, tells=self._tells_problems)
        if data:
            self._broker.write(data)
        elif not isinstance(packet, packets.Publish):
            self._broker.end(
                Reason.PACKET_TOO_LARGE,
                f"{type(packet).__name__.upper()} exceeds the client's Maximum Packet Size, "
                f"{self.most_bytes} bytes",
            )

    def _acknowledge(self, answer: Answer, words: str) -> None:
        if words:
            said = Properties(reason_string=words[:MOST_WORDS])
            answer = msgspec.structs.replace(answer, properties=said)
        if isinstance(answer, packets.Pubrec) and self._lasting is not None:
            self._note_answer(self._lasting, answer)
        self.write(answer)

    def _note_answer(self, session: LastingSession, answer: packets.Pubrec) -> None:
        """Have the session remember that a publication is answered, so that it is not published
        again."""
        id = answer.packet_id
        if answer.reason.is_failure:
            session.note_later({f"{TAKEN}{id}": None})
        elif id not in self._incoming.told:
            session.note_later({f"{TAKEN}{id}": f"{self._incoming.taken[id]} {TOLD}"})

    async def attach(self, session: LastingSession) -> None:
        """Become a consumer of a session, whose events come from now on. Raises `SessionFailed`."""
        await self._handing.attach(session)

    def send_retained(self, values: Iterable[bytes], match: Match) -> None:
        """Send retained values for a new subscription."""
        self._handing.send_retained(values, match)

    def change(self, former: Subscription | None, change: Callable[[], object]) -> Changes:
        """Change the subscriptions; return what is to be noted before `changed`."""
        return self._handing.change(former, change)

    def changed(self) -> None:
        """Go on after a change of the subscriptions."""
        self._handing.changed()

    def system(self, subscription: Subscription) -> None:
        """Send what the broker says of itself now."""
        for topic, payload in self._broker.system(subscription.wanted.pattern).items():
            self._say(topic, payload, [subscription], retain=True)

    def may_see_system(self) -> bool:
        """Return whether the client may know what the broker says of itself."""
        return self._broker.may_see_system()

    def system_changed(self, changed: Mapping[str, bytes]) -> None:
        """Send what has changed of what the broker says of itself."""
        for topic, payload in changed.items():
            if found := self._subscriptions.of_system(topic):
                self._say(topic, payload, found, retain=False)

    def _say(
        self, topic: str, payload: bytes, subscriptions: list[Subscription], *, retain: bool
    ) -> None:
        said = Properties(subscription_identifiers=identifiers_of(subscriptions))
        self.write(packets.Publish(topic, payload, retain=retain, properties=said))

    # --- a full queue, and what must not be seen any more -----------------------------------------

    @property
    def shapes(self) -> dict[int, Shape]:
        """The shapes of packets of plain events, by passing subscriptions (`Subscriptions`)."""
        return self._subscriptions.shapes

    @property
    def is_plain(self) -> bool:
        """Whether every plain event is delivered to this client with nothing but its topic and its
        payload."""
        return self._subscriptions.is_plain

    @property
    def waiting(self) -> int:
        """How many deliveries wait for acknowledgements of earlier ones."""
        return self._outgoing.waiting

    def drop_oldest(self) -> Publication | None:
        """Drop the delivery that has waited longest for acknowledgements; return its event, None if
        none waits."""
        dropped = self._outgoing.drop_oldest()
        return None if dropped is None else dropped.event

    def take_back(self, sees: Callable[[Publication], bool]) -> int:
        """Drop the waiting deliveries of events that the client must not see; return how many."""
        count = self._outgoing.take_back(sees)
        self._handing.flush()
        return count

    def not_sent(self, packet_id: int) -> None:
        """Wait for no acknowledgement of a delivery that was not written after all."""
        self._outgoing.not_sent(packet_id)
        self._handing.flush()

    # --- the end ----------------------------------------------------------------------------------

    @property
    def will_delay_s(self) -> float:
        """How long the will waits for the client to come back; 0: it is published at once, or there
        is none."""
        if self.will is None or not self.expiry_s:
            return 0.0
        delay_s = self.will.properties.will_delay_interval or 0
        return float(min(delay_s, self.expiry_s))

    def retire(self) -> None:
        """End everything but the will, which waits."""
        self._requests.retire()
        for session in self._handing.sessions:
            session.detach()

    def drop_will_if_back(self, then: Callable[[], None]) -> None:
        """Forget the will if the client is connected at another broker by now (MQTT-3.1.3-9), then
        call `then`."""
        if self._lasting is None:
            then()
        else:
            self.asking.begin(self._drop_will_if_back(self._lasting, then))

    async def _drop_will_if_back(self, session: LastingSession, then: Callable[[], None]) -> None:
        try:
            row = await session.row()
        except SessionFailed:  # nobody knows
            row = None
        if row is not None and row.consumers:
            self.will = None
        then()

    def end(self) -> None:
        """Publish the will, if there is one, and end the connection for the core: after it, nothing
        is asked and nothing sent."""
        will, self.will = self.will, None
        if will is not None:
            self.publishing.publish_will(will)
        if self._lasting is not None and not (self.expiry_s or self._handing.is_taken_over):
            self.asking.begin(self._lasting.close())
        self.asking.close()


def _expiry_of(connect: Connect, version: int) -> int:
    """Return the Session Expiry Interval that a client asks for (seconds)."""
    if version < MQTT_5:
        return 0 if connect.clean_start else NEVER
    return connect.properties.session_expiry_interval or 0


_ANSWERS = (
    messages.Settled,
    Refused,
    Done,
    Failed,
    Notes,
    Sessions,
    Recalled,
    Retained,
    NotRetained,
)
