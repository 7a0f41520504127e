"""Reefcast as a data source of Spark: `format("reefcast")`; see docs/spark-connector.md."""
