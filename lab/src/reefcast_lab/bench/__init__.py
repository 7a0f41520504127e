"""The figures: what `reefcast-lab bench` measures, each beside a baseline in the same run."""
