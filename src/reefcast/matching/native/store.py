"""Machine code on disk. It is valid until something changes that it depends on: the modules of
kernels, numba and LLVM, this machine's processor, or Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

import msgspec

from reefcast.matching.native.directories import lasting, writable
from reefcast.matching.native.linking import Image

KERNELS = Path(__file__).parent.parent
"""The folder with all modules of kernels."""
LAYOUTS = tuple(
    KERNELS.parent / "model" / f"{module}.py" for module in ("frame_layout", "wire", "publication")
)
"""The modules that define the layout of frames and bodies for kernels."""
PROCESSOR = Path("/proc/cpuinfo")
DIGEST = 32


class Code(msgspec.Struct, frozen=True):
    """Machine code: an image, or an object file that only LLVM can load."""

    image: Image | None = None
    object_file: bytes = b""


_before_compiling: list[Callable[[], None]] = []
"""What is called, once, as soon as code is found not to be kept."""


@contextmanager
def before_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Have `tell` called once, in the thread that will wait, if code has to be compiled before the
    block ends."""
    _before_compiling.append(tell)
    try:
        yield
    finally:
        with suppress(ValueError):  # it was called
            _before_compiling.remove(tell)


def kept(batch: str, make: Callable[[], Code]) -> Code:
    """Return the kept code of a batch, or make it with `make` and keep it. One process makes it;
    others wait meanwhile. `batch`: part of a file's name.

    Raises `ConfigurationError` if it can be kept nowhere."""
    key = _key(KERNELS)
    name = f"{batch}.{sys.implementation.cache_tag}-{_machine()}.kernels"
    for directory in lasting():
        code = _read(directory / name, key)
        if code is not None:
            return code
    while _before_compiling:
        _before_compiling.pop()()
    path = writable() / name
    with path.with_suffix(".lock").open("wb") as lock:
        _wait_for(lock.fileno())
        code = _read(path, key)
        if code is None:
            code = make()
            _write(path, key, code)
    return code


def _read(path: Path, key: bytes) -> Code | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body = content[2 * DIGEST :]
    if content[: 2 * DIGEST] != key + _digest(body):
        return None
    return msgspec.msgpack.decode(body, type=Code)


def _write(path: Path, key: bytes, code: Code) -> None:
    """Write the file at once: other processes may read meanwhile."""
    body = msgspec.msgpack.encode(code)
    new = path.with_suffix(f".{os.getpid()}")
    try:
        new.write_bytes(key + _digest(body) + body)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _wait_for(lock: int) -> None:
    """Wait until no other process compiles; where files cannot be locked, several may do so."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)


def _digest(*parts: bytes) -> bytes:
    """Return a digest of the bytes, one after the other."""
    digest = blake2b(digest_size=DIGEST)
    for part in parts:
        digest.update(part)
    return digest.digest()


@cache
def _key(folder: Path) -> bytes:
    """Return a key that changes with any module of the folder, the source of the layout, and the
    compiler. It is the same for all batches of a process: reading all modules takes 5 ms."""
    modules = sorted(folder.rglob("*.py"))
    named = [str(path.relative_to(folder)).encode() + path.read_bytes() for path in modules]
    layouts = [path.read_bytes() for path in LAYOUTS]
    return _digest(*named, *layouts, _version("numba"), _version("llvmlite"))


def _version(package: str) -> bytes:
    """Return the version of a package without importing it, which takes long."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return b""
    with suppress(OSError):
        return Path(spec.origin).with_name("_version.py").read_bytes()
    return b"?"


def _machine() -> str:
    """Return a name of the processor: code for one may not run on another."""
    described = [os.uname().machine.encode()]
    with suppress(OSError), PROCESSOR.open("rb") as file:
        lines = file.read(16_384).split(b"\n\n", 1)[0].splitlines()
        told = (b"model", b"cpu family", b"vendor_id", b"flags", b"Features", b"CPU ")
        described += [line for line in lines if line.startswith(told)]
    return _digest(*described).hex()[:12]
