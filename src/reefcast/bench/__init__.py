"""The figures: what `reefcast bench` measures, each beside a baseline in the same run."""
