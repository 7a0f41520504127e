"""The packages that `pip install reefcast` does not install, and the extras that do.

The client library and its commands need msgspec, lark and click alone. Everything else is imported
where it is used, and a missing package is reported in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reefcast.errors import LocalError

_BROKER = (
    *("aiohttp", "networkx", "numba", "numpy", "prometheus-client", "pyarrow", "pyyaml", "rich"),
    *("tomlkit", "uvloop", "xxhash"),
)
_SPARK = ("jinja2", "matplotlib", "pandas", "pyspark")
_SECURITY = ("argon2-cffi", "cryptography", "joserfc")
EXTRAS = {
    **dict.fromkeys(_SECURITY, "security"),
    **dict.fromkeys(_BROKER, "broker"),
    **dict.fromkeys(_SPARK, "spark"),
    "scipy": "plan",
}
"""The extra that brings a package, as in pyproject.toml (a test compares them)."""
_OF_MODULES = {"argon2": "argon2-cffi", "prometheus_client": "prometheus-client", "yaml": "pyyaml"}
"""Packages whose module has another name."""


@contextmanager
def extra_for(what: str) -> Iterator[None]:
    """Raise `LocalError`, which names the extra that `what` needs, if the block misses a package of
    one; other missing packages raise as usual."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        package = _OF_MODULES.get(module, module)
        if package not in EXTRAS:
            raise
        raise LocalError(
            f"{what} needs more packages ({package} is not installed): "
            f"pip install 'reefcast[{EXTRAS[package]}]'"
        ) from error
