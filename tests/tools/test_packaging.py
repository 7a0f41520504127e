"""What is installed: the client with msgspec, lark and click alone, from a wheel, in less than
16 MB; and the laboratory from a wheel of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from children import ended, line_of
from live_networks import path_network, running

ROOT = Path(__file__).parents[2]
MOST_BYTES = 16_000_000
"""How large Reefcast and its dependencies may be, with the bytecode that pip writes."""
MOST_PACKAGES = 20
"""How many modules of others a program with a client may have imported."""
BASE = [
    Requirement(each).name
    for each in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "dependencies"
    ]
]
"""The dependencies of the bare installation. Each is a package of the same name, and needs no
others (a test)."""
OWN = [key for key in os.environ if key.startswith("PYTHON")]
"""The variables that configure Python; the interpreters started here must find everything by
themselves."""

ALONE = f"""
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in {{"reefcast", *{BASE}, *sys.stdlib_module_names}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refused())
"""
"""A prelude that refuses to import what the bare installation lacks."""
COMMAND = "from reefcast.cli.main import main; main()"
CLIENT = """
import asyncio, sys
before = set(sys.modules)
import reefcast

async def main(url):
    async with reefcast.connect(url) as client:
        subscription = await client.subscribe("symbol = 'IBM' AND price < 100")
        await subscription.settled()
        await client.publish(symbol="IBM", price=98.5)
        async for event in subscription:
            print(event["price"])
            break
        try:
            await client.subscribe("price <")
        except reefcast.FilterSyntaxError:
            pass  # it is lark that says what is wrong with a filter

asyncio.run(main(sys.argv[1]))
with reefcast.sync.connect(sys.argv[1]) as client:
    client.publish(symbol="IBM", price=1)
names = {name.partition(".")[0] for name in set(sys.modules) - before}
names -= {"reefcast", *sys.stdlib_module_names}
print(*sorted(name for name in names if sys.modules[name].__spec__))  # Cython's own have none
"""
"""A program that publishes and receives an event, and then prints which modules of others it has
loaded."""


@asynccontextmanager
async def started(*command: object) -> AsyncIterator[Process]:
    """Run a program that our environment does not help; kill it at the end if it has not ended."""
    environment = {key: value for key, value in os.environ.items() if key not in OWN}
    process = await asyncio.create_subprocess_exec(
        *map(str, command), env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(*command: object) -> tuple[int | None, str, str]:
    """Run a program; return its exit code, output and errors."""
    async with started(*command) as process:
        return await ended(process)


async def run_here(program: str, *arguments: object) -> tuple[int | None, str, str]:
    """Run a program of this interpreter with the source of this checkout; otherwise as `run`."""
    found = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})"
    return await run(sys.executable, "-c", f"{found}\n{program}", *arguments)


# --- the client alone -----------------------------------------------------------------------------


@pytest.mark.parametrize("before", [ALONE, ""], ids=["alone", "with all installed"])
async def test_a_client_loads_few_packages(before: str) -> None:
    async with running(path_network(1)) as [url]:
        code, output, errors = await run_here(before + CLIENT, url)
    assert (code, errors) == (0, "")
    price, packages = output.splitlines()
    assert price == "98.5"
    assert len(packages.split()) < MOST_PACKAGES
    assert {"lark", "msgspec"} <= set(packages.split())  # nothing of them is left out above
    # What is taken where it is found: by msgspec the one, by the loop of reefcast.sync the other.
    assert set(packages.split()) <= {*BASE, "typing_extensions", "uvloop"}


def test_the_base_needs_nothing_else() -> None:
    needed = [Requirement(each) for name in BASE for each in distribution(name).requires or ()]
    assert not [each for each in needed if not each.marker or each.marker.evaluate({"extra": ""})]


@pytest.mark.parametrize(
    "command",
    ["publish", "subscribe", "session", "request", "reply", "history", "explain", "cesql"],
)
async def test_the_help_of_the_client_s_commands(command: str) -> None:
    code, output, errors = await run_here(ALONE + COMMAND, command, "--help")
    assert (code, errors) == (0, "")
    assert output.startswith(f"Usage: -c {command} ")


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (("broker", "NET", "b1"), "numpy", "broker"),
        (("network", "up", "NET"), "numpy", "broker"),
        (("simulate", "NET"), "numpy", "broker"),
        (("storage", "reefcast://127.0.0.1:1", "a", "--directory", "kept"), "numpy", "broker"),
        (("peer", "--listen", "127.0.0.1:1"), "numpy", "broker"),
        (("explain", "--plan", "a > 5"), "numpy", "broker"),
    ],
    ids=["broker", "up", "simulate", "storage", "peer", "plan"],
)
async def test_what_needs_an_extra_says_so(
    arguments: tuple[str, ...], package: str, extra: str, tmp_path: Path
) -> None:
    file = tmp_path / "net.toml"
    file.write_text('[[broker]]\nname = "b1"\nlisten = "127.0.0.1:1"\n', encoding="utf-8")
    given = [str(file) if each == "NET" else each for each in arguments]
    here = f"import os; os.chdir({str(tmp_path)!r})\n"
    code, _, errors = await run_here(here + ALONE + COMMAND, *given)
    [sentence] = errors.splitlines()
    assert code == 2
    assert f"needs more packages ({package} is not installed)" in sentence
    assert sentence.endswith(f"pip install 'reefcast[{extra}]'")


# --- the wheel and the sdist ----------------------------------------------------------------------

PAPERS = ("octopia", "covering", "mesh", "gossip", "storage")
"""The laboratory's folders with files that are no Python."""


def build(directory: Path, out: Path, *arguments: str) -> None:
    """Build as `make wheel` does."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *arguments]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a wheel and an sdist."""
    out = tmp_path_factory.mktemp("dist")
    build(ROOT, out)
    return out


def one(directory: Path, pattern: str) -> Path:
    [found] = directory.glob(pattern)
    return found


def test_the_sdist_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(one(built, "*.tar.gz"), tmp_path)
    build(one(tmp_path, "reefcast-*"), tmp_path / "again", "-t", "wheel")
    wheel = one(built, "*.whl")
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_wheel_has_the_files_of_the_dashboard(built: Path) -> None:
    folder = ROOT / "src" / "reefcast" / "server" / "web" / "static"
    wanted = {f"reefcast/server/web/static/{file.name}" for file in folder.iterdir()}
    with zipfile.ZipFile(one(built, "*.whl")) as wheel:
        assert {"index.html", "app.js"} <= {name.rpartition("/")[2] for name in wanted}
        assert wanted <= set(wheel.namelist())


def test_each_wheel_has_a_package_of_its_own(built: Path, tmp_path: Path) -> None:
    build(ROOT / "lab", tmp_path, "-t", "wheel")
    for folder, package in ((built, "reefcast"), (tmp_path, "reefcast_lab")):
        with zipfile.ZipFile(one(folder, "*.whl")) as wheel:
            files = set(wheel.namelist())
            entries = wheel.read(f"{package}-0.1.0.dist-info/entry_points.txt").decode()
        assert {file.partition("/")[0] for file in files} == {package, f"{package}-0.1.0.dist-info"}
        assert ("[pytest11]" in entries) is (package == "reefcast")
    # What is no Python, but read by it.
    assert {f"reefcast_lab/demos/templates/{name}.html.j2" for name in ("burst", "demo")} <= files
    papers = {f"reefcast_lab/experiments/{name}" for name in PAPERS}
    said = ("parameters.toml", "claims.toml", "page.toml", "notes.md")
    assert {f"{paper}/{name}" for paper in papers for name in said} <= files


@pytest.fixture
def bare(built: Path, tmp_path: Path) -> Path:
    """Return the directory of an environment of its own, with the wheel and what `pip install
    reefcast` would install: copied from here, so that no network is needed."""
    home = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        home / "bin/python",
    ]
    install = ["install", "--quiet", "--no-deps", "--no-index", one(built, "*.whl")]
    subprocess.run([*pip, *install], check=True)
    for name in BASE:
        for file in distribution(name).files or ():
            if ".." not in file.parts:  # those are programs
                copy = packages_of(home) / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.locate().read_bytes())
    # As pip does; where they were copied from, only what was imported has bytecode, and unlisted.
    compile_all = ["-m", "compileall", "-q", *(packages_of(home) / name for name in BASE)]
    subprocess.run([sys.executable, *compile_all], check=True)
    return home


def sizes_of(packages: Path) -> Counter[str]:
    """Return the bytes of each package, and of each part of Reefcast."""
    sizes = Counter[str]()
    for file in packages.rglob("*"):
        if file.is_file():
            parts = file.relative_to(packages).parts
            sizes["/".join(parts[: 2 if parts[0] == "reefcast" else 1])] += file.stat().st_size
    return sizes


def packages_of(home: Path) -> Path:
    return one(home, "lib/python*/site-packages")


async def test_a_wheel_in_an_empty_environment(bare: Path) -> None:
    reefcast = bare / "bin" / "reefcast"
    sizes = sizes_of(packages_of(bare))
    assert sum(sizes.values()) < MOST_BYTES, sizes.most_common()
    code, output, _ = await run(reefcast, "--help")
    assert (code, "Run a network:" in output) == (0, True)
    code, output, _ = await run(reefcast, "explain", "seats > 5", "seats=7")
    assert (code, output.splitlines()[0]) == (0, "event 1: matches: seats > 5 (seats = 7)")
    code, _, errors = await run(reefcast, "explain", "--plan", "seats > 5")
    assert (code, "pip install 'reefcast[broker]'" in errors) == (2, True)
    async with running(path_network(1)) as [url]:
        async with started(reefcast, "subscribe", url, "price < 100", "--count", 1) as reader:
            assert await line_of(reader.stderr) == b"reefcast: subscribed\n"
            code, _, errors = await run(reefcast, "publish", url, "symbol=IBM", "price=99.5")
            assert (code, errors.startswith("published 1 event in ")) == (0, True)
            code, output, _ = await ended(reader)
            assert (code, output.endswith("  symbol=IBM  price=99.5\n")) == (0, True)
        code, output, errors = await run(bare / "bin" / "python", "-c", CLIENT, url)
        assert (code, errors, output.splitlines()[0]) == (0, "", "98.5")
