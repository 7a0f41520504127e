"""Opportunistic multipath forwarding over a mesh of soft links: its pure algorithms."""
