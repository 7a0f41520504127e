"""The network file: one description of a whole network, live or simulated."""
