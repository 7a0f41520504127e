"""The bytes that an MQTT client sends, on their way to its gateway.

Plain publications (`matching.packets`) at the beginning of what came go to the session by the
compiled path; all else becomes packets. Publications wait while the client has no credit."""

from __future__ import annotations

from collections import deque

from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.gateway import Gateway
from reefcast.mqtt.packets import Packet, Publish
from reefcast.mqtt.publishing import NOTHING, Taken
from reefcast.mqtt.reasons import MqttError
from reefcast.server.client_session import ClientSession

PLAIN_PUBLISH = 0x30
"""The first byte of a PUBLISH with QoS 0 and no flags."""
MOST_TOGETHER = 256
"""Publications that are handed over together, if they are not passed on as they are."""


class Inflow:
    """What came over one connection and is not handled. `credit`: publications that the client may
    still send; `is_ready`: its CONNACK is sent, before which only a CONNECT is handled."""

    def __init__(self, most_bytes: int) -> None:
        self._decoder = Decoder(most_bytes=most_bytes)
        self._most_bytes = most_bytes
        self._unread, self._need = b"", 0
        self._packets: deque[Packet] = deque()
        self._error: MqttError | None = None
        self._session: ClientSession | None = None
        self._gateway: Gateway | None = None
        self._began = False
        self.credit = 0
        self.is_ready = False

    def serve(self, session: ClientSession, gateway: Gateway) -> None:
        """Take publications for this session from now on."""
        self._session, self._gateway = session, gateway

    @property
    def version(self) -> int | None:
        """The protocol level, None before a CONNECT told it."""
        return self._decoder.version

    def came(self, data: bytes) -> None:
        """Keep the bytes of a read."""
        self._unread = self._unread + data if self._unread else data

    @property
    def waits(self) -> bool:
        """Whether something waits that came whole."""
        return bool(self._packets) or len(self._unread) > self._need

    @property
    def may_go_on(self) -> bool:
        """Whether something can be handled now."""
        if self._packets:
            return self._may_handle(self._packets[0])
        if self._error is not None:
            return True
        return len(self._unread) > self._need and (self.credit > 0 or not self.is_ready)

    def _may_handle(self, packet: Packet) -> bool:
        """Return whether a packet can be handled now: others than the CONNECT need the CONNACK,
        publications need credit."""
        if not self.is_ready:
            return not self._began
        return self.credit > 0 or type(packet) is not Publish

    def step(self) -> tuple[bool, Packet | None]:
        """Return whether there was something to do, and the packet that is to be handled next, if
        there is one. Raises `MqttError` for the bytes behind the last packet."""
        packets = self._packets
        if packets:
            if not self._may_handle(packets[0]):
                return False, None
            if self._gateway is not None and self._take_plain(self._gateway):
                return True, None
            packet, self._began = packets.popleft(), True
            if type(packet) is Publish:
                self.credit -= 1
            return True, packet
        if self._error is not None:
            raise self._error
        return bool(self._unread) and self._read(), None

    def _take_plain(self, gateway: Gateway) -> bool:
        """Have plain publications taken that are packets by now; return whether there were any."""
        most = min(self.credit, MOST_TOGETHER)
        taken = gateway.publishing.take_plain(self._packets, most)
        if taken:
            self.credit -= taken
            gateway.publishing.flush()
            if self._session is not None and self._session.path is not None:
                self._session.path.rested(taken)
        return taken > 0

    def _read(self) -> bool:
        """Make packets of the bytes that came, or pass them on; return False if they have to
        wait."""
        data, missing = self._unread, self._decoder.missing
        if missing:  # the rest of a packet, and nothing behind it yet
            data, self._unread = data[:missing], data[missing:]
            return self._decode(data)
        if self.is_ready and data[0] == PLAIN_PUBLISH:
            if self.credit <= 0 or len(data) < self._need:
                return False
            taken = self._pass_on(data)
            self._need = taken.need
            if taken.end or taken.need:
                self._unread = data[taken.end :]
                return taken.end > 0
        self._unread, self._need = b"", 0
        return self._decode(data)

    def _decode(self, data: bytes) -> bool:
        """Make packets of these bytes; return whether there is something to handle now."""
        packets, self._error = self._decoder.receive(data)
        self._packets.extend(packets)
        return bool(packets) or self._error is not None or bool(self._unread)

    def _pass_on(self, data: bytes) -> Taken:
        """Pass on the plain publications that these bytes begin with by the compiled path."""
        session, gateway, version = self._session, self._gateway, self._decoder.version
        cutter = None if session is None or session.path is None else session.path.cutter
        if session is None or gateway is None or cutter is None or version is None:
            return NOTHING
        taken = gateway.publishing.take_frames(data, version, self._most_bytes, self.credit)
        if taken.number:
            self.credit -= taken.number
            run, _ = cutter(taken.frames, 0)
            session.run(run)
        return taken
