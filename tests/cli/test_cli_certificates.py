"""`reefcast certificates make`, and what commands say of TLS."""

from __future__ import annotations

import json
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import reefcast
from children import Children, line_of
from reefcast.cli.main import group
from reefcast.extras import extra_for
from reefcast.network.file import load_network
from reefcast.server.supervisor import free_ports

NET = """
[network]
name = "net"

[[broker]]
name = "a"
listen = "127.0.0.1:{port}"

[[storage]]
name = "s1"
broker = "a"
topics = ["fx"]
directory = "{folder}/history"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "net.toml"
    file.write_text(NET.format(port=free_ports(1)[0], folder=tmp_path))
    return file


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


def run(*words: object) -> Result:
    return CliRunner().invoke(group, list(map(str, words)))


def test_it_makes_what_is_missing_and_says_so(file: Path) -> None:
    done = run("certificates", "make", file, "--json")
    told = json.loads(done.output)
    assert told["network_changed"]
    assert [(row["for"], row["made"]) for row in told["certificates"]] == [
        ("the authority", True),
        ("broker a", True),
        ("storage s1", True),
    ]
    for row in told["certificates"]:
        assert stat.S_IMODE(Path(row["key"]).stat().st_mode) == 0o600
    text = file.read_text()
    done = run("certificates", "make", file, "--client", "billing", "--host", "a=far.example")
    lines = done.output.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["kept", "kept", "kept", "made"]
    assert "keep it off the brokers' machines" in lines[-1]
    assert file.read_text() == text
    assert load_network(file).tls.on


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "far.example"], "write it as NAME=HOST"),
        (["--host", "z=far.example"], "there is no broker named 'z'"),
        (["--host", "s1=far.example"], "there is no broker named 's1'"),
        (["--client", "a"], "cannot have the name 'a'"),
    ],
)
def test_what_it_cannot_do_leaves_all_as_it_is(file: Path, words: list[str], said: str) -> None:
    text = file.read_text()
    done = run("certificates", "make", file, *words)
    assert said in done.output + str(done.exception)
    assert file.read_text() == text
    assert not (file.parent / "certificates").exists()


def test_without_its_package_it_says_which(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(("reefcast.tls.making",))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "reefcast.network.certifying", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    done = run("certificates", "make", file)
    assert isinstance(done.exception, ModuleNotFoundError)
    with pytest.raises(reefcast.LocalError, match=r"reefcast\[security\]"), extra_for("it"):
        raise done.exception


def test_options_for_tls_are_not_for_a_url_without(file: Path) -> None:
    run("certificates", "make", file)
    authority = file.parent / "certificates" / "authority.pem"
    for command in (["publish"], ["session", "list"], ["history"]):
        words = [*command, "reefcast://127.0.0.1:1", "--authority", authority]
        words += [] if command == ["session", "list"] else ["topic = 'a'"]
        if command == ["publish"]:
            words[-1] = "a=1"
        done = run(*words)
        assert "authority would protect nothing: the URL reefcast://" in str(done.exception)


@pytest.mark.long
async def test_processes_with_tls(file: Path, children: Children) -> None:
    """A broker that needs certificates, its storage, an operator and a client; SIGHUP."""
    assert run("certificates", "make", file, "--client", "billing").exit_code == 0
    with file.open("a") as more:
        more.write('clients = "required"\n')
    folder = file.parent / "certificates"
    broker = await children.start("broker", file, "a", "--log-level", "info")
    assert b"listens" in await line_of(broker.stdout)
    storage = await children.start("storage", file, "s1")
    assert await line_of(storage.stdout) == b"storage s1 at a answers for fx\n"
    listen = load_network(file).entry("a").listen
    url = f"reefcast+tls://{listen}"
    own = ("--certificate", folder / "billing.pem", "--key", folder / "billing.key")
    trust = ("--authority", folder / "authority.pem")
    code, _, errors = await children.run("publish", url, *trust, "a=1")
    assert (code, "it wants to see a certificate" in errors) == (5, True)
    code, _, errors = await children.run("publish", url, *trust, *own, "--topic", "fx", "a=1")
    assert (code, errors[:9]) == (0, "published")
    code, output, _ = await children.run("network", "status", file, *own, "--json")
    status = json.loads(output)["a"]
    assert code == 0
    assert {each["user"] for each in status["clients"]} == {"CN=s1"}
    assert 300 < status["certificate"]["days"] < 366
    assert run("certificates", "make", file, "--renew").exit_code == 0
    broker.send_signal(signal.SIGHUP)
    said = b""
    while b"shows the new certificate" not in said:
        said += await line_of(broker.stderr)
    authority, certificate, key = (str(each) for each in (trust[1], own[1], own[3]))
    async with reefcast.connect(
        url, authority=authority, certificate=certificate, key=key
    ) as client:
        assert [event["a"] async for event in client.history("topic = 'fx'")] == [1]
