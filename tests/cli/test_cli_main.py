"""The command as a whole: what a user sees after a mistake, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from reefcast.cli import main
from reefcast.cli.main import OF_THE_LABORATORY
from reefcast.errors import ConfigurationError, ConnectionLostError, InternalError
from reefcast.traces.files import write_run

REEFCAST = [sys.executable, "-m", "reefcast"]
ONE = '[[broker]]\nname = "b1"\nlisten = "127.0.0.1:7301"\n'


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REEFCAST, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300
    )


def network(directory: Path, text: str) -> Path:
    file = directory / "net.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(*arguments: object) -> str:
    """Run a command that is refused with exit code 2 and without a traceback; return the one
    sentence on standard error."""
    done = run(*arguments)
    assert done.returncode == 2, done
    assert done.stderr.startswith("reefcast: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_command_whose_extra_is_not_installed(tmp_path: Path) -> None:
    write_run(tmp_path, {})
    sentence = without("pyspark", "from reefcast.cli.main import main; main()", tmp_path)
    assert "pip install 'reefcast[spark]'" in sentence


def without(package: str, program: str, *arguments: object) -> str:
    """Return what `reefcast analyze` writes to standard error where the package is missing. It runs
    in a process of its own: this one may have a Spark session."""
    blocked = f"import sys; sys.modules['{package}'] = None; {program}"
    done = subprocess.run(
        [sys.executable, "-c", blocked, "analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    return done.stderr


def test_an_option_that_there_is_not() -> None:
    done = run("simulate", "--nonsense")
    assert done.returncode == 2
    assert "No such option" in done.stderr


@pytest.mark.parametrize("name", OF_THE_LABORATORY)
def test_a_command_of_the_laboratory(name: str) -> None:
    result = CliRunner().invoke(main.group, [name, "--json"])
    assert result.exit_code == 2
    assert f"No such command '{name}': it is a command of reefcast-lab." in result.output


def test_help_and_version() -> None:
    assert run("--help").returncode == run("--version").returncode == 0
    assert "Run a network:" in run().stderr + run().stdout


@pytest.mark.parametrize("command", [("network", "check"), ("network", "up"), ("simulate",)])
def test_a_routing_that_there_is_not(tmp_path: Path, command: tuple[str, ...]) -> None:
    file = network(tmp_path, '[network]\nrouting = "guess"\n' + ONE)
    assert "there is no routing named 'guess'" in refused(*command, file)


def test_a_routing_for_trees_on_a_ring(tmp_path: Path) -> None:
    brokers = "".join(f'[[broker]]\nname = "b{i}"\n' for i in range(3))
    links = "".join(f'[[link]]\nbetween = ["b{i}", "b{(i + 1) % 3}"]\n' for i in range(3))
    file = network(tmp_path, '[network]\nrouting = "flooding"\n' + brokers + links)
    assert "needs a tree" in refused("simulate", file, "--routing", "acyclic")


def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    trace = f'[trace]\nlevel = "full"\ndirectory = "{blocked}/trace"\n'
    file = network(tmp_path, trace + ONE)
    for command in (
        ("network", "up", file),
        ("broker", file, "b1"),
        ("simulate", file, "--trace", blocked / "trace"),
    ):
        assert "no trace can be written to" in refused(*command)


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    file = network(tmp_path, ONE)
    workload = ("--subscriptions-from", file, "--publications-from", file)
    assert "is not a Parquet file" in refused("simulate", file, *workload)
    rows = ("--file", file, "--format", "parquet")
    assert "is not a Parquet file" in refused("publish", "reefcast://127.0.0.1:1", *rows)
    event, filters = tmp_path / "event", tmp_path / "filters"
    event.write_bytes(b'{"x": "\xff"}\n')
    filters.write_bytes(b"x = '\xff'\n")
    for format, sentence in (
        ("csv", "this is not CSV in UTF-8"),
        ("jsonl", "line 1 is not a JSON object"),
    ):
        rows = ("--file", event, "--format", format)
        assert sentence in refused("explain", "x > 1", *rows)
    assert "filters is not text in UTF-8" in refused("explain", "--filters", filters, "x=1")
    (tmp_path / "run.json").write_text("{")
    assert "run.json cannot be read" in refused("analyze", tmp_path)
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").mkdir()
    assert "run.json: Is a directory" in refused("analyze", tmp_path)


def test_a_fault_is_named_as_it_was_written(tmp_path: Path) -> None:
    fault = "crash:broker=b9,at_s=1.5"
    assert f"fault '{fault}': there is no broker named" in refused(
        "simulate", network(tmp_path, ONE), "--fault", fault
    )


def test_plan_as_json(tmp_path: Path) -> None:
    done = run("network", "check", network(tmp_path, ONE), "--json")
    plan = json.loads(done.stdout)
    assert [row["listen"] for row in plan["brokers"]] == ["127.0.0.1:7301"]


def test_a_network_that_is_down(tmp_path: Path, unused_tcp_port: int) -> None:
    file = network(tmp_path, ONE.replace("7301", str(unused_tcp_port)))
    done = run("network", "status", file)
    assert done.returncode == 1
    assert "does not answer" in done.stdout
    assert json.loads(run("network", "status", file, "--json").stdout) == {"b1": None}


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),  # not 1, which says that a check failed
        (ConfigurationError("two brokers"), 2, "two brokers"),
        (ConnectionLostError("gone"), 5, "gone"),
        (InternalError("cannot be"), 4, "cannot be"),
        (FileNotFoundError(2, "No such file", "net.toml"), 2, "net.toml: No such file"),
        (KeyError("x"), 4, "this is a fault of reefcast: please report it, with the lines above"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_an_exit_code(
    error: BaseException,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["reefcast", "fail"])
    monkeypatch.setattr(main.group, "get_command", lambda *_: click.Command("fail", None, fails))
    with pytest.raises(SystemExit) as exit:
        main.main()
    assert exit.value.code == code
    written = capsys.readouterr().err.strip()
    assert written.splitlines()[-1] == f"reefcast: {sentence}"
    assert ("Traceback" in written) is isinstance(error, KeyError)


def test_a_broker_that_nobody_runs(unused_tcp_port: int) -> None:
    done = run("publish", f"reefcast://127.0.0.1:{unused_tcp_port}", "x=1")
    assert done.returncode == 5
    assert "no connection to" in done.stderr
