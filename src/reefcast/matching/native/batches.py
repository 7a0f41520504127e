"""Batches: units of a module and of those that it imports, compiled, kept and loaded together.

A unit belongs to the first batch that is made after it was defined. So that every program has the
same batches, and compiles none that another one has kept, whatever it imports first, what makes the
batches below is imported before anything that defines units: the packages `passage` and `columnar`
do so and then make their own, the modules of `cover` begin with the index's `engine`."""

from __future__ import annotations

import logging
from hashlib import blake2b

from reefcast.matching.native.definitions import Unit
from reefcast.matching.native.linking import Unlinkable, link
from reefcast.matching.native.loading import load, python_function
from reefcast.matching.native.store import Code, kept

_log = logging.getLogger("reefcast.matching")
_addresses: dict[str, int] = {}
"""The addresses of the units of all batches so far."""


class Batch:
    """Units that were defined, and are not compiled yet."""

    def __init__(self) -> None:
        self._units: list[Unit] = []

    def add(self, unit: Unit) -> Unit:
        self._units.append(unit)
        return unit

    def make(self) -> None:
        """Compile the units, or load their kept code; those that Python calls replace their
        definitions."""
        units, self._units = self._units, []
        if not units:
            return
        code = kept(_name(units), lambda: _compile(units))
        _addresses.update(_load(code, units))
        for unit in units:
            if unit.python:
                name = unit.function.__name__
                made = python_function(name, _addresses[unit.python_name])
                unit.function.__globals__[name] = made


def _name(units: list[Unit]) -> str:
    """Return the name of the last module, with a digest of which units there are: a program that
    imports a module by itself has batches of its own."""
    names = " ".join(sorted(unit.name for unit in units))
    return f"{units[-1].function.__module__}-{blake2b(names.encode(), digest_size=6).hexdigest()}"


def _compile(units: list[Unit]) -> Code:
    from reefcast.matching.native.compiling import object_code

    code = object_code(units, _addresses)
    try:
        return Code(image=link(code))
    except Unlinkable as error:
        _log.debug("LLVM loads the kernels of %s: %s", units[-1].function.__module__, error)
        return Code(object_file=code)


def _load(code: Code, units: list[Unit]) -> dict[str, int]:
    if code.image is not None:
        return load(code.image, _addresses)
    from reefcast.matching.native.llvm_loading import load_object

    names = [unit.name for unit in units] + [unit.python_name for unit in units if unit.python]
    return load_object(code.object_file, _addresses, names)
