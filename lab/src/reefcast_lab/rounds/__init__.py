"""The overlays of gossip in synchronous rounds: with the live state machine, and on arrays."""
