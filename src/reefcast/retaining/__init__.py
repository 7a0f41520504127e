"""Retained values: the last publication of each key, which every broker of a network has."""
