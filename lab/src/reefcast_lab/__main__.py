"""`python -m reefcast_lab` is `reefcast-lab`."""

from reefcast_lab.cli.main import main

main()
