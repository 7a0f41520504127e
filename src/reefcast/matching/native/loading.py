"""Images in memory, and their functions as Python functions.

A process may not write to memory that it executes: so an image is written first, and then
protected."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Mapping
from typing import Any

from reefcast.matching.native.linking import Image

METH_FASTCALL = 0x80
"""A flag of Python's stable interface: the function gets an array of its arguments, and their
number."""

_kept: list[Any] = []
"""Objects that must stay alive: the memory of code, and the descriptions of its functions."""


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


_protect = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, use_errno=True
)(("mprotect", ctypes.pythonapi))
_make_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(_Method), ctypes.c_void_p, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))


def load(image: Image, known: Mapping[str, int]) -> dict[str, int]:
    """Load an image into memory; return the addresses of its symbols. `known`: addresses of
    functions that it may call, besides those of Python and of the C library.

    Raises `OSError` if this process may not execute what it wrote, `LookupError` if a function is
    missing."""
    memory = mmap.mmap(-1, len(image.memory), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = image.memory
    for name, slot in image.slots.items():
        struct.pack_into("=Q", memory, slot, known.get(name) or _address(name))
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _protect(start, image.fixed, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "machine code that was written may not be run")
    _kept.append(memory)
    return {name: start + offset for name, offset in image.symbols.items()}


def _address(name: str) -> int:
    if name == "_Py_NoneStruct":
        return id(None)
    try:
        found = getattr(ctypes.pythonapi, name)
    except AttributeError as error:
        raise LookupError(f"no library has a function {name!r}") from error
    return int(ctypes.cast(found, ctypes.c_void_p).value or 0)


def python_function(name: str, address: int) -> Callable[..., Any]:
    """Make a Python function of machine code that takes an array of objects (`entries`)."""
    method = _Method(name.encode(), address, METH_FASTCALL, None)
    _kept.append(method)
    made: Callable[..., Any] = _make_function(ctypes.byref(method), None, None)
    return made
