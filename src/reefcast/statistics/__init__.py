"""The statistics of subscriptions that incremental pruning counts, kept on disk."""
