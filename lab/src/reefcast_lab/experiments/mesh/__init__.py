"""Multipath forwarding over a mesh of soft links: the evaluation of the paper (section 7)."""
