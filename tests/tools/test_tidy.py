"""The structure of the source is checked, and each check finds what it is for."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("tidy", ROOT / "tools" / "tidy.py")
assert spec and spec.loader
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)


def test_every_package_has_a_layer() -> None:
    for package in tidy.PACKAGES:
        found = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
        assert found <= set(tidy.LEVELS[package.name])


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("reefcast.model.x", "from reefcast.routing import broker"),
        ("reefcast.client.x", "import reefcast.server.node"),
        ("reefcast.mqtt.x", "import reefcast.http.content"),
        ("reefcast.errors", "import reefcast.model.wire"),
        ("reefcast.sync", "def f():\n    from reefcast_lab.bench import live"),
        ("reefcast.cli.x", "import reefcast_lab.datasets"),
        ("reefcast_lab.demos.x", "from reefcast_lab.bench import live"),
    ],
)
def test_upward_imports_are_seen(module: str, source: str) -> None:
    assert list(tidy.upward(module, ast.parse(source)))


def test_the_laboratory_imports_the_product_and_what_is_below() -> None:
    source = "from reefcast.cli import options\nfrom reefcast_lab.demos import check"
    assert not list(tidy.upward("reefcast_lab.bench.x", ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "def f():\n    import time",
        "from random import choice",
        "import random\nrandom.random()",
        "import numpy as np\nnp.random.rand()",
        "import datetime\ndatetime.datetime.now()",
    ],
)
def test_impurity_in_the_core_is_seen(source: str) -> None:
    assert list(tidy.impure("reefcast.routing.x", ast.parse(source)))
    assert not list(tidy.impure("reefcast.server.x", ast.parse(source)))


def test_injected_randomness_is_allowed() -> None:
    source = "import random\ndef f(rng: random.Random) -> float:\n    return rng.random()"
    assert not list(tidy.impure("reefcast.routing.x", ast.parse(source)))


def test_big_rooms_are_seen() -> None:
    body = "def f():\n" + "    x = 1\n" * 80
    assert list(tidy.too_big(body, ast.parse(body)))
    assert list(tidy.too_big("\n" * 501, ast.parse("")))


# --- cycles ---------------------------------------------------------------------------------------


def cycles(**modules: str) -> list[str]:
    return list(tidy.cycles({f"p.{name}": ast.parse(text) for name, text in modules.items()}))


def test_a_module_that_imports_itself_by_a_detour_is_seen_with_the_way() -> None:
    (found,) = cycles(
        a="from p import b",
        b="from p.c import name",
        c="def f():\n    import p.a",
        d="import p.a, p.b, p.c",
    )
    modules = found.partition(":")[0].split(" imports ")
    assert len(modules) == 4 and modules[0] == modules[-1]
    after = dict(itertools.pairwise(modules))
    assert after == {"p.a": "p.b", "p.b": "p.c", "p.c": "p.a"}


def test_imports_of_types_count() -> None:
    assert cycles(a="if TYPE_CHECKING:\n    from p.b import B", b="import p.a")
    assert not cycles(a="if TYPE_CHECKING:\n    from p.b import B", b="import os, q.a")


def test_a_package_that_offers_what_its_modules_have_is_no_cycle() -> None:
    whole = {"p": "from p.a import A", "p.a": "from p import b", "p.b": ""}
    assert not list(tidy.cycles({name: ast.parse(text) for name, text in whole.items()}))


# --- lengths --------------------------------------------------------------------------------------


def functions(*lengths: int) -> list[ast.AST]:
    return [ast.parse("def f():\n" + "    x = 1\n" * (length - 1)) for length in lengths]


def test_half_of_the_functions_are_short() -> None:
    assert not list(tidy.long_median(functions(2, 3, 9, 60, 60)))
    assert list(tidy.long_median(functions(2, 3, 10, 60, 60))) == [
        "the median function has 10 lines; 9 at most"
    ]
    assert not list(tidy.long_median([]))


# --- docstrings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """The next hops."""',
        'async def f():\n    """Whether it is open."""',
        'class C:\n    def f(self):\n        """Those that are missing, which they are no more."""',
        'class C:\n    @classmethod\n    def f(cls):\n        """As `g`."""',
        'def f():\n    """Returns the next hops."""',
        'def _f():\n    """The next hops."""',
        'def f():\n    """"""',
    ],
)
def test_a_docstring_that_begins_without_a_verb_is_seen(source: str) -> None:
    (found,) = tidy.described("reefcast.model.x", ast.parse(source))
    assert "begin the docstring with a verb" in found


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Return the next hops."""',
        'class C:\n    """A link."""\n    @property\n    def f(self):\n        """Its end."""',
        'class C:\n    @functools.cached_property\n    def f(self):\n        """Its end."""',
        '@click.group(cls=Group)\ndef f():\n    """A network."""',
        "def f():\n    pass",
    ],
)
def test_other_docstrings_may_begin_with_a_noun(source: str) -> None:
    assert not list(tidy.described("reefcast.model.x", ast.parse(source)))


def test_only_private_functions_of_the_laboratory_need_no_verb() -> None:
    private, public = (ast.parse(f'def {f}():\n    """The next hops."""') for f in ("_f", "f"))
    assert not list(tidy.described("reefcast_lab.bench.x", private))
    assert list(tidy.described("reefcast_lab.bench.x", public))


@pytest.mark.parametrize(
    "source",
    [
        '"""Of one broker."""',
        'class C:\n    """Those: that are missing."""',
        'MOST = 7\n"""Of a run."""',
        'def f():\n    """Made when it is first asked for."""',
    ],
)
def test_a_docstring_without_a_subject_is_seen(source: str) -> None:
    (found,) = tidy.subjectless(ast.parse(source))
    assert "name its subject first" in found


def test_other_words_are_a_subject_or_a_verb() -> None:
    source = '"""The links of one broker."""\nx = "Of this"\n""\nclass C:\n    """Offers it."""\n'
    assert not list(tidy.subjectless(ast.parse(source)))


# --- what silences a checker ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "x = 1  # noqa\n",
        "x = 1  # noqa: F401\n",
        "x = 1  # noqa: F401, E501\n",
        "x = 1  # type: ignore\n",
        "x = 1  # type: ignore[arg-type, misc]\n",
        "x = 1  # pragma: no cover\n",
        "x = 1  # fmt: skip\n",
        "# fmt: off\nx = 1\n# fmt: on\n",
        "x = 1  # type: ignore[misc]  # noqa: F401\n",
        "# why\n\nx = 1  # noqa: F401\n",
        "x = 1  # why\ny = 1  # noqa: F401\n",
    ],
)
def test_a_checker_silenced_without_a_reason_is_seen(source: str) -> None:
    (found,) = tidy.silenced(source)
    assert re.match(r"\d: # (noqa|type|pragma|fmt).* has no reason", found)


@pytest.mark.parametrize(
    "source",
    [
        "x = 1  # noqa: F401 (loaded now)\n",
        "x = 1  # noqa: F401, E501  loaded now\n",
        "x = 1  # type: ignore[arg-type]  # these come without types\n",
        "# loaded now\nx = 1  # noqa: F401\n",
        "x = 1  # pragma: no cover (never here)\n",
        "x = 1  # fmt: skip # a table\n",
        "# a table\n# fmt: off\nx = 1\n# fmt: on\n",
        "x = '# noqa'\n",
        "x = 1  # nothing silenced\n",
    ],
)
def test_a_reason_is_seen(source: str) -> None:
    assert not list(tidy.silenced(source))


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ('[tool.ruff.lint]\nignore = [\n    "A1",  # why\n    "A2",\n]\nselect = ["B"]', [4]),
        ('ignore = ["A1"]\nselect = []', [1]),
        ('# why\nignore = ["A1"]', []),
        ('[tool.ruff.lint.per-file-ignores]\n"a" = ["A1"]\n# why\n"b" = ["A1"]\n[x]\ny = 1', [2]),
        ('[[tool.mypy.overrides]]\nmodule = "a"\nignore_missing_imports = true', [3]),
        ('[[tool.mypy.overrides]]\nmodule = "a"\nignore_errors = true  # why', []),
    ],
)
def test_settings_that_silence_say_why(settings: str, lines: list[int]) -> None:
    found = [int(finding.partition(":")[0]) for finding in tidy.silenced_settings(settings)]
    assert found == lines
