"""Admin connections, which ask a broker for its status, to move a link, to give up what it keeps
for a neighbour, to hand its clients to others, or to read its network file again: the broker's end,
and the asking side.

Asking for the status, and each kind of wish, needs a right (`model.grants.Right`)."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from msgspec import to_builtins

from reefcast.errors import (
    ConfigurationError,
    ConnectionLostError,
    LocalError,
    ProtocolError,
    ReefcastError,
    RefusedError,
    TlsError,
)
from reefcast.model import wire
from reefcast.model.grants import Grants, Right
from reefcast.model.looks import AnyLook
from reefcast.model.messages import GiveUp, ManageSession, MoveLink
from reefcast.model.operations import Apply, Drain, OperatorWish, Stop
from reefcast.model.wire import FrameKind, Role, StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.protocol.link import Link
from reefcast.protocol.principal import Principal
from reefcast.protocol.proofs import Credentials, Respondent
from reefcast.security.audit import Audit
from reefcast.security.credentials import NetworkKey, Nothing, credentials_of_environment
from reefcast.security.files import read_key
from reefcast.security.showing import circumstances
from reefcast.server.auditing import who
from reefcast.server.connection import Connection
from reefcast.server.end import End, NativeLine
from reefcast.server.rights import require_right, require_status
from reefcast.tls.credentials import Asking, asking_context
from reefcast.tls.environment import own_files
from reefcast.tls.files import NOTHING, TlsFiles
from reefcast.tls.identity import broker_uri
from reefcast.tls.transport import over
from reefcast.tls.wording import in_words, of_tls

ANSWER_S = 3.0
RIGHTS = {
    MoveLink: Right.MOVE,
    GiveUp: Right.DRAIN,
    ManageSession: Right.DRAIN,
    Drain: Right.DRAIN,
    Stop: Right.DRAIN,
    Apply: Right.APPLY,
}
"""Which right each kind of wish needs."""
MOST_LOOKS = 16
"""Questions of one admin connection that wait for their answers."""
Show = Callable[[AnyLook, Principal], Awaitable[dict[str, Any]]]
T = TypeVar("T")


class AdminEnd(End):
    """The broker's end of an admin connection. `shows`: answers what programs look at."""

    what: ClassVar[str] = "an admin connection"

    def __init__(
        self,
        connection: Connection,
        status: Callable[[StatusRequest], dict[str, object]],
        wish: Callable[[OperatorWish], None],
        grants: Callable[[], Grants],
        audit: Audit,
    ) -> None:
        self.shows: Show | None = None
        self._pending: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._audit = audit
        self.principal = connection.principal
        self._connection = connection
        self._grants = grants
        self._status = status
        self._wish = wish

    def proved_again(self, principal: Principal) -> None:
        self.principal = principal

    def status_wanted(self, request: StatusRequest) -> None:
        require_status(self.principal, self._grants())
        self._tell(request)

    def _tell(self, request: StatusRequest) -> None:
        frame = wire.encode(FrameKind.STATUS, self._status(request))
        self._connection.outbox.push_data(frame)

    def wish_wanted(self, wish: OperatorWish) -> None:
        try:
            meet(
                wish, self.principal, self._grants(), self._wish, self._audit, who(self._connection)
            )
        except (LocalError, ProtocolError) as error:
            self._connection.close(str(error))
        else:
            self._tell(StatusRequest())

    def look_wanted(self, look: AnyLook) -> None:
        if self.shows is None:
            raise self._out_of_place("LOOK")
        if len(self._pending) >= MOST_LOOKS:
            raise ProtocolError(f"{MOST_LOOKS} questions wait for answers, the most at a time")
        task = asyncio.get_running_loop().create_task(self._show(look, self.shows))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _show(self, look: AnyLook, show: Show) -> None:
        """Answer, in the order of the questions."""
        async with self._turn:
            try:
                told = await show(look, self.principal)
            except (LocalError, ProtocolError) as error:
                told = {"refused": str(error)}
            self._connection.outbox.push_data(wire.encode(FrameKind.LOOK, told))

    def lost(self, connection: NativeLine) -> None:
        for task in self._pending:
            task.cancel()


def right_for(wish: OperatorWish) -> Right:
    """Return the right that somebody needs for a wish."""
    return RIGHTS[type(wish)]


def meet(
    wish: OperatorWish,
    principal: Principal,
    grants: Grants,
    do: Callable[[OperatorWish], None],
    audit: Audit,
    who_asks: Mapping[str, object],
) -> None:
    """Do what an operator wishes, if he has the right to it, and write it into the audit log.
    Raises `ProtocolError` or `LocalError` with a sentence for him."""
    asked = {**who_asks, "wish": type(wish).__name__, **to_builtins(wish)}
    try:
        require_right(principal, right_for(wish), grants)
        do(wish)
    except (LocalError, ProtocolError) as error:
        audit.limited("wish_refused", **asked, reason=str(error))
        raise
    audit.write("wish", **asked)


UNASKED = StatusRequest()
"""A request for what a broker tells in any case."""


class AdminConnection:
    """The asking side of an admin connection. Requests raise `ConnectionLostError` if there is no
    answer within `ANSWER_S`, and `ProtocolError` if the other end is no broker."""

    def __init__(
        self,
        place: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        credentials: Credentials,
    ) -> None:
        self._place = place
        self._reader = reader
        self._writer = writer
        self._hello = wire.hello(Role.ADMIN, "admin", "", secrets.token_hex(8))
        self._known = writer.get_extra_info("ssl_object") is not None
        shown = circumstances(self._hello, writer.get_extra_info)
        self._respondent = Respondent(credentials, shown)
        self._link = Link(writer.write, answer=self._answer_proof)

    def _answer_proof(self, question: bytes) -> bytes | None:
        answer = self._respondent.respond(question)
        if not isinstance(answer, bytes | None):
            raise ConfigurationError("give the token of an administrator in a file, or as a text")
        return answer

    async def greet(self) -> None:
        """Prove who asks. Raises `RefusedError` with the broker's reason if it admits nobody like
        that, and `ConnectionLostError`."""
        self._link.say_hello(self._hello)
        await self._in_time(self._until_admitted())

    async def _until_admitted(self) -> None:
        while data := await self._reader.read(65536):
            for kind, frame in self._link.receive(data):
                said = self._link.handle(kind, frame)
                if kind == FrameKind.CLOSE:
                    raise (ConnectionLostError if said.retry else RefusedError)(said.reason)
                if kind == FrameKind.HELLO:
                    self._respondent.check(said, known=self._known)
                    self._link.admit(math.inf, math.inf, 0.0)
                    return
        raise ConnectionLostError(f"{self._place} closed the connection before it answered")

    async def status(self, request: StatusRequest = UNASKED) -> dict[str, Any]:
        return await self._ask(FrameKind.STATUS, request, RefusedError)

    async def move(self, old: str, new: str) -> dict[str, Any]:
        """Ask the broker to replace its link to `old` by one to `new`; return its status after the
        move. Raises `RefusedError` with the broker's reason if it cannot do that."""
        return await self.wish(MoveLink(old, new))

    async def give_up(self, neighbour: str, *, reroute: bool) -> dict[str, Any]:
        """Ask the broker to drop what it owes a neighbour that never comes back, or to route it
        again; return its status after that. Raises `RefusedError` with the broker's reason if it
        does not do so."""
        return await self.wish(GiveUp(neighbour, reroute))

    async def wish(self, wish: OperatorWish) -> dict[str, Any]:
        """Ask the broker to do something; return its status after that. Raises `RefusedError` with
        the broker's reason if it does not do so."""
        return await self._ask(FrameKind.WISH, wish, RefusedError)

    async def look(self, look: AnyLook) -> dict[str, Any]:
        """Return what the broker shows. Raises `RefusedError` with the broker's reason if that is
        nothing."""
        told = await self._ask(FrameKind.LOOK, look, RefusedError)
        if "refused" in told:
            raise RefusedError(told["refused"])
        return told

    async def drain(self, *, on: bool = True) -> dict[str, Any]:
        """Ask the broker to hand its clients to others, or to take clients again; return its
        status, in which `drain` says how far it is. Raises `RefusedError` with the broker's reason
        if it does not do so."""
        return await self._ask(FrameKind.WISH, Drain(on), RefusedError)

    async def stop(self, *, again: bool) -> dict[str, Any]:
        """Ask the broker's process to end, for good (it was taken out of the network), or so that
        whatever watches it starts it `again`; return its last status. Raises `RefusedError` with
        the broker's reason if it does not do so."""
        return await self._ask(FrameKind.WISH, Stop(again), RefusedError)

    async def apply(self, fingerprint: str, *, dry: bool) -> list[dict[str, Any]]:
        """Ask the broker to read its network file again, which must have this fingerprint; return
        what has changed, and what became of each change (`applying.Applied`). Raises `RefusedError`
        with the broker's reason if it has another file, or one that is wrong."""
        status = await self._ask(FrameKind.WISH, Apply(fingerprint, dry), RefusedError)
        applied: list[dict[str, Any]] = status["applied"]
        return applied

    async def _ask(
        self, kind: FrameKind, what: object, refused: Callable[[str], Exception]
    ) -> dict[str, Any]:
        self._writer.write(wire.encode(kind, what))
        return await self._in_time(self._answer(refused))

    async def _in_time(self, answer: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer. Raises `ConnectionLostError` or `TlsError` if none comes."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            reason = f"{self._place} did not answer in {ANSWER_S:g} s"
        except OSError as error:
            if of_tls(error):
                raise TlsError(in_words(error, self._place)) from error
            reason = _unreachable(self._place, error)
        raise ConnectionLostError(reason)

    async def _answer(self, refused: Callable[[str], Exception]) -> dict[str, Any]:
        while data := await self._reader.read(65536):
            for kind, frame in self._link.receive(data):
                payload = self._link.handle(kind, frame)
                if kind == FrameKind.CLOSE:
                    raise (ConnectionLostError if payload.retry else refused)(payload.reason)
                if kind in (FrameKind.STATUS, FrameKind.LOOK):
                    status = wire.decode_any(payload)
                    assert isinstance(status, dict)
                    return status
        raise ConnectionLostError(f"{self._place} closed the connection before it answered")


def _unreachable(place: str, error: OSError) -> str:
    """Return why a broker cannot be reached, in the words of the system: those of asyncio are
    "Connect call failed", and an address."""
    system = os.strerror(error.errno) if error.errno and error.errno > 0 else ""
    return f"{place} cannot be reached: {(system or error.strerror or str(error)).lower()}"


@asynccontextmanager
async def admin_connection(
    host: str, port: int, tls: Asking | None = None, credentials: Credentials | None = None
) -> AsyncIterator[AdminConnection]:
    """Connect to the broker at this address. `tls`: None for a connection without; `credentials`:
    who asks, by default as the environment says. Raises `ConnectionLostError` if the broker cannot
    be reached, or is another one, and `RefusedError` if it refuses who asks."""
    place = f"{host}:{port}"
    shown = credentials_of_environment() if credentials is None else credentials
    try:
        async with asyncio.timeout(ANSWER_S):
            secured = {} if tls is None else over(tls.context, ANSWER_S, tls.server_name)
            reader, writer = await asyncio.open_connection(host, port, **secured)
    except TimeoutError as error:
        raise ConnectionLostError(f"{place} did not answer in {ANSWER_S:g} s") from error
    except OSError as error:
        if of_tls(error):
            raise TlsError(in_words(error, place)) from error
        raise ConnectionLostError(_unreachable(place, error)) from error
    try:
        if tls is not None:
            tls.check(writer.get_extra_info("ssl_object"))
        asked = AdminConnection(place, reader, writer, shown)
        await asked.greet()
        yield asked
    finally:
        writer.close()


async def ask_status(
    host: str,
    port: int,
    request: StatusRequest = UNASKED,
    tls: Asking | None = None,
    credentials: Credentials | None = None,
) -> dict[str, Any]:
    """Return the status of the broker at this address; raises what `admin_connection` and
    `AdminConnection` raise."""
    async with admin_connection(host, port, tls, credentials) as broker:
        return await broker.status(request)


async def ask_all(
    network: NetworkFile, ask: Callable[[str], Coroutine[Any, Any, T]]
) -> dict[str, T | None]:
    """Ask each broker of the network at once; None for one that does not answer, or refuses who
    asks. Raises `RefusedError` if all do one of these, and some refuse."""
    refusals: list[RefusedError] = []

    async def answer(name: str) -> T | None:
        try:
            return await ask(name)
        except RefusedError as error:
            refusals.append(error)
        except ReefcastError:
            pass
        return None

    answers = await asyncio.gather(*(answer(name) for name in network.names))
    if refusals and not any(each is not None for each in answers):
        raise refusals[0]
    return dict(zip(network.names, answers, strict=True))


def asking(
    network: NetworkFile, name: str, own: TlsFiles = NOTHING, *, operator: bool = True
) -> Asking | None:
    """Return what is needed to ask broker `name` of the network; None if it has no TLS. `own`: the
    certificate of whoever asks; by default that which the environment names, or else that of the
    broker itself, if its key can be read here, unless the environment names a user. `operator`:
    somebody asks, and not a process that runs a part of the network. Raises `ConfigurationError`
    for wrong files."""
    if not network.tls.on:
        return None
    own, files = own_files(own), network.tls.files(name)
    is_user = operator and not isinstance(credentials_of_environment(), Nothing)
    if not own.certificate and not is_user and all(os.access(each, os.R_OK) for each in files.own):
        own = files
    shown = TlsFiles(own.authority or files.authority, own.certificate, own.key)
    uri = broker_uri(network.network.name, name)
    return Asking(asking_context(shown, hosts=False), f"broker {name}", uri)


def operator_of(network: NetworkFile) -> Credentials:
    """Return what an operator of the network shows to its brokers: what the environment says, or
    else the network's key, if it is at hand."""
    shown = credentials_of_environment()
    return shown if not isinstance(shown, Nothing) else owner_of(network)


def owner_of(network: NetworkFile) -> Credentials:
    """Return what a process that runs a part of the network shows to its brokers: its key, if it is
    at hand."""
    file = key_at_hand(network)
    return NetworkKey(read_key(Path(file))) if file else credentials_of_environment()


def key_at_hand(network: NetworkFile) -> str:
    """Return the path of the network's key; "" if there is none, or not for this process."""
    file = "" if network.security is None else network.security.key
    return file if file and os.access(file, os.R_OK) else ""
