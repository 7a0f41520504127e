"""A broker with an admin listener, scraped every second as Prometheus does: to be compared with the
same load without."""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from collections.abc import Iterator

from reefcast.errors import PeerError

EVERY_S = 1.0
ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
PATIENCE_S = 30.0


@contextlib.contextmanager
def scraped(ports: list[int]) -> Iterator[None]:
    """Ask the admin listeners at these ports of loopback for metrics in the `with` block, from a
    thread. Raises `PeerError` at its end if one of them did not answer."""
    ended = threading.Event()
    failures: list[OSError] = []

    def scrape() -> None:
        while not ended.wait(EVERY_S):
            for port in ports:
                try:
                    _scrape(port)
                except OSError as error:
                    failures.append(error)

    thread = threading.Thread(target=scrape, name="scraper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise PeerError(f"{len(failures)} scrapes failed, the first one: {failures[0]}")


def _scrape(port: int) -> None:
    url = f"http://127.0.0.1:{port}/metrics"
    request = urllib.request.Request(url, headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        answer.read()
