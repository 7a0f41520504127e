"""The analysis of a small made-up trace, and a parser that checks its page."""

from __future__ import annotations

from html.parser import HTMLParser

from reefcast.pipeline.analysis import Analysis


def an_analysis(**changes):
    values = {
        "run": {
            "simulated": False,
            "routing": "acyclic",
            "brokers": ["a", "b", "c"],
            "links": [["a", "b"], ["b", "c"]],
        },
        "delays": {
            "count": 90,
            "mean": 1500.0,
            "p50": 1200.0,
            "p90": 2000.0,
            "p99": 3000.0,
            "p999": 3100.0,
            "max": 3200,
        },
        "delay_bins": [
            {"low_us": 1000.0, "high_us": 1258.9, "count": 60},
            {"low_us": 1258.9, "high_us": 1584.9, "count": 30},
        ],
        "delays_by_hops": [{"hops": 1, "count": 90, "p50": 1200.0, "p99": 3000.0}],
        "links": [
            {"a": "a", "b": "b", "publications": 30, "control": 4, "size_bytes": 3100},
            {"a": "b", "b": "c", "publications": 10, "control": 4, "size_bytes": 1100},
        ],
        "messages": [
            {"message": "publish", "count": 40, "size_bytes": 4000},
            {"message": "subscribe", "count": 8, "size_bytes": 200},
        ],
        "brokers": [
            {"broker": n, "published": 5, "sent": 3, "deliveries": 30, "matching_ns": 900}
            for n in "abc"
        ],
        "tables": [{"broker": "a", "table": "PRT", "rows": 3, "most": 4}],
        "discards": [{"reason": "unwanted", "count": 2}],
        "queues": [{"broker": "a", "link": "b", "mean": 0.5, "most": 3}],
        "counters": [],
        "overloaded": [],
        "totals": [{"name": "body_bytes", "value": 90.0}],
        "seconds": [
            {
                "second": 7 + i,
                "published": 5,
                "sent": 9,
                "deliveries": 30 * i,
                "delay_mean_us": None if i == 1 else 1500.0,
                "delay_max_us": None if i == 1 else 3200,
                "queue_max": 3,
            }
            for i in range(3)
        ],
    }
    return Analysis(**(values | changes))


class Page(HTMLParser):
    """A parser that collects what a page refers to, and checks that its elements are closed."""

    def __init__(self, html):
        super().__init__()
        self.references, self.ids, self.open = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.references += [found[n] for n in ("src", "href", "xlink:href") if n in found]
        self.ids += [found["id"]] if "id" in found else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
