"""What HTTP clients cost a broker, beside a bare server of the same library."""
