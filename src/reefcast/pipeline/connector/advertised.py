"""A schema out of advertisements: the attributes that publishers say they send.

A number is a double, unless only whole numbers are advertised. Attributes that advertisements do
not name, or of which they only say that they are there, are not found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from reefcast.client import Options
from reefcast.client.address import Address, parse_addresses
from reefcast.client.settings import complete
from reefcast.errors import ConnectionLostError, ProtocolError
from reefcast.model.attribute_ranges import AttributeRange
from reefcast.model.looks import Advertised
from reefcast.model.publication import Value
from reefcast.model.values import Kind
from reefcast.pipeline.connector.columns import RESERVED
from reefcast.security.credentials import credentials_of
from reefcast.server.admin import admin_connection
from reefcast.tls.credentials import Asking, asking_context
from reefcast.tls.environment import completed
from reefcast.tls.files import TlsFiles

TYPES = {Kind.NUMBER: "DOUBLE", Kind.STRING: "STRING", Kind.BOOLEAN: "BOOLEAN"}
OF_TLS = ("authority", "certificate", "key", "server_name")


def advertised(url: str | None, options: Options, filter: str) -> list[AttributeRange]:
    """Return the attributes that are advertised of the events that match, as far as the user may
    see these. Raises `RefusedError` if that is nothing, and `ConnectionLostError`."""
    settings = complete(options)
    return asyncio.run(_advertised(parse_addresses(url), settings, filter))


async def _advertised(
    addresses: Iterable[Address], settings: Options, filter: str
) -> list[AttributeRange]:
    """Ask the brokers in turn, until one answers."""
    lost = ConnectionLostError("no address was tried")
    shown = credentials_of(settings)
    for address in addresses:
        try:
            tls = _asking(address, settings)
            async with admin_connection(address.host, address.port, tls, shown) as broker:
                told = await broker.look(Advertised(filter))
        except ConnectionLostError as error:
            lost = error
            continue
        try:
            return [AttributeRange.of_plain(each) for each in told["attributes"]]
        except (KeyError, ValueError) as error:
            raise ProtocolError(f"{address} answered with what is no list: {error}") from error
    raise lost


def _asking(address: Address, settings: Options) -> Asking | None:
    if not address.tls:
        return None
    given: dict[str, Any] = dict(settings)
    told = completed({name: given[name] for name in OF_TLS})
    server_name = told.pop("server_name")
    context = asking_context(TlsFiles(**told), hosts=True)
    return Asking(context, str(address), server_name=server_name)


def types_of(ranges: Iterable[AttributeRange]) -> dict[str, str]:
    """Return the types of attributes by name, as DDL has them. Of several kinds of one attribute
    the one that most advertisements name wins."""
    return {name: _type_of(each) for name, each in _chosen(ranges).items()}


def comments_of(ranges: Iterable[AttributeRange]) -> dict[str, str]:
    """Return the ranges of attributes in words, by name; "" for one without bounds."""
    return {name: _words(each) for name, each in _chosen(ranges).items()}


def _chosen(ranges: Iterable[AttributeRange]) -> dict[str, AttributeRange]:
    by_count = sorted(ranges, key=lambda each: -each.filters)
    chosen = {each.name: each for each in reversed(by_count) if each.name not in RESERVED}
    return dict(sorted(chosen.items()))


def _type_of(range: AttributeRange) -> str:
    members = range.members or ()
    whole = bool(members) and all(type(each) is int for each in members)
    return "BIGINT" if range.kind is Kind.NUMBER and whole else TYPES[range.kind]


def _shown(value: Value) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


def _words(range: AttributeRange) -> str:
    if range.members:
        return "one of " + ", ".join(map(_shown, range.members))
    low, high = range.low, range.high
    if low is None:
        return "" if high is None else f"up to {high}"
    return f"from {low}" if high is None else f"from {low} to {high}"
