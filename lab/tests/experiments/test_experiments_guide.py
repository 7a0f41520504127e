"""The experiment that add-an-experiment.md adds runs, and gives the figure that the page says."""

from __future__ import annotations

import contextlib
import copyreg
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark import cloudpickle

import reefcast_lab.experiments
from documentation import page
from reefcast_lab.cli import experiment
from reefcast_lab.experiments import registry
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.parameters import ParameterFile

GUIDE = page("how-to/add-an-experiment.md")
NAME = "reefcast_lab.experiments.chain"


def made_anew(file: ParameterFile) -> tuple[type[ParameterFile], tuple[Path]]:
    return ParameterFile, (file.path,)


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write and register the package of the guide as the page says."""
    files = {block.about: block.text for block in GUIDE.blocks() if block.mark == "file"}
    (tmp_path / "chain").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (names,) = re.findall(r"^NAMES = (\([^)]*\))$", GUIDE.text, re.MULTILINE)
    registered = re.findall(r'"(\w+)"', names)
    assert registered == [*registry.NAMES, "chain"]
    monkeypatch.setattr(registry, "NAMES", tuple(registered))
    path = [*reefcast_lab.experiments.__path__, str(tmp_path)]
    monkeypatch.setattr(reefcast_lab.experiments, "__path__", path)
    for module in ("parameters", "crossing", "claims"):
        # Tasks of Spark cannot import them: this folder is this test's alone.
        cloudpickle.register_pickle_by_value(importlib.import_module(f"{NAME}.{module}"))
    # Nor would they have what was read of the parameters here; they read the file themselves.
    monkeypatch.setitem(copyreg.dispatch_table, ParameterFile, made_anew)
    yield
    for module in [each for each in sys.modules if each.startswith(NAME)]:
        if module != NAME:
            cloudpickle.unregister_pickle_by_value(sys.modules[module])
        del sys.modules[module]


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., str]:
    """Run `reefcast-lab experiment`; return what it prints."""

    def called(*words: object) -> str:
        done = CliRunner().invoke(experiment.command, list(map(str, words)), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return called


@pytest.mark.usefixtures("chain")
def test_a_run_by_hand() -> None:
    measure = importlib.import_module(f"{NAME}.crossing").measure
    for routing, messages in (("flooding", 4.0), ("acyclic", 0.4)):
        found = measure(Run("chain", "small", "crossing", routing, 5, "", 0))
        assert found == [Measure("messages", 0.0, pytest.approx(messages))]


@pytest.mark.spark
@pytest.mark.usefixtures("chain")
def test_the_commands_of_the_guide(
    call: Callable[..., str], spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "_spark", lambda master: contextlib.nullcontext(spark))
    monkeypatch.chdir(tmp_path)
    shown = [line.split()[2:] for line in re.findall(r"^\$ (.*)$", GUIDE.text, re.MULTILINE)]
    assert [words[0] for words in shown] == ["list", "run", "report"]
    listed = call(*shown[0]).splitlines()[-1]
    assert listed in GUIDE.text
    assert re.search(r"chain/R1 .* -90 % ± 0 .* reproduced", call(*shown[1]))
    call(*shown[2])
    written = (tmp_path / "docs" / "reproduction" / "chain.md").read_text(encoding="utf-8")
    assert written.count("| chain/R1 |") == 1 and "# A row of brokers" in written
