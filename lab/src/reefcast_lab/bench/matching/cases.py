"""What the measurements of hard cases share: `worst` and `cliffs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from reefcast.errors import ConfigurationError
from reefcast.matching import warm_up
from reefcast.matching.memory import keep_no_small_pieces

T = TypeVar("T")
Clock = Callable[[], float]


def each_case(
    measure: Callable[[str, int], T],
    names: Iterable[str],
    sizes: Sequence[int],
    tell: Callable[[str], None],
) -> Iterator[T]:
    """Yield what `measure` returns for each case and number of filters, as a broker would have it:
    with its settings of memory, and with kernels that are compiled."""
    keep_no_small_pieces()
    warm_up()
    for name in names:
        for rows in sizes:
            tell(f"{name}, {rows:,} filters")
            yield measure(name, rows)


def case_of(known: Mapping[str, T], name: str) -> T:
    """Return the case of this name; raises `ConfigurationError` if there is none."""
    if name not in known:
        raise ConfigurationError(f"there is no case {name!r}; there are {', '.join(known)}")
    return known[name]


def timed_us(
    call: Callable[..., object], arguments: Iterable[tuple[Any, ...]], clock: Clock
) -> list[float]:
    """Return the microseconds of each call, by a clock of seconds."""
    times = []
    for each in arguments:
        begun = clock()
        call(*each)
        times.append((clock() - begun) * 1e6)
    return times
