"""Entries to machine code: the functions between a unit as numba compiles it and its callers.

Numba's functions return a status, and write their result to a given address. Units raise nothing:
they are called like C functions. The entries that Python calls are functions of its stable
interface (`METH_FASTCALL`), which take and return ints."""

from __future__ import annotations

from reefcast.matching.native.definitions import Unit


def entry_of(unit: Unit, symbol: str) -> str:
    """Return, in LLVM's language, the entry to a unit whose code is at `symbol`."""
    return _plain(unit, symbol) + (_python(unit) if unit.python else "")


def _plain(unit: Unit, symbol: str) -> str:
    given = [f"i64 %a{i}" for i in range(unit.arguments)]
    kind = "i64" if unit.returns else "void"
    types = ", ".join(["ptr", "ptr", *["i64"] * unit.arguments])
    passed = ", ".join(["ptr %result", "ptr %error", *given])
    done = ["%value = load i64, ptr %result", "ret i64 %value"] if unit.returns else ["ret void"]
    return _function(
        f"declare i32 @{symbol}({types})\ndefine {kind} @{unit.name}({', '.join(given)})",
        "%result = alloca i64",
        "%error = alloca ptr",
        f"%status = call i32 @{symbol}({passed})",
        *done,
    )


def _python(unit: Unit) -> str:
    """Convert an array of objects to integers, and the result to an object; return NULL if an
    argument is no integer, or is missing."""
    count = range(unit.arguments)
    read = [
        line
        for i in count
        for line in (
            f"%place{i} = getelementptr ptr, ptr %given, i64 {i}",
            f"%object{i} = load ptr, ptr %place{i}",
            f"%a{i} = call i64 @PyLong_AsLongLong(ptr %object{i})",
            f"%odd{i} = icmp eq i64 %a{i}, -1",
            f"%any{i + 1} = or i1 %any{i}, %odd{i}",
        )
    ]
    passed = ", ".join(f"i64 %a{i}" for i in count)
    if unit.returns:
        call = [
            f"%value = call i64 @{unit.name}({passed})",
            "%made = call ptr @PyLong_FromLongLong(i64 %value)",
            "ret ptr %made",
        ]
    else:
        call = [
            f"call void @{unit.name}({passed})",
            "call void @Py_IncRef(ptr @_Py_NoneStruct)",
            "ret ptr @_Py_NoneStruct",
        ]
    return _DECLARED + _function(
        f"define ptr @{unit.python_name}(ptr %self, ptr %given, i64 %count)",
        f"%right = icmp eq i64 %count, {unit.arguments}",
        "br i1 %right, label %read, label %wrong",
        "wrong:",
        "call i32 @PyErr_BadArgument()",
        "ret ptr null",
        "read:",
        "%any0 = or i1 false, false",
        *read,
        f"br i1 %any{unit.arguments}, label %doubt, label %call",
        "doubt:",
        "%error = call ptr @PyErr_Occurred()",
        "%fine = icmp eq ptr %error, null",
        "br i1 %fine, label %call, label %failed",
        "failed:",
        "ret ptr null",
        "call:",
        *call,
    )


_DECLARED = """
@_Py_NoneStruct = external global i8
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i32 @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare void @Py_IncRef(ptr)
"""


def _function(head: str, *lines: str) -> str:
    return f"{head} {{\n" + "\n".join(lines) + "\n}\n"
