"""Following the roles of a network file while a broker runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.network.file import load_network
from reefcast.network.watching import Watched
from reefcast.server.node import Node

log = logging.getLogger(__name__)

FOLLOW_S = 0.2
"""Seconds between two looks at the network file."""


async def follow_roles(node: Node, file: Path) -> None:
    """Have the broker grant for ever what the roles of the file say now. A file that cannot be read
    changes nothing; nor does one without roles, where all users might do everything: it may be half
    written. So it takes a restart to do without roles."""
    watched, roles = Watched(file, load_network), node.network.role
    while True:
        try:
            network = watched.look()
            if network is not None and roles and not network.role:
                raise ConfigurationError(
                    f"{file} has no [[role]] any more; restart the brokers to do without"
                )
            if network is not None and network.role != roles:
                roles = network.role
                node.regrant(roles)
                log.warning("broker %s: the roles of %s have changed", node.name, file)
        except ConfigurationError as error:
            log.error("broker %s: the roles stay as they are: %s", node.name, error)
        await asyncio.sleep(FOLLOW_S)
