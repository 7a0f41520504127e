"""Demonstrations: live networks at work on this machine, each with a report.

- `demo`: flights over brokers (`replay*`), checked by Spark SQL (`check`), with what it saved
  (`costs`);
- `burst*`: a broad subscription that comes and goes over thousands of narrow ones;
- `gossip*`: peers that find each other; some are killed.
"""
