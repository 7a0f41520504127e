"""Live brokers and clients in simulated time; start with `world`.

`loop` is an event loop without a clock, `connections` does to connections what networks do to them
(`cables`, `faults`), and `machines` gives each program its time and its chance.
"""
