"""The stock workload of OctopiA's evaluation."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast_lab.experiments.octopia.market import Market, market
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay
from reefcast_lab.experiments.octopia.parameters import STOCKS_VARIABLE, stock_statistics
from reefcast_lab.experiments.octopia.stocks import (
    SHORTEST_DAYS,
    StockStatistics,
    generate_quotes,
    read_quotes,
    statistics_of,
)


def close_to(ours: StockStatistics, given: StockStatistics) -> None:
    """Compare means of logarithms to within a tenth of a unit, and everything else to within 15
    %."""
    for name, value in asdict(ours).items():
        of_logs = name in ("level_mean", "volatility_mean", "volume_mean")
        wanted = getattr(given, name)
        tolerance = 0.1 if of_logs else 0.15 * abs(wanted)
        assert value == pytest.approx(wanted, abs=tolerance), name


def test_generated_quotes_and_the_data_where_they_are_given_have_the_statistics_written_down() -> (
    None
):
    given, path = stock_statistics(), os.environ.get(STOCKS_VARIABLE)
    names = [f"X{i}" for i in range(500)]
    close_to(statistics_of(generate_quotes(names, 1259, given, np.random.default_rng(1))), given)
    if path:
        close_to(statistics_of(read_quotes(path)), given)


def test_generated_quotes_are_quotes() -> None:
    made = generate_quotes(["X"], 300, stock_statistics(), np.random.default_rng(2))[0]
    day = made.columns
    assert (day["low"] <= np.minimum(day["open"], day["close"])).all()
    assert (day["high"] >= np.maximum(day["open"], day["close"])).all()
    assert (day["low"] > 0).all() and (day["volume"] >= 1).all()
    assert day["change"][7] == pytest.approx(day["close"][7] / day["close"][6] - 1, abs=1e-6)
    assert made.event(301) == made.event(1)
    assert type(made.event(0)["volume"]) is int


def quotes_file(folder, days: int, header: str = "date,open,high,low,close,volume,name") -> str:
    lines = [f"2020-{1 + i // 28:02d}-{1 + i % 28:02d},2,4,1,3,{10 + i},AB" for i in range(days)]
    path = folder / "quotes.csv"
    path.write_text("\n".join([header, *reversed(lines)]) + "\n")
    return str(path)


def test_reads_a_file_in_the_order_of_days_without_rows_that_no_market_makes(tmp_path) -> None:
    path = quotes_file(tmp_path, SHORTEST_DAYS)
    with Path(path).open("a") as file:
        file.write("2021-01-01,9,4,1,3,5,AB\n")  # it opens above the highest price
    (quotes,) = read_quotes(path)
    assert quotes.symbol == "AB" and len(quotes) == SHORTEST_DAYS
    assert quotes.columns["volume"].tolist() == [10.0 + i for i in range(SHORTEST_DAYS)]


def test_leaves_out_symbols_with_a_short_history(tmp_path) -> None:
    assert read_quotes(quotes_file(tmp_path, SHORTEST_DAYS - 1)) == ()


def test_refuses_a_file_without_quotes(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="there is no column volume"):
        read_quotes(quotes_file(tmp_path, 3, header="date,open,high,low,close,size,name"))
    with pytest.raises(ConfigurationError, match=r"absent\.csv"):
        read_quotes(str(tmp_path / "absent.csv"))


# --- markets --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd() -> Market:
    return market(
        evaluation_overlay(),
        publishers=50,
        subscribers=400,
        seed=3,
        selectivity=0.04,
        burst_share=0.02,
    )


def test_each_subscription_matches_exactly_its_share_of_the_publishers(crowd: Market) -> None:
    everyone = [*crowd.publishers, crowd.burst]
    days = [[p.quotes.event(day) for day in (0, 100, 700, 1258)] for p in everyone]
    publications = [[Publication("p", 1, 0, e, (), b"") for e in events] for events in days]
    for subscriber in crowd.subscribers[:150]:
        wanted = parse_filter(subscriber.filter)
        matched = [all(map(wanted.matches, events)) for events in publications]
        touched = [any(map(wanted.matches, events)) for events in publications]
        expected = [i in subscriber.matches for i in range(50)] + [subscriber.burst]
        assert matched == touched == expected
        assert len(subscriber.matches) == 2


def test_filters_are_conjunctions_of_seven_predicates_and_no_two_subscriptions_are_the_same(
    crowd: Market,
) -> None:
    texts = [subscriber.filter for subscriber in crowd.subscribers]
    assert len(set(texts)) == len(texts)
    for text in [*texts, *(publisher.advertisement for publisher in crowd.publishers)]:
        (conjunction,) = parse_filter(text).conjunctions
        assert len(conjunction.constraints) == 7


def test_publishers_have_symbols_of_their_own_and_stay_within_their_advertisements(
    crowd: Market,
) -> None:
    everyone = [*crowd.publishers, crowd.burst]
    assert len({publisher.quotes.symbol for publisher in everyone}) == 51
    for publisher in everyone:
        advertised = parse_filter(publisher.advertisement)
        for event in publisher.events(1300):
            assert advertised.matches(Publication("p", 1, 0, event, (), b""))


def test_the_burst_is_wanted_in_every_cluster_and_not_at_its_own_broker(crowd: Market) -> None:
    overlay = evaluation_overlay()
    wanted = [s for s in crowd.subscribers if s.burst]
    assert len(wanted) == 8
    assert {overlay.places[s.broker].cluster for s in wanted} == {0, 1, 2, 3}
    assert crowd.burst is not None
    assert crowd.burst.broker not in {s.broker for s in wanted}


def test_one_seed_gives_one_market() -> None:
    overlay = evaluation_overlay()
    sizes = {"publishers": 10, "subscribers": 30, "selectivity": 0.2}
    first, again = (market(overlay, seed=1, **sizes) for _ in range(2))
    assert first.subscribers == again.subscribers
    assert first.publishers[9].advertisement == again.publishers[9].advertisement
    assert market(overlay, seed=2, **sizes).subscribers != first.subscribers


def test_refuses_more_publishers_than_symbols() -> None:
    with pytest.raises(ConfigurationError, match="there are 500"):
        market(evaluation_overlay(), publishers=502, subscribers=0, seed=1)


def test_takes_symbols_from_the_file_first_and_makes_up_the_rest(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(STOCKS_VARIABLE, quotes_file(tmp_path, SHORTEST_DAYS))
    crowd = market(evaluation_overlay(), publishers=3, subscribers=0, seed=1)
    assert [p.quotes.symbol for p in crowd.publishers] == ["AB", "X000", "X001"]
