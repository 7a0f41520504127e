"""Public data sets as events: one module for each kind of data, one schema for the events of all.

A module reads its files as they come (CSV, plain or gzipped, a file or a folder of files), and
turns them into tables by pure functions of DataFrames; `jobs` writes these as Parquet. The tables:

- *events*: `event`, int64, the number of the event in the order of time, from 0; `time_us`, int64
  microseconds; where the data have topics, `topic`, a list of strings; all other columns are
  attributes: int64, float64 or string, NULL where an event lacks one.
- *subscriptions*, where the data say who wants what: `subscription`, int64, a number from 0;
  `filter`, string; `client`, string, who wants it.

Nothing is collected but statistics of a fixed size, so a job is as large as its cluster.
"""
