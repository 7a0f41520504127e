"""History: publications stored for those who ask later.

- The store of one storage: `store`, and below it a database of what is new (`schema`, `reading`,
  `writing`), sealed segments of what is old, both read as one (`merging`), and what is repaired of
  a damaged one (`salvage`).
- What is said about it: `messages`; at each broker `service` and `table`; who asks, `asking`, and
  who answers, `replying`, as state machines without I/O.
- What was asked for: `request_log`.

The storage itself, a client of a broker, is in `storage_node`.
"""
