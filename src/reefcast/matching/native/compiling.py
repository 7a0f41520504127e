"""Units as machine code: numba translates them, and LLVM compiles a whole batch as one module.

Nothing here is imported when the code is kept already."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from llvmlite import binding
from numba.core import compiler, registry, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]  # it has no types

from reefcast.matching.native.definitions import Unit
from reefcast.matching.native.entries import entry_of

_OPTIONS = {"nopython": True, "error_model": "numpy"}


@global_compiler_lock  # type: ignore[untyped-decorator]  # as above
def object_code(units: Sequence[Unit], known: Iterable[str]) -> bytes:
    """Compile the units, in their order, into an object file for this machine. `known`: the names
    of units of earlier batches."""
    names = {unit.name for unit in units}
    _promise({*known, *names})
    whole = binding.parse_assembly("")
    for unit in units:
        module, symbol = _read(unit)
        whole.link_in(module, preserve=True)
        whole.link_in(binding.parse_assembly(entry_of(unit, symbol)))
    _hide_all_but(whole, names | {unit.python_name for unit in units if unit.python})
    machine = _machine()
    _optimize(whole, machine)
    code: bytes = machine.emit_object(whole)
    return code


class _Reader(_FunctionCompiler):  # type: ignore[misc]  # as above
    """A numba compiler that produces LLVM's language, and no machine code."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = True
        flags.no_cfunc_wrapper = True
        flags.no_compile = True
        return flags


def _promise(names: Collection[str]) -> None:
    """Declare the names to LLVM, because numba has it resolve the references of a part when it
    compiles the part by itself, although that code never runs. Running it would end the process."""
    nowhere = ctypes.cast(ctypes.pythonapi.abort, ctypes.c_void_p).value
    for name in names:
        binding.add_symbol(name, nowhere)


def _read(unit: Unit) -> tuple[Any, str]:
    """Return a module with the unit and all its parts, and the unit's symbol in it."""
    result = types.int64 if unit.returns else types.void
    reader = _Reader(unit.function, registry.cpu_target, _OPTIONS, {}, compiler.Compiler)
    read = reader.compile((types.int64,) * unit.arguments, result)
    module = read.library._final_module
    for part in dict.fromkeys(read.library._linking_libraries):
        module.link_in(part._get_module_for_linking(), preserve=True)
    return module, read.fndesc.mangled_name


def _hide_all_but(module: Any, names: Collection[str]) -> None:
    """Make all other functions of the module private, so that LLVM may inline them or leave them
    out."""
    for each in [*module.functions, *module.global_variables]:
        if not each.is_declaration and each.name not in names:
            each.linkage = "internal"


def _machine() -> Any:
    """Return this machine as numba sees it, for code that may lie anywhere in memory."""
    targets = registry.cpu_target.target_context.codegen()
    _, name, features = targets.magic_tuple()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="default"
    )


def _optimize(module: Any, machine: Any) -> None:
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
