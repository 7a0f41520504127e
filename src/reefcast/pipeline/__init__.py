"""The Spark pipeline: the connector, matching, plans, trace analysis, reports."""
