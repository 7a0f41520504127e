"""The subscriptions of an MQTT client, as they come and go."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.effort import FilterLimits
from reefcast.mqtt.packets import MQTT_5, TopicRequest
from reefcast.mqtt.subscribing import subscription_of
from reefcast.mqtt.subscriptions import Subscription, Subscriptions, Way

LIMITS = FilterLimits(2400, 100, 200)
changes = st.tuples(
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(("put", "put", "remove")),
    st.sampled_from((Way.PASSING, Way.PASSING, Way.OWED)),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0, 0, 7)),
)


@given(st.lists(changes, max_size=12))
def test_what_is_known_of_all_of_them(
    changes: list[tuple[str, str, Way, bool, bool, int]],
) -> None:
    """The shapes are those of the passing ones that want the client's own events; all is plain if
    every passing one has a shape, and none an identifier."""
    many, numbers = Subscriptions(), count(1)
    known: dict[str, Subscription] = {}
    for topic_filter, what, way, no_local, as_published, identifier in changes:
        if what == "remove":
            assert many.remove(topic_filter) is known.pop(topic_filter, None)
        else:
            request = TopicRequest(
                topic_filter, no_local=no_local, retain_as_published=as_published
            )
            wanted = subscription_of(topic_filter, (), LIMITS)
            subscription = Subscription(request, wanted, identifier, way)
            subscription.served = (0 if way is Way.PASSING else 1, next(numbers))
            assert many.put(subscription) is known.get(topic_filter)
            known[topic_filter] = subscription
        passing = [each for each in known.values() if each.way is Way.PASSING]
        assert many.shapes == {
            each.served[1]: (
                MQTT_5,
                each.request.retain_as_published,
                (each.identifier,) if each.identifier else (),
            )
            for each in passing
            if not each.request.no_local
        }
        is_plain = not any(each.request.no_local or each.identifier for each in passing)
        assert many.is_plain is (bool(passing) and is_plain)
        assert {each.topic_filter for each in many} == set(known)
