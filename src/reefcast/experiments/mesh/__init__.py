"""Multipath forwarding over a mesh of soft links: the evaluation of the paper (section 7).

Its overlays and workloads are here; the campaigns that measure them, and the claims, are to come,
so the registry does not know this paper yet.
"""
