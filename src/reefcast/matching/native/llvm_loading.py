"""Object files loaded by LLVM itself: its library takes 70 MB, but supports every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llvmlite import binding

_engines: list[Any] = []  # own the code


def load_object(code: bytes, known: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    """Load an object file into memory; return the addresses of the functions of these names.
    `known`: addresses of functions that it may call."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for name, address in known.items():
        binding.add_symbol(name, address)
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return {name: engine.get_function_address(name) for name in names}
