"""Which filters name the topics of brokers, and which publications claim one."""

from __future__ import annotations

import pytest

from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.model.reserved import claims_reserved, names_reserved


@pytest.mark.parametrize(
    "filter",
    [
        "topic LIKE '$reefcast/%'",
        "topic LIKE '$reefcast/%/full' ESCAPE '\\'",
        "topic MATCHES '$reefcast/#'",
        "topic MATCHES '$reefcast/session/+'",
        "topic = '$reefcast/session/full'",
        "topic IN ('orders', '$reefcast/session/full')",
        "topic >= '$reefcast/a' AND topic < '$reefcast/b'",
        "price > 0 OR topic LIKE '$reefcast/%' AND session = 'billing'",
        "NOT (topic NOT LIKE '$reefcast/session/%')",
    ],
)
def test_filters_that_demand_a_reserved_topic_name_it(filter: str) -> None:
    assert names_reserved(parse_filter(filter))


@pytest.mark.parametrize(
    "filter",
    [
        "TRUE",
        "price > 0",
        "price IS NULL",
        "topic LIKE '%'",
        "topic LIKE '$%'",
        "topic MATCHES '#'",
        "topic > '$'",
        "topic >= '$reefcast/'",
        "topic NOT LIKE '$reefcast/%' AND price > 0",
        "topic <> '$reefcast/session/full'",
        "note = '$reefcast/session/full'",
        "topic = 'about $reefcast/'",
        "topic = '$reefcast'",
    ],
)
def test_filters_that_only_match_everything_do_not(filter: str) -> None:
    assert not names_reserved(parse_filter(filter))


def test_a_publication_claims_a_reserved_topic_by_its_topics_or_its_attribute() -> None:
    assert claims_reserved(Publication("p", 1, 0, {}, ("orders", "$reefcast/x")))
    assert claims_reserved(Publication("p", 1, 0, {"topic": "$reefcast/x"}))
    assert not claims_reserved(Publication("p", 1, 0, {"topic": 7, "note": "$reefcast/x"}, ("t",)))
