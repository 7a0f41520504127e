"""The broker core: a state machine without I/O, clock or global randomness, and its routings."""
