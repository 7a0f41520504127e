"""Rows of Arrow's batches as events: the columns that `matching.columnar` writes as frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reefcast.client.encoding import check_topics, encode_event
from reefcast.errors import InternalError, InvalidValueError
from reefcast.matching.columnar import layout
from reefcast.matching.columnar.frames import Attribute, Rows, frames_of
from reefcast.matching.columnar.tables import Array, Texts
from reefcast.model import wire
from reefcast.model.publication import MAX_PAYLOAD_BYTES
from reefcast.pipeline.connector.options import ISO, TEXT, Forms

if TYPE_CHECKING:
    import pyarrow as pa

ISO_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Special(NamedTuple):
    """The columns that are no attributes, None where there is none."""

    times: Any
    topics: Any
    topic: Any
    payloads: Any


class Outgoing:
    """Makes frames of batches. `topic`: of all rows, whatever their columns say; or ""."""

    def __init__(self, publisher: str, topic: str, forms: Forms) -> None:
        self._publisher = publisher
        self._topic = topic
        self._forms = forms

    def frames(
        self, batch: pa.RecordBatch, special: Special, names: list[str], first: int, time_us: int
    ) -> list[bytes]:
        """Return the frames of the rows: numbered from `first` on; the first one is at `time_us`,
        unless a column says the times. Raises `InvalidValueError` for what is no event."""
        attributes = [each for name in names for each in self._attributes(name, batch.column(name))]
        times = _times(special.times, batch.num_rows, time_us)
        topics = self._topics(special, batch.num_rows)
        payloads = None if special.payloads is None else _texts(_filled(special.payloads, b""))
        rows = Rows(times, attributes, topics, payloads)
        self._check(rows, first)
        frames = frames_of(self._publisher, first, rows)
        if max(map(len, frames), default=0) > wire.MAX_FRAME_BYTES:
            self._refuse(rows, first, max(range(len(frames)), key=lambda row: len(frames[row])))
        return frames

    # --- attributes -------------------------------------------------------------------------------

    def _attributes(self, name: str, column: Any) -> Iterator[Attribute]:
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_struct(column.type):
            fields = [column.type.field(i).name for i in range(column.type.num_fields)]
            for field, part in zip(fields, column.flatten(), strict=True):
                yield from self._attributes(f"{name}.{field}", part)
            return
        if pa.types.is_null(column.type):
            return
        column = self._formed(column)
        valid = None
        if column.null_count:
            valid = column.is_valid().cast(pa.uint8()).to_numpy()
        kind, values = _values(column)
        yield Attribute(name, kind, values, valid)

    def _formed(self, column: Any) -> Any:
        """Return times, dates and decimals in the forms in which they travel."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = column.type
        if pa.types.is_timestamp(kind):
            times = column.cast(pa.timestamp("us", kind.tz))
            if self._forms.timestamps == ISO:
                return pc.strftime(times.cast(pa.timestamp("us", "UTC")), ISO_TIME)
            return times.cast(pa.int64())
        if pa.types.is_date(kind):
            text = self._forms.dates == ISO
            return column.cast(pa.string()) if text else column.cast(pa.int32())
        if pa.types.is_decimal(kind):
            texts = column.cast(pa.string())
            return texts if self._forms.decimals == TEXT else texts.cast(pa.float64())
        return column

    # --- the rest ---------------------------------------------------------------------------------

    def _topics(self, special: Special, rows: int) -> tuple[Array, Texts] | None:
        import pyarrow as pa

        if self._topic:
            texts = _texts(pa.array([self._topic] * rows))
            return np.arange(rows + 1, dtype=np.int32), texts
        if special.topics is not None:
            lengths = _filled(special.topics.value_lengths(), 0).to_numpy()
            return _ends(lengths), _checked(special.topics.flatten())
        if special.topic is not None:
            there = _filled(special.topic, "")
            has = np.diff(_texts(there).ends) > 0
            return _ends(has), _checked(there.filter(pa.array(has)))
        return None

    def _check(self, rows: Rows, first: int) -> None:
        """Raise an error for a name or a payload that no event has."""
        if "" in (each.name for each in rows.attributes):
            self._refuse(rows, first, 0)
        if rows.payloads is not None:
            sizes = np.diff(rows.payloads.ends)
            if len(sizes) and sizes.max() > MAX_PAYLOAD_BYTES:
                self._refuse(rows, first, int(sizes.argmax()))

    def _refuse(self, rows: Rows, first: int, row: int) -> None:
        """Raise the error that encoding one row gives."""
        payload = b"" if rows.payloads is None else _text(rows.payloads, row)
        attributes = {each.name: _value(each, row) for each in rows.attributes}
        encode_event((self._publisher, first), 0, attributes, (), payload)
        raise InternalError("a row is refused that could be published")


# --- arrays ---------------------------------------------------------------------------------------


def _filled(column: Any, value: Any) -> Any:
    return column.fill_null(value) if column.null_count else column


def _values(column: Any) -> tuple[int, Array | Texts]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_boolean(kind):
        return layout.BOOLEAN, _filled(column, False).cast(pa.uint8()).to_numpy()
    if pa.types.is_floating(kind):
        return layout.DOUBLE, _filled(column.cast(pa.float64()), 0.0).to_numpy()
    if pa.types.is_integer(kind):
        return layout.LONG, _filled(column.cast(pa.int64()), 0).to_numpy()
    return layout.STRING, _texts(_filled(column, ""))


def _texts(column: Any) -> Texts:
    """Return texts or bytes without gaps."""
    import pyarrow as pa

    narrow = pa.binary() if pa.types.is_binary(column.type) else pa.string()
    if pa.types.is_large_binary(column.type):
        narrow = pa.binary()
    column = column.cast(narrow)
    _, ends, data = column.buffers()
    count, first = len(column), column.offset
    if ends is None or not count:
        return Texts(np.zeros(count + 1, np.int32), np.zeros(1, np.uint8))
    every = np.frombuffer(ends, np.int32)[first : first + count + 1]
    held = (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    )
    return Texts(every, held)


def _times(column: Any, rows: int, time_us: int) -> Array:
    import pyarrow as pa

    if column is None:
        return np.arange(time_us, time_us + rows)
    if column.null_count:
        raise InvalidValueError("a row has no timestamp: the column is the time of the event")
    times: Array = column.cast(pa.int64()).to_numpy()
    return times


def _ends(lengths: Array) -> Array:
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _checked(topics: Any) -> Texts:
    """Return topics, each of which a client may publish under."""
    for topic in topics.unique().to_pylist():
        check_topics((topic,))
    return _texts(topics)


def _text(texts: Texts, row: int) -> bytes:
    return texts.data[texts.ends[row] : texts.ends[row + 1]].tobytes()


def _value(attribute: Attribute, row: int) -> Any:
    if attribute.valid is not None and not attribute.valid[row]:
        return None
    if isinstance(attribute.values, Texts):
        return _text(attribute.values, row).decode()
    return attribute.values[row].item()
