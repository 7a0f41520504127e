"""StAN: topic gossip over aligned overlays that disclose no interest."""
