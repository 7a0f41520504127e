"""Where a client asks again when the storage that answered is gone."""

from __future__ import annotations

from unittest.mock import Mock

from reefcast.client.history import History
from reefcast.history.asking import Numbers, question_about
from reefcast.history.messages import End, Find, Found, Items, Part, Request
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication
from reefcast.timing import now_us


def test_a_long_past_is_not_asked_for_twice() -> None:
    """Only what is younger than a minute may have come late to the storage that is gone."""
    session = Mock(numbers=Numbers("c"))
    History(session, question_about("topic = 't'", handover_s=1.0), 1.0).start()
    asking = session.ask.call_args.args[0]
    asking.start()
    asking.handle(Found(number=1, parts=(Part("s", 1, ("t",)),)))
    an_hour_ago_us = now_us() - 3_600_000_000
    for number, time_us in enumerate((an_hour_ago_us, now_us())):
        made = encode_publication(Publication("p", number, time_us, {}, ("t",)))
        path = ("c", "b", "s")
        asking.handle(Items(id=("c", 2 + 2 * number), path=path, at=0, before=0, bodies=(made,)))
        end = End(id=("c", 2 + 2 * number), path=path, at=0, before=1, reason="gone")
        [find] = asking.handle(end)
        assert isinstance(find, Find)
        [request] = asking.handle(Found(number=find.number, parts=(Part("s", 1, ("t",)),)))
        assert isinstance(request, Request) and request.after is not None
        if not number:
            assert request.after == (an_hour_ago_us, "p", 0)
    assert an_hour_ago_us < request.after[0] < now_us() - 55_000_000
