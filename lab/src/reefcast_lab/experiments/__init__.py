"""The papers' evaluations, run in the simulator: what they measured, and what we measure."""
