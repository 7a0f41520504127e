"""The data source `reefcast`: `spark.read`, `readStream`, `write` and `writeStream`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from reefcast.pipeline.connector.advertised import advertised, comments_of, types_of
from reefcast.pipeline.connector.batch import BatchReader, PushingReader
from reefcast.pipeline.connector.columns import check_columns, schema_of
from reefcast.pipeline.connector.inference import ddl, inferred
from reefcast.pipeline.connector.options import (
    READ,
    STREAM,
    WRITE,
    Inferring,
    inferring,
    is_of_session,
    look_options,
    read_options,
    schema_option,
    session_options,
    stream_options,
    write_options,
)
from reefcast.pipeline.connector.sentences import told
from reefcast.pipeline.connector.session_batch import LookReader
from reefcast.pipeline.connector.session_stream import SessionReader
from reefcast.pipeline.connector.stream import StreamReader
from reefcast.pipeline.connector.writing import BatchWriter, StreamWriter


class ReefcastSource(DataSource):
    """`format("reefcast")`; `reefcast.spark.register` makes a session know it. `usual`: options for
    where none are given."""

    usual: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        return "reefcast"

    @told
    def schema(self) -> str:
        given = self._given(READ)
        asked = inferring(given)
        if asked is None:
            return schema_of(schema_option(given))
        return schema_of(_inferred(asked))

    def _given(self, known: Sequence[str]) -> dict[str, str]:
        """Return the options, with those of the usual ones that are known here."""
        names = {name.lower() for name in known}
        given = {name.lower(): value for name, value in self.options.items()}
        return {name: text for name, text in self.usual.items() if name in names} | given

    @told
    def reader(self, schema: StructType) -> BatchReader | LookReader:
        columns, options = check_columns(schema), self._given(READ)
        if is_of_session(options):
            return LookReader(columns, look_options(options))
        asked = read_options(options)
        return (PushingReader if asked.pushdown else BatchReader)(columns, asked)

    @told
    def streamReader(self, schema: StructType) -> StreamReader | SessionReader:
        columns, options = check_columns(schema), self._given(STREAM)
        if is_of_session(options):
            return SessionReader(columns, session_options(options))
        return StreamReader(columns, stream_options(options))

    @told
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(schema, write_options(self._given(WRITE)), overwrite=overwrite)

    @told
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(schema, write_options(self._given(WRITE)), overwrite=overwrite)


def _inferred(asked: Inferring) -> str:
    """Return the columns that are found, with one for leftovers."""
    broker, filter = asked.selection.broker, asked.selection.filter
    if asked.by_advertisements:
        ranges = advertised(broker.url, {**broker.access, "name": "spark-planner"}, filter)
        types, comments = types_of(ranges), comments_of(ranges)
    else:
        with broker.connect("spark-planner") as client:
            types, comments = inferred(client, filter, datetime.now(UTC)), {}
    return ddl(types, "rest" if "rest" not in types else "the rest", comments)
