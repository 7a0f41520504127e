"""`reefcast plan`: where storages should stand."""

from __future__ import annotations

import json
import random
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.options import (
    DIRECTORY,
    INPUT_FILE,
    OUTPUT_FILE,
    Whole,
    json_option,
    master_option,
    network_argument,
    seed_option,
)
from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from reefcast.storage.placement.inputs import Inputs, Placement, RatesByBroker

TIME_LIMIT_S = 20.0
"""For the optimum."""

NAMES = {
    "plan": "this plan",
    "grd_opt": "each topic where it is best, without limits",
    "rnd": "topics assigned at random",
    "optimum": "the best that there is",
    "bound": "none is better than",
}


@click.group()
def command() -> None:
    """Plan a network: where its storages should stand."""


@command.command()
@network_argument
@click.option(
    "--rates",
    type=INPUT_FILE,
    help="Requests: CSV with the heads broker,topic,rate_per_s (requests a second).",
)
@click.option(
    "--log",
    type=DIRECTORY,
    help="In place of --rates: a log of requests, Parquet with time_us, broker and topic, from "
    "which Spark computes the rates.",
)
@master_option
@click.option(
    "--copies",
    type=Whole(1),
    default=2,
    show_default=True,
    help="Storages that keep a topic.",
)
@click.option("--capacity", type=Whole(1), required=True, help="Topics that a storage can keep.")
@click.option(
    "--storages",
    type=Whole(1),
    help="How many storages there are; by default as few as can keep all copies.",
)
@seed_option
@click.option(
    "--out", type=OUTPUT_FILE, help="Write the plan to this file, for `reefcast network place`."
)
@click.option("--draw", type=OUTPUT_FILE, help="Write a drawing to this file, as SVG.")
@json_option("the storages, the weights of topics, and mean hops of the plan and of others")
def storage(
    network: Path,
    rates: Path | None,
    log: Path | None,
    master: str,
    copies: int,
    capacity: int,
    storages: int | None,
    seed: int,
    out: Path | None,
    draw: Path | None,
    as_json: bool,
) -> None:
    """Choose the brokers of storages, and the topics that each keeps.

        reefcast plan storage net.toml --rates rates.csv --capacity 5

    Storages come near to where requests are made. It prints the plan, and the
    mean distance from a request to the nearest storage that keeps its topic: of
    the plan, and of others that it can be compared with; the best one only for
    small networks, and where scipy is installed (the extra `plan`).
    """
    from reefcast.network.file import load_network
    from reefcast.storage.placement.inputs import inputs
    from reefcast.storage.placement.steps import place

    overlay = load_network(network).graph()
    made = inputs(overlay, _rates(rates, log, master), copies, capacity, storages)
    steps = place(made)
    hops = compared(made, steps.placement, seed)
    if out:
        out.write_text(_plan_text(made, steps.placement, hops["plan"]), encoding="utf-8")
    if draw:
        from reefcast.pipeline.placement_figure import placement_figure

        draw.write_text(placement_figure(made, steps.placement), encoding="utf-8")
    weights = dict(zip(made.topics, steps.weights.tolist(), strict=True))
    described = _described(made, steps.placement, weights, hops)
    if as_json:
        click.echo(json.dumps(described))
        return
    _print(described)
    for written in filter(None, (out, draw)):
        click.echo(f"wrote {written}")


def _rates(rates: Path | None, log: Path | None, master: str) -> RatesByBroker:
    if (rates is None) == (log is None):
        raise ConfigurationError("give either --rates or --log: where requests are made")
    if rates is not None:
        from reefcast.storage.placement.rates_file import load_rates

        return load_rates(rates)
    assert log is not None
    from reefcast.pipeline.session import spark_session

    with spark_session("reefcast plan storage", master) as spark:
        from reefcast.pipeline.request_rates import rates_of_log

        return rates_of_log(spark, log)


def compared(made: Inputs, placement: Placement, seed: int) -> dict[str, float]:
    """Mean hops, of `NAMES`; of the optimum where it was to be had, else its bound."""
    from reefcast.storage.placement.baselines import at_random, greedy_without_limits
    from reefcast.storage.placement.inputs import mean_hops
    from reefcast.storage.placement.optimum import LARGEST, optimum

    hops = {
        "plan": mean_hops(made, placement),
        "grd_opt": mean_hops(made, greedy_without_limits(made)),
        "rnd": mean_hops(made, at_random(made, random.Random(seed))),
    }
    if made.rates.size <= LARGEST and find_spec("scipy"):
        best = optimum(made, TIME_LIMIT_S)
        if best:
            hops |= (
                {"optimum": mean_hops(made, best.placement)}
                if best.proved
                else {"bound": best.bound}
            )
    return hops


def _plan_text(made: Inputs, placement: Placement, hops: float) -> str:
    from reefcast.storage.placement.plan_file import dump_plan

    remarks = (
        "Storages and the topics that they keep, made by `reefcast plan storage`:",
        f"{made.copies} copies of each of {len(made.topics)} topics, {made.capacity} topics for a "
        f"storage; {hops:.3f} hops from a request to its storage in the mean.",
    )
    return dump_plan(placement, remarks)


def _described(
    made: Inputs, placement: Placement, weights: dict[str, float], hops: dict[str, float]
) -> dict[str, Any]:
    from reefcast.storage.placement.inputs import shares_served
    from reefcast.storage.placement.plan_file import storages_of

    shares = shares_served(made, placement)
    return {
        "copies": made.copies,
        "capacity": made.capacity,
        "storages": [
            {"broker": each.broker, "share": shares[each.broker], "topics": list(each.topics)}
            for each in storages_of(placement)
        ],
        "weights": weights,
        "mean_hops": hops,
    }


def _print(described: dict[str, Any]) -> None:
    from rich.table import Table

    from reefcast.cli.terminal import plain_console

    plan = Table("storage at", "answers", "topics")
    for each in described["storages"]:
        plan.add_row(each["broker"], f"{100 * each['share']:.0f} %", ", ".join(each["topics"]))
    hops = Table("mean hops to the nearest storage", "hops", "against this plan")
    mine = described["mean_hops"]["plan"]
    for name, value in described["mean_hops"].items():
        against = f"{100 * (value / mine - 1):+.1f} %" if mine and name != "plan" else ""
        hops.add_row(NAMES[name], f"{value:.3f}", against)
    for table in (plan, hops):
        plain_console().print(table)
