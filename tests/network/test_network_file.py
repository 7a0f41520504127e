"""The network file: what it says, and the messages that refuse mistakes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.network.file import (
    NetworkFile,
    dump_network,
    load_network,
    parse_network,
    read_network,
)
from reefcast.network.sections import (
    BrokerEntry,
    NetworkSection,
    RoleEntry,
    SecuritySection,
    SessionsSection,
    TlsSection,
)
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.covering.statistics import Window
from reefcast.routing.scot import ScotOptions
from reefcast.tls.files import TlsFiles

GOOD = """
[network]
name = "office"
[trace]
level = "full"
[[broker]]
name = "b1"
listen = "127.0.0.1:7301"
[[broker]]
name = "b2"
listen = "[::1]:7302"
[[link]]
between = ["b2", "b1"]
latency_s = 0.0025
"""
NO_LATENCY_MS = (
    r"\[\[link\]\] has no key 'latency_ms'; it has between, latency_s, bandwidth_mbit_per_s, "
    "jitter_s"
)


NO_EAGER = (
    "for routing 'acyclic': covering = 'eager' is none of "
    '"active", "incremental", "lazy", "none", "packing"'
)


def test_a_good_file_is_read() -> None:
    network = read_network(GOOD)
    assert network.network.name == "office"
    assert network.network.routing == "acyclic"
    assert network.names == ["b1", "b2"]
    assert network.neighbours("b1") == ["b2"]
    assert network.address("b2") == ("::1", 7302)
    assert network.link[0].latency_s == 0.0025


def test_what_is_dumped_reads_the_same() -> None:
    network = read_network(GOOD)
    assert read_network(dump_network(network)) == network


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "b2"', 'name = "b1"', "given twice"),
        ('name = "b2"', 'name = "b/2"', "contains a '/'"),
        ("127.0.0.1:7301", "0.0.0.0:7301", "insecure = true"),
        ("127.0.0.1:7301", "127.0.0.1", "not host:port"),
        ("127.0.0.1:7301", "[::1]:7302", "same listen address"),
        ('"b2", "b1"', '"b2", "b9"', "no broker named 'b9'"),
        ('between = ["b2", "b1"]', 'between = ["b1", "b1"]', "no link to itself"),
        ('level = "full"', 'level = "loud"', "none of off"),
        ('level = "full"', 'level = "full"\nsample = 2', "between 0 and 1"),
        ("latency_s = 0.0025", "latency_s = -1", "must be above 0"),
        *(
            ("latency_s = 0.0025", f"{key} = {value}", f"{key} = {value} must be a finite number")
            for key in ("latency_s", "bandwidth_mbit_per_s", "jitter_s")
            for value in ("nan", "inf", "-inf")
        ),
        *(
            ("[[link]]", f"[limits]\n{key} = nan\n[[link]]", f"{key} = nan must be a finite")
            for key in ("link_patience_s", "session_s", "drain_s")
        ),
        ('level = "full"', 'level = "full"\nflush_s = inf', "flush_s = inf must be a finite"),
        ('level = "full"', 'level = "full"\nsample = nan', "between 0 and 1"),
        ("latency_s = 0.0025", "latency_ms = 1", NO_LATENCY_MS),
        (
            'name = "office"',
            'name = "office"\nkind = 1',
            r"\[network\] has no key 'kind'; it has name",
        ),
        (
            "[[link]]",
            "[statistic]\n[[link]]",
            "file has no key 'statistic'; it has network, .*statist",
        ),
        ("[[link]]", "[overload]\nwindow_ms = 5\n[[link]]", "'window_ms'; it has tau, window_s"),
        (
            "[[link]]",
            "[routing]\ncover = 1\n[[link]]",
            "'acyclic', has no key 'cover'; it has covering",
        ),
        (
            'name = "b1"',
            'name = "b1"\nrouting = {cover = 1}',
            "routing of broker b1, for .*'cover'",
        ),
        ("[[link]]", "[routing]\ncovering = 'eager'\n[[link]]", rf"\[routing\], {NO_EAGER}"),
        ('name = "b2"', 'name = "b2"\nrouting = {covering = "eager"}', f"broker b2, {NO_EAGER}"),
        ('name = "b2"', 'name = "b2"\nrouting = {covering = 3}', "b2, .*covering = 3 is none of"),
        ("[[link]]", "[routing]\ntheta = 1.1\n[[link]]", r"\[routing\], .* <= 1.0 - at `\$.theta`"),
        ('name = "b1"', 'name = "b1"\nrouting = {theta = "much"}', "b1, .*got `str` .*theta"),
        ("[[link]]", "[statistics]\nfile = 'x'\n[[link]]", "'file'; it has directory, window_s"),
        ("[[link]]", "[statistics]\nwindow_s = 0\n[[link]]", "give more than 0 s"),
        ("[[link]]", "[statistics]\nwindow_s = nan\n[[link]]", "give more than 0 s"),
        ("[[link]]", "[statistics]\nrows = 9\ntotal = 8\n[[link]]", "1 <= rows <= total"),
        ('name = "office"', 'name = "office"\nrouting = 3', "routing"),
        ("[[link]]", "[limits]\nqueue_policy = 'wish'\n[[link]]", "none of block"),
        ("[[link]]", "[limits]\ncredit = 0\n[[link]]", "credit = 0 must be above 0"),
        (
            "[[link]]",
            "[sessions]\nadvisories = true\n[[link]]",
            "durable sessions, which need a directory",
        ),
        ("[[link]]", "[[link", "cannot be read"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigurationError, match=says):
        read_network(GOOD.replace(old, new, 1))


def test_covering_is_said_for_all_brokers_and_otherwise_for_one() -> None:
    text = GOOD.replace("[trace]", '[routing]\ncovering = "active"\ntheta = 0.5\n[trace]')
    text = text.replace('name = "b2"', 'name = "b2"\nrouting = {covering = "incremental"}')
    text += "[statistics]\nwindow_s = 60\nrows = 10\n"
    network = read_network(text)
    assert network.routing_options("b1") == AcyclicOptions(covering="active", theta=0.5)
    assert network.routing_options("b2") == AcyclicOptions(covering="incremental", theta=0.5)
    assert network.statistics_window() == Window(seconds=60, rows=10)
    assert read_network(dump_network(network)) == network


@pytest.mark.parametrize("routing", ["spr", "idr"])
def test_in_clusters_nobody_prunes(routing: str) -> None:
    says = f"for routing '{routing}': covering = \"incremental\" prunes by the statistics of adver"
    text = office_of_four(routing)
    with pytest.raises(ConfigurationError, match=says):
        read_network('[routing]\ncovering = "incremental"\n' + text)
    own = 'name = "b1"\nrouting = {covering = "incremental"}'
    with pytest.raises(ConfigurationError, match=f"broker b1, {says}"):
        read_network(text.replace('name = "b1"', own))
    own = own.replace("incremental", "packing")
    covering = read_network(text.replace('name = "b1"', own)).routing_options("b1")
    assert covering == ScotOptions(covering="packing")


def test_a_cycle_needs_a_routing_that_can() -> None:
    third = '\n[[broker]]\nname = "b3"\nlisten = "127.0.0.1:7303"\n'
    links = '[[link]]\nbetween = ["b1", "b3"]\n[[link]]\nbetween = ["b2", "b3"]\n'
    with pytest.raises(ConfigurationError, match="needs a tree"):
        read_network(GOOD + third + links)
    flooding = GOOD.replace('name = "office"', 'name = "office"\nrouting = "flooding"')
    assert read_network(flooding + third + links).neighbours("b3") == ["b1", "b2"]
    with pytest.raises(ConfigurationError, match="not connected"):
        read_network(GOOD + third)


def test_others_may_reach_it_only_when_said(tmp_path: Path) -> None:
    open_to_all = GOOD.replace("127.0.0.1", "0.0.0.0").replace(
        'name = "office"', 'name = "office"\ninsecure = true'
    )
    assert read_network(open_to_all).address("b1") == ("0.0.0.0", 7301)


def test_errors_name_the_file_and_the_broker(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    with pytest.raises(ConfigurationError, match=r"net\.toml: No such file"):
        load_network(file)
    file.write_text(GOOD.replace("[[broker]]", "[[brokers]]"))
    with pytest.raises(ConfigurationError, match=r"net\.toml: .*broker"):
        load_network(file)
    with pytest.raises(ConfigurationError, match="the file has b1, b2"):
        read_network(GOOD).entry("b9")


def office_of_four(routing: str = "idr") -> str:
    """Return the file of SCOT(path of 2, 2)."""
    lines = [f'[network]\nrouting = "{routing}"\n[overload]\ntau = 4\nwindow_s = 0.02\n']
    for label, index in itertools.product("ab", (0, 1)):
        place = f'region = "{label}"\ncluster = {index}'
        lines.append(f'[[broker]]\nname = "{label}{index}"\n{place}\n')
    for a, b in (("a0", "b0"), ("a1", "b1"), ("a0", "a1"), ("b0", "b1")):
        lines.append(f'[[link]]\nbetween = ["{a}", "{b}"]\n')
    return "".join(lines)


@pytest.mark.parametrize("routing", ["spr", "idr", "tid-s", "tid-d", "flooding"])
def test_a_scot_is_read_and_dumped(routing: str) -> None:
    network = read_network(office_of_four(routing))
    made = network.scot()
    assert made is not None
    assert made.i_links == [("a0", "a1"), ("b0", "b1")]
    assert made.neighbours("b1").primary == ("a1",)
    assert (network.overload.tau, network.overload.window_s) == (4, 0.02)
    assert read_network(dump_network(network)) == network


def test_a_network_without_places_is_no_scot_and_is_dumped_without_them() -> None:
    network = read_network(GOOD)
    assert network.scot() is None
    assert "region" not in dump_network(network)
    assert "null" not in dump_network(network)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('region = "a"\ncluster = 0', "", r"Label Order property: broker a0 has no region"),
        ('region = "a"\ncluster = 0', "cluster = 0", "a0 has only a region or only a cluster"),
        ('region = "a"\ncluster = 0', 'region = "a"', "a0 has only a region or only a cluster"),
        ("cluster = 0", "cluster = 1", "Index property: brokers a0 and a1 both stand"),
        ("cluster = 0", "cluster = 2", "Index property: region 'a' has no broker in cluster 0"),
        ('[[link]]\nbetween = ["a0", "a1"]', "", "Connectivity property: the iLink a0 - a1"),
        ('[[link]]\nbetween = ["a0", "b0"]', "", "Acyclic property: the aLink a0 - b0 is missing"),
        ('"a0", "a1"', '"a0", "b1"', "Connectivity property: the iLink a0 - a1 is missing"),
        ("tau = 4", "tau = 0", "tau = 0.0 must be above 0"),
        ("window_s = 0.02", "window_s = -1", "window_s = -1.0 must be above 0"),
        ("tau = 4", "tau = nan", "tau = nan must be a finite number"),
        ("window_s = 0.02", "window_s = inf", "window_s = inf must be a finite number"),
    ],
)
def test_what_is_no_scot_is_refused_naming_the_property(old: str, new: str, says: str) -> None:
    assert old in office_of_four()
    with pytest.raises(ConfigurationError, match=says):
        read_network(office_of_four().replace(old, new, 1))


@pytest.mark.parametrize("routing", ["spr", "idr"])
def test_routings_of_octopia_need_a_scot(routing: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{routing}' needs a SCOT"):
        read_network(GOOD.replace('name = "office"', f'name = "office"\nrouting = "{routing}"'))


def test_a_routing_for_trees_refuses_a_scot() -> None:
    with pytest.raises(ConfigurationError, match="needs a tree"):
        read_network(office_of_four("acyclic"))


# --- peers ----------------------------------------------------------------------------------------


def gossip_file(insecure: bool = False) -> NetworkFile:
    return NetworkFile(
        network=NetworkSection(routing="gossip", insecure=insecure),
        routing={"contacts": ["a"], "topics": {"fx/€ and more": ["a", "127.0.0.1:7411"]}},
        broker=[
            BrokerEntry("a", "127.0.0.1:7301"),
            BrokerEntry("127.0.0.1:7302", "127.0.0.1:7302"),
        ],
    ).validate()


def test_the_name_of_a_peer_is_its_address() -> None:
    network = gossip_file()
    assert network.address("a") == ("127.0.0.1", 7301)
    assert network.address("127.0.0.1:7411") == ("127.0.0.1", 7411)
    assert network.address("[::1]:7411") == ("::1", 7411)
    for name in ("a", "127.0.0.1:7302", "127.0.0.1:7411", "localhost:1"):
        assert network.is_node(name)
    for name in ("b", "127.0.0.1", "127.0.0.1:0", ":7411", "192.0.2.1:7411", "example.org:80"):
        assert not network.is_node(name)
        with pytest.raises(ConfigurationError, match="there is no broker named"):
            network.address(name)
    assert gossip_file(insecure=True).is_node("192.0.2.1:7411")


def test_only_brokers_that_find_each_other_have_peers() -> None:
    network = NetworkFile(broker=[BrokerEntry("a", "127.0.0.1:7301")]).validate()
    assert network.is_node("a") and not network.is_node("127.0.0.1:7411")


def test_contacts_may_be_peers_and_nobody_else() -> None:
    network = gossip_file()
    network.routing["contacts"] = ["a", "127.0.0.1:7411"]
    network.validate()
    network.routing["contacts"] = ["192.0.2.1:7411"]
    with pytest.raises(ConfigurationError, match=r"contact '192\.0\.2\.1:7411' is none of"):
        network.validate()


def test_what_peers_are_told() -> None:
    """They are told what is the same for all, and the brokers that they could not find by name
    alone."""
    network = gossip_file(insecure=True)
    network.limits.credit = 7
    told = read_network(dump_network(network.for_peers()))
    assert told.routing == network.routing
    assert [each.name for each in told.broker] == ["a"]
    assert told.limits.credit != 7 and not told.network.insecure
    assert told.security is None


def test_peers_are_told_that_clients_must_prove_who_they_are() -> None:
    """They are told neither the names of files, which are on other machines, nor roles."""
    network = gossip_file()
    network.security = SecuritySection(users="users.toml", key="network.key", anonymous=["guest"])
    network.role = [RoleEntry(name="guest", subscribe="TRUE")]
    network.tls = TlsSection(certificate="c", key="k", authority="a", clients="required")
    told = parse_network(dump_network(network.validate().for_peers()))
    assert told.security == SecuritySection()
    assert told.tls == TlsSection(clients="required")
    assert not told.role


def test_advisory_events_need_a_routing_with_links() -> None:
    network = parse_network(
        """
        [network]
        routing = "gossip"
        [routing]
        contacts = ["127.0.0.1:7401"]
        [sessions]
        directory = "sessions"
        advisories = true
        [[broker]]
        name = "127.0.0.1:7401"
        listen = "127.0.0.1:7401"
        """
    )
    with pytest.raises(ConfigurationError, match="'gossip' carries no advisory events"):
        network.validate()
    network.sessions.advisories = False
    assert network.validate().sessions == SessionsSection(directory="sessions")


def test_advisory_events_are_read_and_dumped() -> None:
    said = "[sessions]\ndirectory = 'd'\nadvisories = true\n[[link]]"
    network = read_network(GOOD.replace("[[link]]", said, 1))
    assert network.sessions.advisories
    assert read_network(dump_network(network)) == network


# --- TLS ------------------------------------------------------------------------------------------


TLS = """
[tls]
certificate = "keys/{broker}.pem"
key = "keys/{broker}.key"
authority = "keys/authority.pem"
"""


def test_certificates_are_found_from_the_file(tmp_path: Path) -> None:
    """Each broker has its own; with them it may be reached from elsewhere."""
    file = tmp_path / "net.toml"
    file.write_text(GOOD.replace("127.0.0.1", "10.0.0.1") + TLS)
    network = load_network(file)
    name = network.names[0]
    assert network.tls.files(name) == TlsFiles(
        f"{tmp_path}/keys/authority.pem",
        f"{tmp_path}/keys/{name}.pem",
        f"{tmp_path}/keys/{name}.key",
    )
    assert network.tls.on
    assert read_network(dump_network(network)) == network
    assert not read_network(GOOD).tls.on
    assert network.for_peers().tls == TlsSection()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[tls]\ncertificate = "a"', "has only certificate: give certificate, key and authority"),
        ('[tls]\nauthority = "a"', "has only authority: give"),
        ('[tls]\nkey = "a"', "has only key: give"),
        ('[tls]\nclients = "required"', "no certificate and no authority"),
        (TLS + 'clients = "some"', """clients = 'some' is none of "none", "optional", "required"""),
        (TLS + 'ciphers = "all"', r"\[tls\] has no key 'ciphers'; it has certificate, key"),
    ],
)
def test_half_of_tls_is_refused(more: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_network(GOOD + more)


def test_tls_and_insecure_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match="remove one of them"):
        read_network(GOOD.replace("[network]", "[network]\ninsecure = true") + TLS)
