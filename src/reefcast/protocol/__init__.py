"""The protocol between two ends of a connection, without I/O, clock or tasks.

`link` is one end of one connection: bytes, messages and the passing of time go in, bytes and frames
come out. `states` says what may follow upon what, `numbered` counts what is acknowledged and sent
again, `frames` cuts bytes into frames. What the frames carry is said by `model.wire`. Brokers,
clients, storages, peers and administrators all use these; the shells around them move bytes and
set one timer.
"""
