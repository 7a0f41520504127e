"""Check that there is Java 17 or later, which Spark needs; otherwise say so in one line before
anything is installed."""

import re
import shutil
import subprocess
import sys

NEEDED = 17
ADVICE = (
    f"Java {NEEDED}+ is needed for Spark; install it, for instance: "
    "apt-get install openjdk-17-jre-headless (Debian, Ubuntu) or brew install openjdk@17 (macOS)."
)


def java_version() -> int | None:
    """Return the major version of the `java` on the PATH; None if there is none that answers."""
    java = shutil.which("java")
    if java is None:
        return None
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


if __name__ == "__main__":
    version = java_version()
    if version is None or version < NEEDED:
        has = "no Java was found" if version is None else f"Java {version} was found"
        sys.exit(f"{has}. {ADVICE}")
