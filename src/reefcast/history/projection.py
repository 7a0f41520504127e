"""Publications cut down to what was asked for: some attributes, with or without the payload.

Values are copied as they are encoded, never decoded, by compiled code; what other programs wrote in
ways of their own takes a step in Python for each value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from reefcast.matching.columnar.trimming import Trimmer

_NO_PAYLOAD = msgspec.Raw(msgspec.msgpack.encode(b""))
_NO_TOPICS = msgspec.Raw(msgspec.msgpack.encode(()))


class _Cut(msgspec.Struct, array_like=True, gc=False):
    """A publication as it is encoded; see `model.publication.Publication`."""

    publisher: msgspec.Raw
    seq: msgspec.Raw
    time_us: msgspec.Raw
    attributes: dict[str, msgspec.Raw]
    topics: msgspec.Raw = _NO_TOPICS
    payload: msgspec.Raw = _NO_PAYLOAD


_decode = msgspec.msgpack.Decoder(_Cut).decode
_encode = msgspec.msgpack.Encoder().encode


class Projection:
    """The parts of publications that a request wants. `attributes`: their names; None: all."""

    def __init__(self, attributes: Iterable[str] | None, *, payload: bool) -> None:
        self._names = None if attributes is None else frozenset(attributes)
        self._payload = payload
        self._trimmer = None if self.is_everything else Trimmer(self._names, payload=payload)

    @property
    def is_everything(self) -> bool:
        """Whether it leaves publications as they are."""
        return self._names is None and self._payload

    def cut(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Return encoded publications with the wanted parts only."""
        if self._trimmer is None or not bodies:
            return list(bodies)
        found = self._trimmer.trim(bodies)
        if not all(found):
            found = [cut or self.cut_one(body) for cut, body in zip(found, bodies, strict=True)]
        return found

    def cut_one(self, body: bytes) -> bytes:
        """Return one encoded publication with the wanted parts only, however it was written."""
        publication = _decode(body)
        if self._names is not None:
            publication.attributes = {
                name: value for name, value in publication.attributes.items() if name in self._names
            }
        if not self._payload:
            publication.payload = _NO_PAYLOAD
        return _encode(publication)
