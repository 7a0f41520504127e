"""Signs between the ends of a simulated soft link (see `soft_links`)."""

from __future__ import annotations

import msgspec

from reefcast.model.messages import Control, LinkName, Publish


class SoftUp(Control, frozen=True, tag="soft-up"):
    """The broker `source` has opened its direction."""

    source: LinkName


class SoftDown(Control, frozen=True, tag="soft-down"):
    """The broker `source` will send nothing more."""

    source: LinkName


class SoftGone(msgspec.Struct, frozen=True):
    """The link to `source` was cut, which is no message: `lost` was not acknowledged."""

    source: LinkName
    lost: tuple[Publish, ...] = ()


SIGNS = (SoftUp, SoftDown, SoftGone)
