"""Object files as images: machine code that runs anywhere in memory, once it has the addresses of
the functions that it calls.

LLVM writes object files, and each system has a linker for them; but where brokers run there may be
none. An object file of kernels uses a small part of the format: code, constants, and functions of
other libraries. This is a linker for that part, for ELF on x86-64; for anything else it raises
`Unlinkable`.

An image consists, in this order, of pages of code and constants, which are never written to, and of
pages of *slots* (an address for each external function) and variables."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

PAGE = 4096
LITTLE_64 = b"\x7fELF\x02\x01"
RELOCATABLE, X86_64 = 1, 62
IN_FILE, SYMBOLS, RELOCATIONS, ZEROS = 1, 2, 4, 8
"""Types of sections: bytes of the file, the table of symbols, relocations, and zeros."""
WRITTEN, LOADED = 1, 2
"""Bits of a section's flags: it is written to; it is loaded into memory."""
RELATIVE, CALL, SLOTS = 2, 4, (9, 41, 42)
"""Types of relocations, in the ABI of x86-64: R_X86_64_PC32, _PLT32, and _GOTPCREL with its
variants."""
JUMP = b"\xff\x25"
"""`jmp *offset(%rip)`; the offset follows."""


class Unlinkable(Exception):
    """The object file contains something that only a real linker supports."""


class Image(msgspec.Struct, frozen=True):
    """Memory of machine code: the first `fixed` bytes are never written to. `slots`: the name of
    the function for each slot; `symbols`: where each symbol begins."""

    memory: bytes
    fixed: int
    slots: dict[str, int]
    symbols: dict[str, int]


def link(code: bytes) -> Image:
    """Make an image of an object file."""
    return _Linker(_ObjectFile(code)).image()


class _Section(NamedTuple):
    kind: int
    flags: int
    offset: int
    size: int
    link: int  # a table of symbols: the section with their names
    target: int  # relocations: the section that they are for
    align: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


class _Relocation(NamedTuple):
    """A reference to be written into a section, at an offset: the distance from there to a
    symbol."""

    section: int
    offset: int
    kind: int
    symbol: _Symbol
    addend: int


class _ObjectFile:
    def __init__(self, code: bytes) -> None:
        if code[:6] != LITTLE_64 or struct.unpack_from("<HH", code, 16) != (RELOCATABLE, X86_64):
            raise Unlinkable("no object file of ELF for x86-64")
        self.code = code
        self.sections = list(self._read_sections())
        self.symbols = list(self._read_symbols())
        self.relocations = list(self._read_relocations())

    def bytes_of(self, section: _Section) -> bytes:
        if section.kind == ZEROS:
            return bytes(section.size)
        return self.code[section.offset : section.offset + section.size]

    def _read_sections(self) -> Iterator[_Section]:
        (start,) = struct.unpack_from("<Q", self.code, 40)
        size, count = struct.unpack_from("<HH", self.code, 58)
        for at in range(start, start + count * size, size):
            words = struct.unpack_from("<IIQQQQIIQQ", self.code, at)
            _, kind, flags, _, offset, length, link, target, align, _ = words
            yield _Section(kind, flags, offset, length, link, target, align)

    def _read_symbols(self) -> Iterator[_Symbol]:
        for table in self.sections:
            if table.kind == SYMBOLS:
                names = self.sections[table.link].offset
                for at in range(table.offset, table.offset + table.size, 24):
                    name, _, _, section, value = struct.unpack_from("<IBBHQ", self.code, at)
                    end = self.code.index(b"\0", names + name)
                    yield _Symbol(self.code[names + name : end].decode(), section, value)

    def _read_relocations(self) -> Iterator[_Relocation]:
        for table in self.sections:
            if table.kind == RELOCATIONS:
                for at in range(table.offset, table.offset + table.size, 24):
                    offset, kind, symbol, addend = struct.unpack_from("<QIIq", self.code, at)
                    yield _Relocation(table.target, offset, kind, self.symbols[symbol], addend)


class _Linker:
    def __init__(self, file: _ObjectFile) -> None:
        self._file = file
        self._memory = bytearray()
        self._places: dict[int, int] = {}  # of sections
        self._stubs: dict[str, int] = {}
        self._slots: dict[str, int] = {}

    def image(self) -> Image:
        self._place_sections(0)
        relocations = [each for each in self._file.relocations if self._is_loaded(each.section)]
        for name in sorted({each.symbol.name for each in relocations if self._is_outside(each)}):
            self._align(8)
            self._stubs[name] = len(self._memory)
            self._memory += JUMP + bytes(4)
        self._align(PAGE)
        fixed = len(self._memory)
        for name, stub in self._stubs.items():
            self._slots[name] = len(self._memory)
            self._memory += bytes(8)
            self._write(stub + len(JUMP), self._slots[name], -4)
        self._place_sections(WRITTEN)
        self._align(PAGE)
        for each in relocations:
            self._write(self._places[each.section] + each.offset, self._way(each), each.addend)
        return Image(bytes(self._memory), fixed, self._slots, self._symbols())

    def _is_loaded(self, number: int) -> bool:
        """Return whether a section is loaded. Tables for unwinding are not: only languages that
        raise need them."""
        section = self._file.sections[number]
        return section.kind in {IN_FILE, ZEROS} and bool(section.flags & LOADED)

    def _is_outside(self, relocation: _Relocation) -> bool:
        return not relocation.symbol.section

    def _place_sections(self, flags: int) -> None:
        for number, section in enumerate(self._file.sections):
            if self._is_loaded(number) and section.flags & WRITTEN == flags:
                self._align(section.align)
                self._places[number] = len(self._memory)
                self._memory += self._file.bytes_of(section)

    def _way(self, relocation: _Relocation) -> int:
        """Return the distance that a relocation stands for."""
        symbol, kind = relocation.symbol, relocation.kind
        if self._is_outside(relocation):
            if kind == CALL:
                return self._stubs[symbol.name]
            if kind in SLOTS:
                return self._slots[symbol.name]
        elif kind in {RELATIVE, CALL} and symbol.section in self._places:
            return self._places[symbol.section] + symbol.value
        raise Unlinkable(f"relocation {kind} for {symbol.name!r}")

    def _write(self, at: int, target: int, addend: int) -> None:
        struct.pack_into("<i", self._memory, at, target + addend - at)

    def _align(self, size: int) -> None:
        self._memory += bytes(-len(self._memory) % max(1, size))

    def _symbols(self) -> dict[str, int]:
        return {
            symbol.name: self._places[symbol.section] + symbol.value
            for symbol in self._file.symbols
            if symbol.name and symbol.section in self._places
        }
