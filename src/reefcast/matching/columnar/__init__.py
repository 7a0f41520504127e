"""Events as columns: kernels between the bodies of publications and the memory of Arrow."""

from importlib import import_module

# isort: off
import reefcast.matching.passage.kernels
import reefcast.matching.columnar.reading
import reefcast.matching.columnar.writing  # noqa: F401  # batches are made in this order

__all__ = ["warm_up"]


def warm_up() -> None:
    """Compile every kernel of columns, or load the kept code."""
    for module in ("choosing", "trimming"):
        import_module(f"{__name__}.{module}")
