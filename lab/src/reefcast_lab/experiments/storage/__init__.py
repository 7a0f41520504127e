"""Where storages stand: the evaluation of "Storing and Replication in Topic-Based Publish/Subscribe
Networks" (section V)."""
