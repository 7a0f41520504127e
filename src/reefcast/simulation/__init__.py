"""Deterministic discrete-event simulation of the very broker code that runs live."""
