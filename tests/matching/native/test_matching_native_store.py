"""Compiled code in the store: what is kept, and when it is compiled again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.matching.native import directories, store
from reefcast.matching.native.linking import Image
from reefcast.matching.native.store import Code, kept

CODE = Code(Image(b"code", 4, {"free": 0}, {"begin": 2}))


class Compiler:
    """A compiler that counts what it is asked for."""

    def __init__(self, code: Code = CODE) -> None:
        self.made = 0
        self._code = code

    def __call__(self) -> Code:
        self.made += 1
        return self._code


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "kernels.py").write_text("one")
    monkeypatch.setattr(store, "KERNELS", modules)
    monkeypatch.setenv(directories.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_code_is_made_once(directory: Path) -> None:
    compiler = Compiler()
    assert kept("a", compiler) == kept("a", compiler) == CODE
    assert compiler.made == 1
    other = Compiler(Code(object_file=b"other"))
    assert kept("b", other) == kept("b", other) == Code(object_file=b"other")
    assert kept("a", compiler) == CODE
    assert (compiler.made, other.made) == (1, 1)


def test_who_waits_for_code_is_told_once(directory: Path) -> None:
    told: list[str] = []
    with store.before_compiling(lambda: told.append("now")):
        kept("a", lambda: (told.append("made"), CODE)[1])
        kept("b", Compiler())
    assert told == ["now", "made"]
    with store.before_compiling(lambda: told.append("again")):
        kept("a", Compiler())  # which is kept
    kept("c", Compiler())
    assert told == ["now", "made"]


def test_a_change_of_any_module_of_its_compiler_or_of_the_processor_makes_it_anew(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = Compiler()
    changes = [
        lambda: (tmp_path / "modules" / "kernels.py").write_text("two"),
        lambda: (tmp_path / "modules" / "more.py").write_text(""),
        lambda: (tmp_path / "modules" / "more.py").rename(tmp_path / "modules" / "moved.py"),
        lambda: monkeypatch.setattr(store, "_version", lambda package: b"of another numba"),
        lambda: monkeypatch.setattr(store, "PROCESSOR", tmp_path / "cpuinfo"),
        lambda: (tmp_path / "cpuinfo").write_text("model name\t: another\nflags\t: sse2\n"),
        lambda: (tmp_path / "cpuinfo").write_text("model name\t: another\nflags\t: avx\n"),
    ]
    for number, change in enumerate([lambda: None, *changes], start=1):
        change()
        store._key.cache_clear()  # as the next process has it
        kept("a", compiler)
        kept("a", compiler)
        assert compiler.made == number
    # What a processor's clock happens to show changes nothing.
    (tmp_path / "cpuinfo").write_text("model name\t: another\nflags\t: avx\ncpu MHz\t: 1\n")
    kept("a", compiler)
    assert compiler.made == len(changes) + 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "zeros"])
def test_a_damaged_file_is_made_anew(directory: Path, damage: str) -> None:
    compiler = Compiler()
    kept("a", compiler)
    (file,) = directory.glob("*.kernels")
    good = file.read_bytes()
    for at in range(0, len(good), 7):
        damaged = {
            "cut": good[:at],
            "flipped": good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :],
            "empty": b"",
            "zeros": bytes(len(good)),
        }[damage]
        before = compiler.made
        file.write_bytes(damaged)
        assert kept("a", compiler) == CODE
        assert compiler.made == before + 1
        assert file.read_bytes() == good


def test_one_compiles_the_others_wait() -> None:
    inside, goes_on, calls = threading.Event(), threading.Event(), []

    def slow() -> Code:
        calls.append(1)
        inside.set()
        assert goes_on.wait(60)
        return CODE

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(kept, "a", slow)
        assert inside.wait(60)
        others = [pool.submit(kept, "a", Compiler(Code(object_file=b"late"))) for _ in range(3)]
        goes_on.set()
        assert [each.result(60) for each in (first, *others)] == [CODE] * 4
    assert calls == [1]


def test_code_that_fails_to_compile_leaves_nothing(directory: Path) -> None:
    def fails() -> Code:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kept("a", fails)
    assert not list(directory.glob("*.kernels"))
    assert kept("a", Compiler()) == CODE


def test_code_in_a_directory_that_only_others_may_write_to_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the case of a container whose image was built with the code."""
    monkeypatch.delenv(directories.VARIABLE)
    compiler = Compiler()
    built, home = tmp_path / "built", tmp_path / "home"
    monkeypatch.setattr(store, "lasting", lambda: [built])
    monkeypatch.setattr(store, "writable", lambda: home)
    home.mkdir()
    monkeypatch.setenv(directories.NUMBAS, str(built))
    kept("a", compiler)
    assert compiler.made == 1
    built.mkdir()
    for file in home.glob("*.kernels"):
        file.rename(built / file.name)
    kept("a", compiler)
    assert compiler.made == 1
    assert not list(home.glob("*.kernels"))


def test_a_named_directory_that_is_a_file_is_the_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(directories.VARIABLE, str(tmp_path / "file"))
    compiler = Compiler()
    with pytest.raises(ConfigurationError, match="nothing can be written"):
        kept("a", compiler)
    assert compiler.made == 0


def test_the_order_of_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(directories.VARIABLE)
    monkeypatch.delenv(directories.NUMBAS, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    beside, home = directories.lasting()
    assert (beside.name, home) == ("__pycache__", tmp_path / "reefcast")
    monkeypatch.setenv(directories.NUMBAS, str(tmp_path / "numba"))
    assert directories.lasting() == [tmp_path / "numba", beside, home]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(directories.VARIABLE, "named")
    assert directories.lasting() == [tmp_path / "named"]
