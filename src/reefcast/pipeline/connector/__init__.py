"""The data source of Spark, `format("reefcast")`; see docs/reference/spark-connector.md."""
