"""Error classes, named by whose fault it is.

- `LocalError`: yours. You asked for something that cannot be, such as a filter with a typing error,
  a network file with a cycle where a tree is needed, a client that has been closed.
- `PeerError`: the other side's. It broke the protocol, went away or cannot be reached.
- `InternalError`: ours, or that of a routing that somebody added. What must not happen did.

`FilterWarning` is no error: a filter that is legal and looks like a mistake.

Every message is a sentence that says what was wrong, where, and what to do. The commands turn each
of the three into an exit code of its own (`cli/exit_codes.py`). Besides these there are
`TimeoutError`, from what takes a `timeout`, and `OSError`, for files.
"""

from __future__ import annotations


class ReefcastError(Exception):
    """The root of every error that Reefcast raises on purpose."""


class LocalError(ReefcastError):
    """The caller's fault; asking again in the same way will fail again."""


class FilterSyntaxError(LocalError):
    """A filter that cannot be read.

    `line` and `column` say where, both counted from 1; `expected` says in words what could have
    stood there.
    """

    def __init__(self, message: str, *, line: int, column: int, expected: tuple[str, ...] = ()):
        super().__init__(message)
        self.line = line
        self.column = column
        self.expected = expected


class FilterWarning(UserWarning):
    """A filter that can be read, but hardly says what its author meant: no event can match it, a
    string stands in double quotes, or a number in single ones. Silence it with
    `warnings.simplefilter("ignore", reefcast.FilterWarning)`."""


class InvalidValueError(LocalError):
    """An attribute, a topic or a payload that no publication can have, or that `Event.as_` cannot
    make of an event what was asked for."""


class ConfigurationError(LocalError):
    """A network file or an option that contradicts itself or the rules of a routing."""


class DamagedError(LocalError):
    """A file that does not hold what was written to it. What is damaged is never handed out."""


class RefusedError(LocalError):
    """A broker refused what a client asked for: a connection, a filter, or publications outside
    the client's advertisements, whose ids are in `publications`. The text is the broker's."""

    def __init__(self, message: str, *, publications: tuple[tuple[str, int], ...] = ()):
        super().__init__(message)
        self.publications = publications


class SlowConsumerError(LocalError):
    """The broker ended the connection because the program did not keep up with its events, as its
    `queue_policy` says; what was published since is lost to it. The text is the broker's."""


class PeerError(ReefcastError):
    """The other side's fault; asking again, later or elsewhere, may succeed."""


class ProtocolError(PeerError):
    """Bytes that are no frame, a frame out of place, or a version that we do not speak."""


class ConnectionLostError(PeerError):
    """The connection went away, or could not be had, within the time that was given."""


class InternalError(ReefcastError):
    """A fault of Reefcast itself, or of a routing that somebody added: report it, with the
    traceback."""
