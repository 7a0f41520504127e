"""Covering inside the clusters of OctopiA's overlay."""
