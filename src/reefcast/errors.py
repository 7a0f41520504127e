"""Error classes, named by whose fault it is.

`LocalError`: our own caller asked for something that cannot be (a filter with a typing error, a
publication outside its advertisement, a network file with a cycle where a tree is needed).
`PeerError`: the other side of a connection broke the protocol.
Every message is a sentence that says what was wrong, where, and what to do.
"""

from __future__ import annotations


class ReefcastError(Exception):
    """The root of every error that Reefcast raises on purpose."""


class LocalError(ReefcastError):
    """The caller's fault; asking again in the same way will fail again."""


class PeerError(ReefcastError):
    """The other side's fault: it broke the protocol or went away."""


class FilterSyntaxError(LocalError):
    """A filter that cannot be read.

    `line` and `column` count from 1; `expected` says in words what could have stood there.
    """

    def __init__(self, message: str, *, line: int, column: int, expected: tuple[str, ...] = ()):
        super().__init__(message)
        self.line = line
        self.column = column
        self.expected = expected


class InvalidValueError(LocalError):
    """An attribute, a topic or a payload that the model does not know."""


class ConfigurationError(LocalError):
    """A network file or an option that contradicts itself or the rules of a routing."""


class RefusedError(LocalError):
    """A broker refused what a client asked for; the text is the broker's."""


class ProtocolError(PeerError):
    """Bytes that are no frame, a frame out of place, or a version that we do not speak."""


class ConnectionLostError(PeerError):
    """The connection went away and could not be had again."""
