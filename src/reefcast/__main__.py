"""`python -m reefcast` is `reefcast`."""

from reefcast.cli.main import main

main()
