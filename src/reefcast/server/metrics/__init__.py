"""The metrics of a live broker: what there is (`definitions`, of which the page
`docs/reference/metrics.md` is made), what is measured on the way
(`sampling`, `histograms`), what is read when somebody asks (`collecting`), and how it is written
(`rendering`, which alone needs prometheus_client)."""
