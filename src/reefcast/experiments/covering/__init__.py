"""Covering without subscription bursts: the evaluation of the incremental algorithm.

Its overlays and workloads are here; the campaigns that measure them, and the claims, are to come,
so the registry does not know this paper yet.
"""
