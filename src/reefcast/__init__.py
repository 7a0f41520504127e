"""Reefcast: a publish/subscribe network that routes by content."""
