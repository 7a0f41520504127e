"""Flights to events: joins that neither drop nor multiply, UTC, order, missing values."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime

import pytest

from reefcast_lab.datasets import flights

pytestmark = pytest.mark.spark

FLIGHTS = """\
year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour
2013,7,1,10,2359,11,200,150,10,B6,1,N1,JFK,SFO,300,2586,23,59,2013-07-02T03:00:00Z
2013,1,1,NA,800,NA,NA,1000,NA,AA,2,NA,LGA,ORD,NA,733,8,0,2013-01-01T13:00:00Z
2013,1,1,755,800,-5,1000,1010,-10,UA,3,N2,EWR,ORD,120,719,8,0,2013-01-01T13:00:00Z
"""
WEATHER = """\
origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour
EWR,2013,1,1,8,39.02,26.06,59.37,270,10.36,NA,0,1012,10,2013-01-01T13:00:00Z
EWR,2013,1,1,8,39.02,26.06,59.37,270,10.36,NA,0,1012,10,2013-01-01T13:00:00Z
JFK,2013,7,1,23,NaN,26.06,59.37,NA,10.36,NA,0,NA,10,2013-07-02T03:00:00Z
"""
PLANES = """\
tailnum,year,type,manufacturer,model,engines,seats,speed,engine
N1,NA,Fixed wing multi engine,BOEING,737-824,2,149,NA,Turbo-fan
"""


@pytest.fixture
def events(spark, tmp_path):
    schemas = {
        "flights": (FLIGHTS, flights._FLIGHTS),
        "weather": (WEATHER, flights._WEATHER),
        "planes": (PLANES, flights._PLANES),
    }
    frames = {}
    for name, (text, schema) in schemas.items():
        path = tmp_path / f"{name}.csv"
        path.write_text(text)
        frames[name] = flights.read_csv(spark, str(path), schema)
    return flights.to_events(**frames)


def utc_us(*when):
    return int(datetime(*when, tzinfo=UTC).timestamp()) * 1_000_000


def test_events(events):
    found = events.select("event", "time_us", "carrier", "dep_time", "temp", "wind_dir", "model")
    assert [tuple(row) for row in found.collect()] == [
        (0, utc_us(2013, 1, 1, 12, 55), "UA", 755, 39.02, 270, None),
        (1, utc_us(2013, 1, 1, 13, 0), "AA", None, None, None, None),
        (2, utc_us(2013, 7, 2, 4, 10), "B6", 10, None, None, "737-824"),
    ]


def test_schema(events):
    assert events.columns == ["event", "time_us", *flights.ATTRIBUTES]
    assert len(flights.ATTRIBUTES) == 36
    assert {kind for _, kind in events.dtypes} == {"bigint", "double", "string"}


def test_data_of_the_package_is_found_without_importing_it():
    pytest.importorskip("pyspark")
    with zipfile.ZipFile(flights.find_data() / "flights.csv.zip").open("flights.csv") as lines:
        assert sum(1 for _ in lines) == 1 + flights.EVENT_COUNT
