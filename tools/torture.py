"""Play faults on live networks, with an account of what arrived: one seeded run, or the page about
all runs.

    python tools/torture.py acyclic kill --seed 3
    python tools/torture.py --matrix docs/reference/faults.md
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from torture.matrix import main

if __name__ == "__main__":
    main()
