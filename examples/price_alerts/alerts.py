"""Print a line whenever the price of a stock crosses a limit."""

from __future__ import annotations

import argparse
from contextlib import suppress

import msgspec

import reefcast


class Quote(msgspec.Struct):
    """The attributes of a quote that an alert prints."""

    symbol: str
    price: float
    previous: float


def crossings(symbol: str, limit: float) -> tuple[str, str]:
    """Return the filters for a price that rises to the limit, and for one that falls below it.

    The brokers compare the price with the previous one, so no other quote comes here.
    """
    stock = f"symbol = {reefcast.literal(symbol)}"
    return (
        f"{stock} AND previous < {limit} AND price >= {limit}",
        f"{stock} AND previous >= {limit} AND price < {limit}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("symbol", help="the stock, such as IBM")
    parser.add_argument("limit", type=float, help="the price to watch")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    with reefcast.sync.connect(arguments.url, name="alerts") as client:
        alerts = client.subscribe(*crossings(arguments.symbol, arguments.limit))
        alerts.settled()
        print(f"watching {arguments.symbol} at {arguments.limit:g}", flush=True)
        for event in alerts:
            quote = event.as_(Quote)
            change = "rises" if quote.price > quote.previous else "falls"
            print(
                f"{quote.symbol} {change} from {quote.previous:.2f} to {quote.price:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
