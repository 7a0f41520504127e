"""Traces: what happened in a run, live or simulated, as Parquet."""
