"""CloudEvents 1.0.2 without I/O: events, their formats over HTTP, and what they are in Reefcast."""
