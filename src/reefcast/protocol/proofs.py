"""The PROOF frames of a greeting: what the dialled end asks, and what the dialling end shows.

Rules
-----
- The dialled end asks (`Question`) when it has the other end's hello, and before it says its own.
  The dialling end shows one thing (`Answer`): a password, a token, the network's key, or nothing.
- Who shows the network's key does not send it. It sends a MAC (HMAC-SHA-256) over the nonces of
  both ends, the network, and who both claim to be: role, name and session of the dialling end, the
  name of the dialled one. The dialled end answers with a MAC of its own (`Confirmation`), so that
  both have proved that they have the key. The two MACs are of different kinds: neither end can send
  the other's back. Fresh nonces make that of an earlier connection worthless.
- The MACs prove who is there when the connection begins. They do not protect what follows: that is
  what TLS is for.
- Passwords and tokens go only over a connection that nobody else can read (`is_private`): TLS, or
  loopback. Both ends see to that.
- If a proof ends while the connection is open (a token expires), the dialled end asks again in
  time, and the dialling end answers as before."""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from reefcast.errors import ProtocolError
from reefcast.model.wire import MAX_NAME_CHARS, Hello

NONCE_BYTES = 32
MOST_SECRET_CHARS = 16_384
"""The longest password or token."""


class Method(StrEnum):
    """What the dialling end can show."""

    NOTHING = "nothing"
    PASSWORD = "password"
    TOKEN = "token"
    KEY = "key"


class Question(msgspec.Struct, frozen=True, tag="question"):
    """Asks who the dialling end is. `methods`: those that the broker accepts; `nonce`: drawn for
    this connection."""

    network: str
    broker: str
    methods: tuple[str, ...]
    nonce: bytes


class Answer(msgspec.Struct, frozen=True, tag="answer", omit_defaults=True):
    """Shows one thing. PASSWORD: `user` and `secret`; TOKEN: `secret`; KEY: `nonce` and `mac`."""

    method: Method
    user: str = ""
    secret: str = ""
    nonce: bytes = b""
    mac: bytes = b""

    def __repr__(self) -> str:
        return f"Answer({self.method!r}, {self.user!r})"  # secrets stay out of logs


class Confirmation(msgspec.Struct, frozen=True, tag="confirmation"):
    """Shows that the dialled end has the network's key, too."""

    mac: bytes


_encoder = msgspec.msgpack.Encoder()
_answers = msgspec.msgpack.Decoder(Answer)
_from_dialled: msgspec.msgpack.Decoder[Question | Confirmation] = msgspec.msgpack.Decoder(
    Question | Confirmation
)


def encode_proof(what: Question | Answer | Confirmation) -> bytes:
    """Encode the payload of a PROOF frame."""
    return _encoder.encode(what)


def decode_answer(payload: bytes | memoryview) -> Answer:
    """Decode what the dialling end shows. Raises `ProtocolError`, which says nothing of what it
    holds."""
    try:
        answer = _answers.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProtocolError("the answer to the question for a proof cannot be read") from None
    if len(answer.secret) > MOST_SECRET_CHARS or len(answer.user) > MAX_NAME_CHARS:
        raise ProtocolError(
            f"a password or a token has more than {MOST_SECRET_CHARS} characters, or the name of a "
            f"user more than {MAX_NAME_CHARS}, which are the most here"
        )
    return answer


def decode_asked(payload: bytes | memoryview) -> Question | Confirmation:
    """Decode what the dialled end sends. Raises `ProtocolError`."""
    try:
        return _from_dialled.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"malformed question for a proof: {error}") from error


# --- the network's key ----------------------------------------------------------------------------


def _mac(key: bytes, kind: str, question: Question, hello: Hello, nonce: bytes) -> bytes:
    """Return the MAC of one end. `hello`: that of the dialling end; `nonce`: the dialling end's."""
    ends = (int(hello.role), hello.name, hello.session, question.broker)
    text = _encoder.encode((f"reefcast {kind}", question.network, *ends, question.nonce, nonce))
    return hmac.new(key, text, hashlib.sha256).digest()


def answer_with_key(key: bytes, question: Question, hello: Hello, nonce: bytes) -> Answer:
    """Show the dialled end that this one has the key. `hello`: what this end said;
    `nonce`: `NONCE_BYTES` random bytes."""
    return Answer(Method.KEY, nonce=nonce, mac=_mac(key, "dialling", question, hello, nonce))


def has_key(key: bytes, question: Question, hello: Hello, answer: Answer) -> bool:
    """Return whether the dialling end, which said `hello` and gave `answer`, has the key."""
    fresh = len(answer.nonce) == NONCE_BYTES == len(question.nonce)
    expected = _mac(key, "dialling", question, hello, answer.nonce)
    return fresh and hmac.compare_digest(expected, answer.mac)


def confirm_key(key: bytes, question: Question, hello: Hello, answer: Answer) -> Confirmation:
    """Show the dialling end that this one has the key."""
    return Confirmation(_mac(key, "dialled", question, hello, answer.nonce))


def is_confirmed(
    key: bytes, question: Question, hello: Hello, nonce: bytes, told: Confirmation
) -> bool:
    """Return whether the dialled end has the key. `hello`, `nonce`: those of this end."""
    return hmac.compare_digest(_mac(key, "dialled", question, hello, nonce), told.mac)


# --- the dialling end -----------------------------------------------------------------------------


class Circumstances(NamedTuple):
    """What an answer depends on. `hello`: what this end said; `is_private`: whether nobody else can
    read the connection; `nonce`: `NONCE_BYTES` random bytes, drawn for this connection."""

    hello: Hello
    is_private: bool
    nonce: bytes


class Credentials(ABC):
    """What a program shows to prove who it is. `key`: the network's key, if that is what is shown;
    then the other end must confirm it."""

    key: bytes | None = None

    @abstractmethod
    def answer(
        self, question: Question, circumstances: Circumstances
    ) -> Answer | Awaitable[Answer]:
        """Return the answer, or what becomes it. Raises `LocalError` or `ProtocolError` if there is
        none."""


class Respondent:
    """The dialling end's part in the greeting of one connection. `proved`: the name of the broker
    that has shown that it has the network's key, "" as long as none has. `to`: the broker that was
    dialled, if that is known: another one's question is answered by nothing. Else who listens in
    its place could pass on a question of a third one, and be taken there for this end."""

    def __init__(
        self, credentials: Credentials, circumstances: Circumstances, to: str = ""
    ) -> None:
        self.proved = ""
        self._to = to
        self._credentials = credentials
        self._circumstances = circumstances
        self._question: Question | None = None

    def respond(self, payload: bytes) -> bytes | Awaitable[Answer] | None:
        """Return the answer to a PROOF frame, as a payload or as what becomes an `Answer`; None if
        it needs none. Raises `ProtocolError` for a frame that does not belong here, and what
        `Credentials.answer` raises."""
        asked = decode_asked(payload)
        if isinstance(asked, Confirmation):
            self._be_confirmed(asked)
            return None
        if self._to and asked.broker != self._to:
            raise ProtocolError(
                f"broker {self._to!r} was dialled, and {asked.broker!r} asks for a proof"
            )
        self._question = asked
        answer = self._credentials.answer(asked, self._circumstances)
        return encode_proof(answer) if isinstance(answer, Answer) else answer

    def _be_confirmed(self, told: Confirmation) -> None:
        key, question = self._credentials.key, self._question
        if key is None or question is None:
            raise ProtocolError("the broker confirms a key that nobody has shown to it")
        hello, nonce = self._circumstances.hello, self._circumstances.nonce
        if not is_confirmed(key, question, hello, nonce, told):
            raise ProtocolError(
                f"broker {question.broker!r} has another key than this end: give both the same "
                "key of the network"
            )
        self.proved = question.broker

    def check(self, hello: Hello, *, known: bool) -> None:
        """Check the dialled end's hello. `known`: whether a certificate shows who that end is.
        Raises `ProtocolError` if it should have shown that it has the network's key, and has
        not."""
        if self._credentials.key is not None and not known and self.proved != hello.name:
            raise ProtocolError(
                f"broker {hello.name!r} did not prove that it belongs to this network: give it the "
                "key that this end has ([security] key of the network file)"
            )
