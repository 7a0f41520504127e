"""Workloads made by Spark: events, and subscriptions or advertisements of a given kind.

- `synthetic`: events, as many as there shall be;
- `boxes`: filters that match a given share of any events, all the same or by Zipf's law;
- `covered`: filters of a given covering degree;
- `interests`: topics that clients have in common, correlated as strongly as asked;
- `advertising`: advertisements that hold what publishers published.

What is drawn depends on the seed and the number of the row, never on how Spark cuts the rows into
partitions (`draws`). `measures` has the jobs that say what was reached, with the engine of the
brokers; `jobs` writes both. Subscriptions are `subscription`, a number from 0, `filter` and
`client`; advertisements likewise.
"""
