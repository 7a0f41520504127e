"""Covering without subscription bursts: the evaluation of the incremental algorithm."""
