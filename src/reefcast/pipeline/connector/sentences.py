"""Errors as sentences: Spark shows the traceback of Python, whose upper end, our own functions,
tells a user nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from reefcast.errors import ReefcastError

P = ParamSpec("P")
T = TypeVar("T")


def told(method: Callable[P, T]) -> Callable[P, T]:
    """Wrap a method so that errors of this package are raised without their traceback."""

    @wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> T:
        try:
            return method(*args, **named)
        except ReefcastError as error:
            raise error.with_traceback(None) from None

    return call


def told_later(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Wrap a generator as `told` wraps a method."""

    @wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*args, **named)
        except ReefcastError as error:
            raise error.with_traceback(None) from None

    return call
