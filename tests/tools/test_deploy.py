"""What deploy/ has for Prometheus and Grafana: each expression names metrics and labels that there
are, each metric that is worth it is shown, and each alert is explained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reefcast.server.metrics.definitions import COUNTED, OF_PROCESS
from reefcast.server.metrics.definitions import METRICS as OF_BROKERS
from reefcast.storage_node import metric_definitions as of_storages

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "reefcast.json"
GUIDE = ROOT / "docs" / "how-to" / "monitor-a-network.md"
METRICS = (*OF_BROKERS, *of_storages.METRICS)
LABELS = {name: metric.labels for metric in METRICS for name in metric.sample_names}
LABELS |= dict.fromkeys(OF_PROCESS, ()) | {"up": ()}
OF_PROMETHEUS = {"instance", "job", "le"}
WORDS = {
    *("sum", "max", "by", "on", "rate", "increase", "deriv", "histogram_quantile", "time", "and"),
    *("group_left", "label_values", "or", "predict_linear"),
}
"""Functions and words of PromQL that are used."""
NOT_SHOWN = {
    "reefcast_broker_info",
    "reefcast_storage_info",
    "reefcast_storage_waiting_events_limit",  # an alert
    "reefcast_storage_connected",  # a part of reefcast_ready
    "reefcast_storage_restarts_total",
    "reefcast_storage_segment_rows",
    "reefcast_relearning",  # parts of reefcast_ready
    "reefcast_stopping",
    "reefcast_bad_http_requests_total",
    "reefcast_client_queue_evictions_total",
    "reefcast_slow_clients_noticed_total",
    "reefcast_congested",  # an alert
    "reefcast_congested_targets",
    "reefcast_connections_closed_total",
    "reefcast_connections_limit",  # alerts
    "reefcast_client_sessions_limit",
    "reefcast_durable_sessions_limit",
    "reefcast_custody_bytes_limit",
    "reefcast_disk_failing",
    "reefcast_durable_stored_events",
    "reefcast_durable_circuits",
    "reefcast_durable_searches",
    "reefcast_link_away_seconds",
    "reefcast_soft_links",
}
"""Metrics without a panel."""

VALUES_OF_STORAGES = {
    of_storages.STORED.name: of_storages.EVENT_SOURCES,
    of_storages.REQUESTS.name: of_storages.OUTCOMES,
    of_storages.TOPICS.name: of_storages.TOPIC_STATES,
    of_storages.RESTARTS.name: of_storages.RESTART_REASONS,
}

Rules = dict[str, dict[str, str]]


def alerts() -> Rules:
    """The rules by their names. The file is simple enough to be read by lines."""
    rules: Rules = {}
    key = ""
    for line in ALERTS.read_text().splitlines():
        if found := re.fullmatch(r"      - alert: (\w+)", line):
            rules[found[1]] = rule = {}
        elif found := re.fullmatch(r" {8,10}(\w+): ?(.*)", line):
            key = found[1]
            rule[key] = "" if found[2] == ">-" else found[2]
        elif line.startswith(" " * 10):
            rule[key] += f" {line.strip()}"
    return rules


def names_in(expression: str) -> set[str]:
    """Checks the words of an expression; returns its metrics."""
    found = set(re.findall(r"\b(?:reefcast|process)_\w+|\bup\b", expression))
    assert found, expression
    unknown = found - set(LABELS)
    assert not unknown, (unknown, expression)
    known = OF_PROMETHEUS.union(*(LABELS[name] for name in found))
    for name, selectors in re.findall(r"(\w+)\{([^}]*)\}", expression):
        for label, told in re.findall(r'(\w+)=~?"([^"]*)"', selectors.replace("!=", "=")):
            assert label in {*LABELS[name], *OF_PROMETHEUS}, expression
            check_value(name, label, told)
    for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert set(labels.split(", ")) <= known, expression
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|on) \([^)]*\)", " ", expression)
    words = set(re.findall(r"[a-z_]+", re.sub(r"\d+(e\d+)?", " ", bare)))
    assert words - found - OF_PROMETHEUS <= WORDS, words
    assert expression.count("(") == expression.count(")")
    return found


def check_value(metric: str, label: str, told: str) -> None:
    """Checks a value of a label that has few."""
    values = {labels[0] for known, labels in COUNTED.values() if known.name == metric and labels}
    values |= {"neighbours"} if metric == "reefcast_publications_received_total" else set()
    values |= set(VALUES_OF_STORAGES.get(metric, ()))
    if label in {"reason", "source", "by", "outcome", "state"}:
        assert told in values, (metric, label, told)


def panels() -> list[dict[str, Any]]:
    made = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in made if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("name", alerts())
def test_an_alert(name: str) -> None:
    rule, guide = alerts()[name], GUIDE.read_text()
    names = names_in(rule["expr"])
    assert set(rule) >= {"expr", "labels", "annotations", "summary"}
    assert rule["labels"] in ("{severity: warning}", "{severity: critical}")
    assert set(re.findall(r"\$labels\.(\w+)", rule["summary"])) <= OF_PROMETHEUS.union(
        *(LABELS[each] for each in names)
    )
    assert guide.count(f"| `{name}` |") == 1


def test_the_guide_explains_no_other_alerts() -> None:
    assert set(re.findall(r"\| `(Reefcast\w+)` \|", GUIDE.read_text())) == set(alerts())
    assert len(alerts()) == ALERTS.read_text().count("alert:")


def test_the_dashboard_names_what_there_is() -> None:
    shown: set[str] = set()
    for expression in expressions():
        shown |= names_in(expression.replace("$__rate_interval", "5m"))
    whole = {
        name
        for metric in METRICS
        for name in (metric.name,)
        if not shown.intersection(metric.sample_names)
    }
    assert whole == NOT_SHOWN


def test_the_dashboard_can_be_imported() -> None:
    made = json.loads(DASHBOARD.read_text())
    assert made["id"] is None
    assert made["uid"] == "reefcast"
    assert {variable["name"] for variable in made["templating"]["list"]} == {
        "datasource",
        "instance",
    }
    assert "label_values(reefcast_ready, instance)" in json.dumps(made["templating"])
    ids = [panel["id"] for panel in made["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells
    for panel in panels():
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            names = names_in(target["expr"].replace("$__rate_interval", "5m"))
            assert labels <= OF_PROMETHEUS.union(*(LABELS[name] for name in names))
