"""A type checker knows the public API: correct programs pass `mypy --strict`, and it finds the
mistakes of wrong ones."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import reefcast

ROOT = Path(__file__).parents[2]

WRONG = """\
from dataclasses import dataclass
from typing import TypedDict

import msgspec

import reefcast


class Order(msgspec.Struct):
    price: float


@dataclass
class Trade:
    price: float


class Quote(TypedDict):
    price: float


async def main() -> None:
    async with reefcast.connect("reefcast://127.0.0.1", queue_limit="many") as client:  # arg-type
        async with reefcast.connect(7301) as other:  # arg-type
            print(other.nonsense)  # attr-defined
        reefcast.connect("reefcast://127.0.0.1", timeout=5)  # call-arg
        await client.publish(price=1, payload="text")  # arg-type
        subscription: reefcast.sync.Subscription = client.subscribe("TRUE")  # assignment
        async for event in client.subscribe("TRUE"):
            text: str = event["price"]  # assignment
            print(text + 1)  # operator
            quote: Quote = event.as_(Quote)
            prices: dict[str, float] = event.as_(dict[str, float])
            print(event.as_(Order).price + event.as_(Trade).price + quote["price"] + prices["a"])
            text = event.as_(Order).price  # assignment
            print(event.as_(Trade).nonsense)  # attr-defined
            order: Order = event.as_(Trade)  # assignment
            print(event.as_(order))  # arg-type
        await client.publish(Order(1.5), more=1)
        await client.publish(Trade(1.5))
        await client.publish(quote)
        await client.publish(Order)  # arg-type
        await client.publish(5)  # arg-type
    print(reefcast.Settings)  # attr-defined
    reefcast.sync.connect("reefcast://127.0.0.1").flush("soon")  # arg-type
"""


def mypy(directory: Path, *files: Path) -> list[str]:
    """Return what mypy says of these programs, which are not part of the package."""
    settings = directory / "mypy.ini"
    untyped = "[mypy-pyarrow.*]\nignore_missing_imports = True\n"  # it has no types
    settings.write_text(f"[mypy]\nstrict = True\n{untyped}")
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--no-error-summary"]
    done = subprocess.run(
        [*command, "--cache-dir", ROOT / ".mypy_cache" / "programs", *files],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.stdout.splitlines()


def test_the_wheel_says_that_it_is_typed_and_holds_what_the_package_holds(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("reefcast-*.whl")
    package = Path(reefcast.__file__).parent
    files = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "reefcast/py.typed" in files
    with zipfile.ZipFile(wheel) as content:
        shipped = {name for name in content.namelist() if name.startswith("reefcast/")}
    assert shipped == files


def test_the_examples_pass(tmp_path: Path) -> None:
    files = []
    for page in ("README.md", "docs/how-to/write-a-client.md", "docs/reference/values.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for number, source in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            files.append(tmp_path / f"{Path(page).stem.lower()}_{number}.py")
            files[-1].write_text(source, encoding="utf-8")
    assert len(files) > 5
    assert mypy(tmp_path, *files) == []


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG, encoding="utf-8")
    found = {
        (int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]"))
        for line in mypy(tmp_path, file)
        if ": error: " in line
    }
    expected = {
        (number, line.partition("  # ")[2])
        for number, line in enumerate(WRONG.splitlines(), start=1)
        if "  # " in line
    }
    assert found == expected
