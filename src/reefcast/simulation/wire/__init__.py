"""Live brokers and clients in simulated time: an event loop without a clock (`loop`), and
connections that do what networks do to connections (`connections`)."""
