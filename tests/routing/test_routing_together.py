"""One answer for consecutive publications says what one for each said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.messages import MOST_MORE, Confirmed, Send, Settled
from reefcast.routing.together import together

ANSWERS = st.builds(
    Confirmed,
    st.sampled_from("pq"),
    st.integers(1, 6),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from(["", "full"]),
)
EFFECTS = st.builds(Send, st.sampled_from("ab"), ANSWERS | st.builds(Settled, st.integers(1, 3)))


@given(st.lists(EFFECTS))
def test_answers_together_say_what_they_said_one_by_one(effects: list[Send]) -> None:
    said = [
        Send(send.link, each)
        for send in together(effects)
        for each in (
            send.message.each() if isinstance(send.message, Confirmed) else (send.message,)
        )
    ]
    assert said == effects


def test_consecutive_publications_are_confirmed_with_one_answer() -> None:
    answers = [Send("a", Confirmed("p", seq, 1)) for seq in range(5, 5 + 2 * MOST_MORE)]
    counts = [
        send.message.more + 1 for send in together(answers) if isinstance(send.message, Confirmed)
    ]
    assert sum(counts) == 2 * MOST_MORE and len(counts) == 2
