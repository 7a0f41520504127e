"""Discrete-event simulation: the very same broker code over simulated links, CPUs and faults.

Start with `simulation.Simulation`; theory of operation in `kernel`.
"""
