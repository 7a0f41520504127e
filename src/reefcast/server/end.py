"""The end of a connection: who handles what comes over it, once the other side is admitted."""

from __future__ import annotations

from typing import ClassVar, Protocol

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.looks import AnyLook
from reefcast.model.messages import ControlMessage, Publish
from reefcast.model.operations import OperatorWish
from reefcast.model.wire import Codec, Congestion, StatusRequest
from reefcast.protocol.principal import Principal
from reefcast.server.client_port import Line
from reefcast.server.passage import CompiledPath, Run


class NativeLine(Line, Protocol):
    """A connection in the native protocol, as its end sees it. `received`: numbered frames taken
    over from the other side; `left`: whether one side closed it for good."""

    left: bool

    @property
    def received(self) -> int: ...


class End:
    """The end of a connection: a frame of a kind that the other side must not send is a
    `ProtocolError`."""

    what: ClassVar[str] = "connection"
    codec: Codec = wire.CLIENT_CODEC
    silence_s: float = wire.SILENCE_S
    """After how many seconds without a frame the connection is given up."""
    ping_s: float = wire.BROKER_PING_S
    """After how many seconds without another frame this side sends a PING."""
    path: CompiledPath | None = None
    """The compiled path of publications, if there is one."""

    def run(self, run: Run) -> None:
        """Handle publications that came together, if there is a compiled path for them."""
        raise self._out_of_place("PUBLISH")

    def publications(self, batch: list[Publish]) -> None:
        raise self._out_of_place("PUBLISH")

    def control(self, message: ControlMessage) -> None:
        raise self._out_of_place("CONTROL")

    def acknowledged(self, number: int) -> None:
        raise self._out_of_place("ACK")

    def congestion(self, notice: Congestion) -> None:
        raise self._out_of_place("CONGESTION")

    def done(self) -> None:
        """Handle that the other side sends nothing more."""
        raise self._out_of_place("DONE")

    def status_wanted(self, request: StatusRequest) -> None:
        raise self._out_of_place("STATUS")

    def look_wanted(self, look: AnyLook) -> None:
        raise self._out_of_place("LOOK")

    def wish_wanted(self, wish: OperatorWish) -> None:
        raise self._out_of_place("WISH")

    def proved_again(self, principal: Principal) -> None:
        """Handle that the same user has other roles, claims or a later end by now."""

    def lost(self, connection: NativeLine) -> None:
        """Handle that the connection is gone, or as good as gone."""

    def _out_of_place(self, kind: str) -> ProtocolError:
        return ProtocolError(f"a {kind} frame is out of place from {self.what}")
