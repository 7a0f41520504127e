"""The examples of README.md, write-a-client.md and values.md do what they say; together these pages
name the whole public API."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reefcast
from live_networks import path_network, running

ROOT = Path(__file__).parents[2]
PAGES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "docs" / "how-to" / "write-a-client.md",
        ROOT / "docs" / "reference" / "values.md",
    )
}
DURABLE = ROOT / "docs" / "how-to" / "use-durable-sessions.md"
GUIDE = PAGES["write-a-client"] + PAGES["values"] + DURABLE.read_text(encoding="utf-8")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
EXAMPLES = {
    f"{page}-{number}": source
    for page, text in PAGES.items()
    for number, source in enumerate(PYTHON.findall(text), start=1)
}
OUTPUTS = {
    "README-1": r"IBM 99\.5\n",
    "README-2": r"99\.5 \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+00:00\n",
    "write-a-client-1": r"IBM 99\.5\n",
    "write-a-client-2": r"IBM 99\.5\n",
    "write-a-client-3": r"plant-7-[\w-]+ has published event 1\n",
    "values-1": r"{'placed': 1769860800000000, 'price': 9\.95, 'side': 'buy', "
    r"'customer\.name': 'Ana', 'customer\.country': 'PT'}\n"
    r"2026-01-31 12:00:00\+00:00 9\.95 Side\.BUY Ana\n",
    "write-a-client-4": r"\(\"dest = 'LAX'\", \"carrier IN \('UA', 'DL'\)\"\)\n"
    r"Event\(.*'LAX', 'carrier': 'UA'}\)\n",
    "write-a-client-5": r"99\.5 after 0 dropped events\n99\.5 and none is dropped\n",
    "write-a-client-6": r"2 events from number 3\n"
    r"\['on', 'symbol', 'price'\] double\n"
    r"\[{'on': \[\], 'symbol': 'IBM', 'price': 99\.5}, "
    r"{'on': \['fx'\], 'symbol': 'SAP', 'price': 120\.0}, "
    r"{'on': \['fx'\], 'symbol': None, 'price': 130\.0}\]\n",
    "write-a-client-7": r"1000 events for the filter with number 1\n",
    "write-a-client-8": r"(nobody answers yet\n)*IBM 99\.5\nSAP 99\.5\n",
    "write-a-client-9": r"line 1, column 8: expected an attribute\n"
    r"attribute 'price' has the value \[1, 2\] of type list.*\n"
    r"publication 1 was refused: .*\n",
    "write-a-client-10": r"True\nFalse\n",
    "write-a-client-11": r"21\.5\n\d+\.\d+\.\d+\n",
}


def test_every_example_is_run() -> None:
    assert set(EXAMPLES) == set(OUTPUTS)


@pytest.mark.parametrize("name", OUTPUTS)
async def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(path_network(2)) as urls, asyncio.timeout(30):
        source = EXAMPLES[name]
        for port, url in zip((7301, 7302), urls, strict=True):
            source = source.replace(f"reefcast://127.0.0.1:{port}", url)
        code = compile(source, f"example {name}", "exec", dont_inherit=True)  # our __future__
        await asyncio.to_thread(exec, code, {"__name__": "example"})
    assert re.fullmatch(OUTPUTS[name], capsys.readouterr().out)


@pytest.mark.parametrize("name", reefcast.__all__)
def test_every_public_name_is_shown(name: str) -> None:
    assert re.search(rf"\b{name}\b", GUIDE), f"the guide does not show {name}"


def resolved(path: str) -> object:
    """Return what a dotted path of a page names. Raises `AttributeError` if there is no such
    thing."""
    value: object = reefcast
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


REFERENCE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"\breefcast(?:\.[A-Za-z]\w*)+", REFERENCE + GUIDE)))
)
def test_all_that_the_reference_names_exists(path: str) -> None:
    if not path.startswith("reefcast.client"):  # the logger
        assert resolved(path) is not None


def test_every_public_name_is_documented() -> None:
    """This runs in a process of its own, because `tools` is no package."""
    program = (
        "import python_reference as r, reefcast.cesql, reefcast.sync\n"
        "for module in (reefcast, reefcast.cesql, reefcast.sync):\n"
        "    for path, value in r.public_names(module):\n"
        "        print(path, len(r.documentation(value)))"
    )
    listed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "tools",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    lengths = dict(line.split() for line in listed.stdout.splitlines())
    assert {"reefcast.Client.publish", "reefcast.sync.Subscription.next"} <= set(lengths)
    assert [path for path, length in lengths.items() if int(length) < 20] == []
