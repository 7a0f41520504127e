"""Topologies and the network file."""
