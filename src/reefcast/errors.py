"""Error classes, named by whose fault it is.

- `LocalError`: yours. You asked for something impossible, such as a filter with a typing error,
  a network file with a cycle where a tree is needed, a client that has been closed.
- `PeerError`: the other side's. It broke the protocol, went away or cannot be reached.
- `InternalError`: ours, or that of a routing that somebody added. Something happened that must
  not.

`FilterWarning` is no error: a filter that is legal and looks like a mistake.

Every message is a sentence that says what was wrong, where, and what to do. The commands turn each
of the three into an exit code of its own (`cli/exit_codes.py`). Besides these there are
`TimeoutError`, from methods with a `timeout`, and `OSError`, for files.
"""

from __future__ import annotations


class ReefcastError(Exception):
    """The base class of every error that Reefcast raises on purpose."""


class LocalError(ReefcastError):
    """The caller made a mistake; the same call will fail again."""


class FilterSyntaxError(LocalError):
    """A filter cannot be parsed.

    `line` and `column` say where, both counted from 1; `expected` says in words what could have
    stood there.
    """

    def __init__(self, message: str, *, line: int, column: int, expected: tuple[str, ...] = ()):
        super().__init__(message)
        self.line = line
        self.column = column
        self.expected = expected


class CesqlError(LocalError):
    """A CESQL expression cannot be parsed, or its evaluation met an error.

    `kind` is one of parse, math, cast, missingAttribute, missingFunction, functionEvaluation and
    generic, as CESQL 1.0 (section 3.3) names them. `position` counts the characters of the
    expression in front of the place from 0, `line` and `column` count from 1.
    """

    def __init__(self, message: str, *, kind: str, position: int, line: int, column: int):
        super().__init__(message)
        self.kind = kind
        self.position = position
        self.line = line
        self.column = column


class FilterWarning(UserWarning):
    """A filter is legal, but hardly says what its author meant: no event can match it, a string
    stands in double quotes, or a number in single ones. Silence it with
    `warnings.simplefilter("ignore", reefcast.FilterWarning)`."""


class LimitError(LocalError):
    """Something exceeds a limit of a broker (`[limits]` of its network file). The text names the
    limit."""


class InvalidValueError(LocalError):
    """An attribute, a topic or a payload is one that no publication can have, or `Event.as_` cannot
    make the requested type of an event."""


class ConfigurationError(LocalError):
    """A network file or an option contradicts itself or the rules of a routing."""


class DamagedError(LocalError):
    """A file does not hold what was written to it. Damaged data are never returned."""


class RefusedError(LocalError):
    """A broker refused what a client asked for: a connection, a filter, or publications outside
    the client's advertisements, whose ids are in `publications`. `gone`: there is no such durable
    session, or its consumer has left. The text is the broker's."""

    def __init__(
        self,
        message: str,
        *,
        publications: tuple[tuple[str, int], ...] = (),
        gone: bool = False,
    ):
        super().__init__(message)
        self.publications = publications
        self.gone = gone


class SlowConsumerError(LocalError):
    """The broker closed the connection because the program did not keep up with its events, as
    `queue_policy` says; events published since then are lost to it. The text is the broker's."""


class PeerError(ReefcastError):
    """The other side made a mistake or is gone; the same call, later or elsewhere, may succeed."""


class ProtocolError(PeerError):
    """The other side sent bytes that are no frame, a frame out of place, or an unknown version of
    the protocol."""


class BusyError(ProtocolError):
    """The other side asks for something that it may have, but not now."""


class ConnectionLostError(PeerError):
    """The connection broke, or could not be established, within the given time."""


class TlsError(ConnectionLostError):
    """No connection that can be trusted was established: one end does not accept the certificate
    of the other, or only one of them speaks TLS."""


class NoReplyError(PeerError, TimeoutError):
    """Nobody replied to a request in time, or the request could not leave in time. It may have
    arrived all the same, and its effects with it."""


class InternalError(ReefcastError):
    """A fault of Reefcast itself, or of a routing that somebody added: report it, with the
    traceback."""
