"""What two ends of a connection agree on."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.versions import Offer, agree

FEATURES = st.lists(st.sampled_from("abcd"), unique=True).map(tuple)
OFFERS = st.builds(
    lambda oldest, more, features: Offer(oldest + more, oldest, features),
    st.integers(1, 6),
    st.integers(0, 4),
    FEATURES,
)


@given(OFFERS, OFFERS)
def test_both_find_the_newest_version_that_both_speak(mine: Offer, theirs: Offer) -> None:
    common = set(range(mine.oldest, mine.version + 1)) & set(
        range(theirs.oldest, theirs.version + 1)
    )
    if not common:
        for ends in ((mine, theirs), (theirs, mine)):
            with pytest.raises(ProtocolError, match="version"):
                agree(*ends)
        return
    agreed = agree(mine, theirs)
    assert agreed == agree(theirs, mine)
    assert agreed.version == max(common)
    assert agreed.features == set(mine.features) & set(theirs.features)


@given(OFFERS)
def test_a_hello_of_any_version_can_be_asked_for_its_offer(offer: Offer) -> None:
    said = msgspec.to_builtins(offer) | {"role": "another kind of thing", "more": [1, 2]}
    assert wire.decode_offer(msgspec.msgpack.encode(said)) == offer


def test_a_hello_says_what_this_program_offers() -> None:
    hello = wire.hello(wire.Role.CLIENT, "c", "net", "s", credit=3)
    assert (hello.version, hello.oldest, hello.features) == (
        wire.OFFER.version,
        wire.OFFER.oldest,
        wire.OFFER.features,
    )
    payload = wire.encode(wire.FrameKind.HELLO, hello)[wire.HEAD_BYTES :]
    assert wire.decode_hello(payload) == hello
    assert wire.decode_offer(payload) == wire.OFFER
