"""Live brokers and clients in simulated time; start with `world`.

`loop` is an event loop without a clock, `connections` treats connections as networks do (`cables`,
`faults`), and `machines` gives each program its time and its randomness."""
