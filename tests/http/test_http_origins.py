"""From which pages requests may come."""

from __future__ import annotations

import pytest

from reefcast.http.origins import Origins
from reefcast.http.problems import HttpError

HERE = "broker.example:8080"


def may(origins: Origins, origin: str | None, host: str = HERE) -> bool:
    try:
        origins.check(origin, host)
    except HttpError as error:
        assert error.problem.status == 403
        return False
    return True


def test_programs_and_own_pages_may() -> None:
    origins = Origins([])
    assert may(origins, None)
    assert may(origins, f"http://{HERE}")
    assert may(origins, f"https://{HERE.upper()}")
    for other in ("https://x", "null", "", "http://broker.example", "http://[::1", "x"):
        assert not may(origins, other)
    assert not may(origins, "null", "")
    assert origins.headers("https://x") == {}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_pages_send_without_an_origin(site: str) -> None:
    with pytest.raises(HttpError, match="allow_origins"):
        Origins(["https://app.example"]).check_site(None, site)
    Origins([]).check_site("https://app.example", site)  # judged by its origin
    Origins(["*"]).check_site(None, site)
    for own in ("same-origin", "none", ""):
        Origins([]).check_site(None, own)


def test_allowed_pages_may_and_may_read() -> None:
    origins = Origins(["https://App.example/"])
    assert may(origins, "https://app.example")
    shown = origins.headers("https://app.example")
    assert (shown["Access-Control-Allow-Origin"], shown["Vary"]) == (
        "https://app.example",
        "Origin",
    )
    assert origins.headers("https://x") == origins.headers(None) == {"Vary": "Origin"}
    assert not may(origins, "https://x")


def test_all_pages() -> None:
    origins = Origins(["*"])
    assert may(origins, "null")
    assert origins.headers("https://x")["Access-Control-Allow-Origin"] == "https://x"


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [("ce-id, ce-type", "ce-id, ce-type"), ("", None), ("a\nb", None), ("a" * 2000, None)],
)
def test_preflight(asked: str, allowed: str | None) -> None:
    headers = {"Origin": "https://x", "Access-Control-Request-Headers": asked}
    answer = Origins(["*"]).preflight(headers, ["GET", "POST"])
    assert answer["Access-Control-Allow-Methods"] == "GET, POST, OPTIONS"
    usual = "Authorization, Content-Type, Last-Event-ID"
    assert answer["Access-Control-Allow-Headers"] == (allowed or usual)
    assert Origins([]).preflight(headers, ["GET"]) == {"Allow": "GET, OPTIONS"}
