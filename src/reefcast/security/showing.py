"""What the dialling end of a connection needs to prove who it is."""

from __future__ import annotations

from reefcast.errors import ProtocolError
from reefcast.model.wire import Hello
from reefcast.protocol.privacy import Shown, is_private
from reefcast.protocol.proofs import NONCE_BYTES, Answer, Circumstances, Credentials, Question
from reefcast.timing import MACHINE


def fresh_nonce() -> bytes:
    """Return random bytes that nobody else has drawn."""
    return bytes.fromhex(MACHINE.get().token(NONCE_BYTES))


def circumstances(hello: Hello, shown: Shown) -> Circumstances:
    """Return the circumstances of a new connection. `hello`: what this end says in it."""
    return Circumstances(hello, is_private(shown), fresh_nonce())


class NoCredentials(Credentials):
    """A broker that has nothing to show."""

    def answer(self, question: Question, circumstances: Circumstances) -> Answer:
        raise ProtocolError("this broker was asked for a proof of who it is, and has none")
