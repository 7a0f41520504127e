"""Matching in Spark: which subscriptions does each event match?

- `match(events, subscriptions)`: the pairs, `event` and `subscription`;
- `match_counts(events, subscriptions)`: for each subscription how many events it matched, or with
  `per="event"` for each event how many subscriptions; no pairs are made for it.
- `match_stream(events, changes)`: the pairs, where both are streams (`streaming`).

The first two are in `joins`; all are public in `reefcast.spark`. `subscriptions` parses
the filters and gathers them, `shared` hands them to the executors, `events` makes attributes of
columns, `worker` is what the executors do: one compiled index for each Python process, values out
of Arrow's memory.
"""
