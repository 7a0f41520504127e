"""docs/reference/python.md: what `import reefcast` offers, from its signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import reefcast
import reefcast.cesql
import reefcast.sync
import reefcast.testing

INTRODUCTION = """\
# The Python interface

All that `import reefcast` offers, in the words of its docstrings; how it is used together, with
examples: [write a client](../how-to/write-a-client.md). The [matching
index](../explanation/matching.md), the [covering index](../explanation/covering-index.md) and the
[explanation of a match](../how-to/explain-a-match.md) may be used by themselves. Everything else in
modules may change without notice.

In signatures, `Value` is `int | float | bool | str`, and a `PublicationId` is a publisher's id with
a number, `tuple[str, int]`. `Attributes` are a `Mapping[str, object]`, a Struct of msgspec or an
instance of a dataclass.
"""


def page(note: str) -> str:
    """Return the whole page, as Markdown."""
    lines = [note, INTRODUCTION]
    for module in (reefcast, reefcast.cesql, reefcast.sync, reefcast.testing):
        for path, value in public_names(module):
            level = "##" if path.count(".") == module.__name__.count(".") + 1 else "###"
            lines += [f"{level} {path}\n", *_signature(value), documentation(value), ""]
    return "\n".join(lines).rstrip() + "\n"


def public_names(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield each name of `__all__`, and behind a class its methods and properties."""
    for name in sorted(module.__all__, key=lambda name: (name[0].islower(), name)):
        value = getattr(module, name)
        if isinstance(value, (str, ModuleType)):  # the version, and a module with names of its own
            continue
        yield f"{module.__name__}.{name}", value
        if inspect.isclass(value) and not issubclass(value, (Exception, dict)):
            yield from _members(f"{module.__name__}.{name}", value)


def _members(path: str, kind: type) -> Iterator[tuple[str, object]]:
    """Yield the public members of a class in the order of the source, its own first; the
    attributes of instances are described in its docstring."""
    seen: dict[str, object] = {}
    for base in kind.__mro__[:-1]:
        for name, value in vars(base).items():
            if not name.startswith("_") and (
                inspect.isfunction(value) or isinstance(value, property)
            ):
                seen.setdefault(name, value)
    yield from ((f"{path}.{name}", value) for name, value in seen.items())


def documentation(value: object) -> str:
    """Return the docstring; an overriding method without one has that of the method it
    overrides."""
    return inspect.getdoc(value) or ""


def _signature(value: object) -> Iterator[str]:
    """Yield the signature as a block of Python; constructors of classes are left out, because they
    are private."""
    if isinstance(value, property):
        assert value.fget is not None
        yield f"```python\n-> {inspect.get_annotations(value.fget)['return']}\n```\n"
    elif inspect.isfunction(value):
        signature = inspect.signature(value)
        parameters = [each for each in signature.parameters.values() if each.name != "self"]
        shown = re.sub("(: |-> )'(.*?)'", r"\1\2", str(signature.replace(parameters=parameters)))
        start = "async " if inspect.iscoroutinefunction(value) else ""
        yield f"```python\n{start}{value.__name__}{shown}\n```\n"
