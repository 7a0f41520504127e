"""The Spark pipeline: data sets, workloads, the independent check, trace analysis, reports."""
