"""The protocol between the two ends of a connection, without I/O, clock or tasks.

`link` is one end of one connection: bytes, messages and the passing of time go in, bytes and frames
come out. `states` defines the states of an end and the steps between them, `numbered` counts
acknowledged frames and keeps the others, and `frames` cuts bytes into frames. `model.wire` defines
what the frames carry. Brokers, clients, storages, peers and administrators all use these modules;
the shells around them move bytes and set one timer."""
