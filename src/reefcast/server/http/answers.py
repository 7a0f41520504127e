"""What answers each route of `reefcast.http.routes`, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from reefcast.server.http import durable, subscribing
from reefcast.server.http.asking import Answering
from reefcast.server.http.describing import openapi
from reefcast.server.http.past import explain, history
from reefcast.server.http.publishing import publish
from reefcast.server.http.sockets import events_or_socket

ANSWERS: Mapping[str, Answering] = {
    "publish": publish,
    "events": events_or_socket,
    "history": history,
    "listSessions": durable.list_sessions,
    "openSession": durable.open_session,
    "sessionState": durable.session_state,
    "closeSession": durable.close_session,
    "addSubscription": durable.add_subscription,
    "removeSubscription": durable.remove_subscription,
    "fetch": durable.fetch,
    "acknowledge": durable.acknowledge,
    "getSubscriptions": subscribing.get_subscriptions,
    "createSubscription": subscribing.create_subscription,
    "getSubscription": subscribing.get_subscription,
    "updateSubscription": subscribing.update_subscription,
    "deleteSubscription": subscribing.delete_subscription,
    "permitGet": subscribing.permit,
    "permitPost": subscribing.permit,
    "explain": explain,
    "openapi": openapi,
}
