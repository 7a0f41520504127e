"""The data source `reefcast`: `spark.read`, `readStream`, `write` and `writeStream`."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from reefcast.pipeline.connector.batch import BatchReader
from reefcast.pipeline.connector.columns import check_columns, schema_of
from reefcast.pipeline.connector.inference import ddl, inferred
from reefcast.pipeline.connector.options import (
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
    """`format("reefcast")`; `reefcast.spark.register` makes a session know it."""

    @classmethod
    def name(cls) -> str:
        return "reefcast"

    @told
    def schema(self) -> str:
        selection = inferring(self.options)
        if selection is None:
            return schema_of(schema_option(self.options))
        with selection.broker.connect("spark-planner") as client:
            types = inferred(client, selection.filter, datetime.now(UTC))
        return schema_of(ddl(types, "rest" if "rest" not in types else "the rest"))

    @told
    def reader(self, schema: StructType) -> BatchReader | LookReader:
        columns = check_columns(schema)
        if is_of_session(self.options):
            return LookReader(columns, look_options(self.options))
        return BatchReader(columns, read_options(self.options))

    @told
    def streamReader(self, schema: StructType) -> StreamReader | SessionReader:
        columns = check_columns(schema)
        if is_of_session(self.options):
            return SessionReader(columns, session_options(self.options))
        return StreamReader(columns, stream_options(self.options))

    @told
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(schema, write_options(self.options), overwrite=overwrite)

    @told
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(schema, write_options(self.options), overwrite=overwrite)
