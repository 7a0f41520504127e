"""A whole network as one process sees it, by asking all brokers: `NetworkView` (the overview,
pages, wishes), and `Following` (the paths of publications, hop by hop). The dashboard of the admin
listener and commands use it."""

from reefcast.server.view.asking import Asker, BrokerAsker, OwnAsker, askers_of
from reefcast.server.view.following import Following
from reefcast.server.view.network import NetworkView

__all__ = ["Asker", "BrokerAsker", "Following", "NetworkView", "OwnAsker", "askers_of"]
