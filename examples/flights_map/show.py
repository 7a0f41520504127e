"""Serve the page with the map, until Ctrl-C."""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing about it."""

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:8000", help="the address of the page")
    parser.add_argument("--broker", default="127.0.0.1:8080", help="the HTTP listener of a broker")
    arguments = parser.parse_args()
    host, _, port = arguments.listen.rpartition(":")
    files = partial(Quiet, directory=Path(__file__).parent / "page")
    with ThreadingHTTPServer((host, int(port)), files) as server:
        print(f"open http://{arguments.listen}/?broker={arguments.broker}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
