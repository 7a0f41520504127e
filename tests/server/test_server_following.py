"""Brokers that follow what the network file says of users, while these are connected; certificates
that expire meanwhile."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from live_brokers import Live
from msgspec.structs import replace
from secured_brokers import ANNA, lines, principals, url

import reefcast
from live_networks import make_network, until, url_of
from reefcast.errors import RefusedError
from reefcast.network.file import NetworkFile, dump_network, load_network
from reefcast.network.sections import CertificateEntry, RoleEntry
from reefcast.server.following import follow_users
from reefcast.server.node import Node
from reefcast.timing import now_us
from secured import secured
from tls_files import Office

DAY_S = 86_400.0


def write(file: Path, network: NetworkFile) -> None:
    file.with_suffix(".new").write_text(dump_network(network))
    file.with_suffix(".new").replace(file)


async def following(live: Live, network: NetworkFile, folder: Path) -> tuple[Node, Path]:
    file = folder / "net.toml"
    write(file, network)
    node = await live.node(load_network(file), network.names[0])
    task = asyncio.create_task(follow_users(node, file))
    live._stack.callback(task.cancel)
    return node, file


async def test_who_comes_in_changes_with_the_file(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anonymous clients, and the roles of users; who is let in no more is disconnected."""
    network = secured(tmp_path, anonymous=["guest"])
    node, file = await following(live, network, tmp_path)
    assert network.security is not None
    async with reefcast.connect(url(node), **ANNA, name="anna") as anna:
        guest = await reefcast.connect(url(node))
        changed = replace(network, security=replace(network.security, anonymous=["visitor"]))
        write(file, changed)
        await until(lambda: ("visitor",) in {each.granted for each in principals(node)})
        assert not guest.ended
        write(file, replace(network, security=replace(network.security, anonymous=[])))
        await until(lambda: guest.ended)
        assert "user 'anonymous' was removed" in str(guest.ended)
        with pytest.raises(RefusedError, match="asks who this is, and nothing is shown"):
            await reefcast.connect(url(node))
        assert not anna.ended
        # What cannot be is logged, and changes nothing; the broker follows the next change.
        missing = replace(network.security, users=str(tmp_path / "none.toml"))
        for wrong, said in (
            (replace(network, security=missing), "none.toml cannot be read"),
            (replace(network, security=None), "has no section [security]; restart"),
        ):
            write(file, wrong)
            await until(lambda said=said: said in caplog.text)
        async with reefcast.connect(url(node), **ANNA):
            write(file, changed)
            await until(lambda: node.authenticator._security.anonymous == ["visitor"])  # type: ignore[attr-defined]  # the file was read
        assert not anna.ended
    assert str(tmp_path) not in "".join(
        record.message for record in caplog.records if record.levelno == logging.WARNING
    )


async def test_users_of_certificates_change_with_the_file(live: Live, tmp_path: Path) -> None:
    office = Office(tmp_path)
    network = office.secured(secured(tmp_path), "optional")
    network.role = [RoleEntry(name="pay", publish="TRUE"), RoleEntry(name="see", subscribe="TRUE")]
    billing = CertificateEntry(subject="CN=billing", user="billing", roles=["pay"])
    network.certificate = [billing]
    node, file = await following(live, network, tmp_path)
    host, port = network.address("b1")
    options = office.issue("billing")._asdict()
    client = await reefcast.connect(f"reefcast+tls://{host}:{port}", **options)
    with pytest.raises(RefusedError, match="may see nothing"):
        await client.subscribe("TRUE")
    write(file, replace(network, certificate=[replace(billing, roles=["pay", "see"])]))
    await until(lambda: principals(node)[0].granted == ("pay", "see"))
    await client.subscribe("TRUE")
    assert principals(node)[0].expires_at_s < now_us() / 1e6 + 11 * DAY_S
    write(file, replace(network, certificate=[]))
    await until(lambda: client.ended)
    assert "user 'billing' was removed" in str(client.ended)


@pytest.mark.parametrize("asks", [True, False], ids=["security", "tls alone"])
async def test_a_connection_ends_with_its_certificate(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asks: bool
) -> None:
    """As that of a token does; its client is back with a newer certificate. Brokers and whoever
    shows no certificate stay."""
    office = Office(tmp_path)
    network = secured(tmp_path, 2) if asks else make_network(["b1", "b2"], [("b1", "b2")])
    network = office.secured(network, "optional")
    if asks:
        network.certificate = [CertificateEntry(subject="CN=billing", user="billing")]
    ahead_s = 0.0
    monkeypatch.setattr("reefcast.server.renewing.now_us", lambda: now_us() + round(ahead_s * 1e6))
    nodes = [await live.node(network.validate(), name) for name in network.names]
    tls = url_of(network, "b1").replace("reefcast:", "reefcast+tls:")
    own = office.issue("billing", days=1)
    ahead_s = DAY_S - 1.0
    lost: list[int] = []
    shown = ANNA if asks else {}
    async with (
        reefcast.connect(tls, authority=str(office.file), name="anna", **shown) as anna,
        reefcast.connect(tls, **own._asdict(), on_disconnect=lambda *_: lost.append(1)) as client,
    ):
        await until(lambda: lost)
        ahead_s = 0.0
        await until(lambda: any(each.proof == "certificate" for each in principals(nodes[0])))
        await client.publish({"a": 1}, confirm=True)
        assert not anna.ended
    await until(lambda: nodes[0].links["b2"].state == "up")
    if asks:
        said = [line for line in lines(tmp_path) if line["event"] == "expired"]
        assert said[0]["reason"] == "the certificate of user 'billing' has expired"
