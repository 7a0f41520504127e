"""What storages keep, and where they stand."""
