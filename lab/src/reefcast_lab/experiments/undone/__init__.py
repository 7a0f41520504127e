"""Covering: what each change of its set-up does, by undoing it alone."""
