"""History: publications stored for later questions.

- The store of one storage: `store`, and below it a database of recent rows (`schema`, `reading`,
  `writing`), sealed segments of older ones, both read as one (`merging`), and the rescue of a
  damaged database (`salvage`).
- The messages about it: `messages`; at each broker `service` and `table`; the asking side,
  `asking`, and the answering side, `replying`, as state machines without I/O.
- The log of requests: `request_log`.

The storage itself, a client of a broker, is in `storage_node`."""
