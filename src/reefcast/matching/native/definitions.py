"""Descriptions of functions for numba, which imports nothing before numba asks for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

from reefcast.matching.native.llvm import types


class Definition(ABC):
    """A function that numba compiles, or the name of an existing one."""

    @property
    def _numba_type_(self) -> Any:
        """Return the numba type of the value; numba asks for it when a function refers to the
        value."""
        from numba.core.registry import cpu_target

        seen, context = self.seen, cpu_target.typing_context
        context.refresh()  # numba does not know a type that was just made
        return context.resolve_value_type(seen)

    @cached_property
    @abstractmethod
    def seen(self) -> Any:
        """Return the object that numba sees."""


class Part(Definition):
    """A function that is compiled into each of its callers."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def seen(self) -> Any:
        from numba import njit

        options: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        return njit(error_model="numpy", **options)(self._function)


class BuiltIn(Definition):
    """A function made of machine instructions, which `generator` writes."""

    def __init__(self, generator: Callable[..., Any]) -> None:
        self._generator = generator

    @cached_property
    def seen(self) -> Any:
        from numba.extending import intrinsic

        return intrinsic(self._generator)


class External(Definition):
    """An existing function called `name`, such as one of the C library. `signature`: its result and
    its arguments, each the name of a numba type."""

    def __init__(self, name: str, *signature: str) -> None:
        self.name = name
        self._signature = signature

    @cached_property
    def seen(self) -> Any:
        result, *arguments = (getattr(types, each) for each in self._signature)
        return types.ExternalFunction(self.name, result(*arguments))


class Unit(External):
    """A function of int64 that is compiled by itself, and called by others; it returns an int64 or
    nothing. `python`: Python calls it, and nobody else."""

    def __init__(self, function: Callable[..., Any], *, python: bool) -> None:
        self.function = function
        self.python = python
        self.arguments: int = function.__code__.co_argcount
        self.returns = function.__annotations__["return"] != "None"
        name = f"reefcast_{function.__module__}_{function.__name__}".replace(".", "_")
        result = "int64" if self.returns else "void"
        super().__init__(name, result, *["int64"] * self.arguments)

    @property
    def python_name(self) -> str:
        """Return the symbol that Python calls."""
        return f"python_{self.name}"
