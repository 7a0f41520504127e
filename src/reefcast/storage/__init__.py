"""What is kept on disk: trace files."""
