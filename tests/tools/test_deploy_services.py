"""What deploy/ has for machines: units that systemd accepts, and an image whose steps name what
there is."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reefcast.network.kubernetes import ADMIN_PORT, MQTT_PORTS, PORT, STATE, USER

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
GUIDE = ROOT / "docs" / "how-to" / "operate.md"


def unit(path: Path) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]  # as its documentation says
    read.read(path)
    return read


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not on this machine")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_each_unit(path: Path, tmp_path: Path) -> None:
    command = unit(path)["Service"]["ExecStart"].split()[0]
    there = tmp_path / path.name
    there.write_text(path.read_text("utf-8").replace(command, sys.executable), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", there],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if path.stem in line or str(there) in line]
    assert own == []


def test_the_units_differ_in_what_they_run() -> None:
    broker, storage = (dict(unit(path)["Service"]) for path in UNITS)
    assert "ExecReload" in broker and "ExecReload" not in storage
    same = set(broker) & set(storage) - {"ExecStart"}
    assert {key: broker[key] for key in same} == {key: storage[key] for key in same}


def test_the_guide_shows_the_unit() -> None:
    (shown,) = re.findall(r"```ini\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    text = UNITS[0].read_text("utf-8")
    for line in shown.splitlines():
        assert line in text.splitlines()


# --- the container file ---------------------------------------------------------------------------


def steps() -> list[tuple[str, str]]:
    """Return the instructions of the container file with their arguments."""
    text = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_the_image_is_made_of_what_there_is() -> None:
    copied = [words.split()[:-1] for what, words in steps() if what == "COPY"]
    sources = [path for words in copied if not words[0].startswith("--") for path in words]
    sent = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in sent


def test_the_versions_are_those_of_the_tests() -> None:
    (script,) = re.findall(r"sed -E '([^']*)'", (DEPLOY / "Containerfile").read_text("utf-8"))
    lock = ROOT / "requirements" / "dev.lock"
    done = subprocess.run(["sed", "-E", script, lock], capture_output=True, text=True, check=True)
    pinned = [
        line for line in done.stdout.splitlines() if line and not line.lstrip().startswith("#")
    ]
    assert len(pinned) > 50
    assert [line for line in pinned if not re.fullmatch(r"[\w.-]+==[\w.+!]+( ; .*)?", line)] == []


def test_the_image_compiles_before_it_starts() -> None:
    (code,) = [words for what, words in steps() if what == "RUN" and words.startswith("[")]
    python, option, text = (word.strip('",') for word in shlex.split(code.strip("[]")))
    assert (python, option) == ("python", "-c")
    subprocess.run([sys.executable, option, text], check=True)


def test_the_image_is_what_pods_expect() -> None:
    by_name = dict(steps())
    assert by_name["USER"] == str(USER)
    assert by_name["WORKDIR"] == STATE
    mqtt = (port for ports in MQTT_PORTS.values() for port in ports)
    assert by_name["EXPOSE"].split() == [str(port) for port in (PORT, ADMIN_PORT, *mqtt)]
    assert by_name["ENTRYPOINT"] == '["reefcast"]'
