"""Listeners for clients of other protocols in a network file."""

from __future__ import annotations

import pytest

from reefcast.errors import ConfigurationError
from reefcast.network.changes import changes
from reefcast.network.file import dump_network, read_network
from reefcast.network.listeners import ListenerEntry

FILE = """
[network]
name = "office"
[sessions]
directory = "sessions"
[[broker]]
name = "north"
listen = "127.0.0.1:7301"
admin = "127.0.0.1:9001"
[[broker]]
name = "south"
listen = "127.0.0.1:7302"
[[link]]
between = ["north", "south"]
[[storage]]
name = "s1"
broker = "south"
topics = ["a"]
directory = "history"
admin = "127.0.0.1:9002"
"""
TLS = '[tls]\ncertificate = "c/{broker}.pem"\nauthority = "c/a.pem"\n'
LISTENER = """
[[listener]]
broker = "north"
protocol = "mqtt"
listen = "127.0.0.1:1883"
websocket = "127.0.0.1:8083"
"""
OTHER = LISTENER.replace(":1883", ":1884").replace('websocket = "127.0.0.1:8083"\n', "")


def test_what_an_entry_says_by_default() -> None:
    network = read_network(FILE + LISTENER + OTHER)
    first, second = network.listener
    assert first == ListenerEntry(
        broker="north",
        protocol="mqtt",
        listen="127.0.0.1:1883",
        websocket="127.0.0.1:8083",
        tls=None,
        content="none",
        user_properties=False,
        receive_maximum=1024,
        maximum_packet_size=0,
        session_expiry_s=7 * 24 * 3600,
        topic_alias_maximum=16,
        keep_alive_s=0,
    )
    assert first.address == ("127.0.0.1", 1883)
    assert first.websocket_address == ("127.0.0.1", 8083)
    assert second.websocket_address is None and second.addresses == (("127.0.0.1", 1884),)
    assert read_network(dump_network(network)) == network


HTTP = """
[[listener]]
broker = "north"
protocol = "http"
listen = "127.0.0.1:8080"
"""


def test_a_listener_for_http() -> None:
    """It needs no durable sessions, and a routing without links will do."""
    text = FILE.replace('[sessions]\ndirectory = "sessions"\n', "")
    (entry,) = read_network(text + HTTP + 'allow_origins = ["https://a.example", "*"]\n').listener
    assert (entry.addresses, entry.allow_origins) == (
        *((("127.0.0.1", 8080),),),
        ["https://a.example", "*"],
    )
    assert (entry.max_body_bytes, entry.max_connections) == (1 << 20, 1000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HTTP + 'websocket = "127.0.0.1:8081"\n', "websocket is not for protocol 'http'"),
        (HTTP + 'content = "json"\n', "content is not for protocol 'http'; leave it out"),
        (LISTENER + 'allow_origins = ["*"]\n', "allow_origins is not for protocol 'mqtt'"),
        (HTTP + 'allow_origins = ["app.example"]\n', "has 'app.example', which is no origin"),
        (HTTP + 'allow_origins = ["https://a/b"]\n', "has 'https://a/b', which is no origin"),
        (HTTP + "max_body_bytes = 0\n", "max_body_bytes = 0 must be from 1 to"),
        (HTTP + 'sinks = ["ftp://a"]\n', "north: sinks: 'ftp://a' is no URL of http or https"),
        (HTTP + 'sink_origin = "a b"\n', "sink_origin is 'a b'; give it the name of a host"),
        (HTTP + 'public_url = "http://a?b"\n', "public_url is 'http://a.b'; give it a URL"),
        (LISTENER + "sink_handshake = false\n", "sink_handshake is not for protocol 'mqtt'"),
        (HTTP + "max_connections = 0\n", "max_connections = 0 must be from 1 to"),
        (HTTP.replace("127.0.0.1", "0.0.0.0"), "without TLS, which others can reach"),
        (HTTP + LISTENER.replace(":8083", ":8080"), "are both 127.0.0.1:8080"),
        (HTTP.replace('listen = "127.0.0.1:8080"', ""), "no address: give it listen, such as"),
    ],
)
def test_listeners_for_http_that_cannot_be(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_network(FILE + text).validate()


def test_a_listener_may_be_for_web_pages_only() -> None:
    text = LISTENER.replace('listen = "127.0.0.1:1883"\n', "")
    (entry,) = read_network(FILE + text).listener
    assert entry.address is None and entry.addresses == (("127.0.0.1", 8083),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LISTENER.replace('"north"', '"east"'), "no broker named 'east'; the file has north, s"),
        (LISTENER.replace('"mqtt"', '"amqp"'), 'protocol = \'amqp\' is none of "http", "mqtt"'),
        (LISTENER.replace('protocol = "mqtt"', ""), "missing required field `protocol`"),
        (LISTENER + 'content = "xml"\n', 'content = \'xml\' is none of "json", "none"'),
        (LISTENER + "qos = 1\n", r"\[\[listener\]\] has no key 'qos'; it has broker, protocol"),
        (LISTENER + 'tls = "no"\n', "Expected `bool | null`"),
        (LISTENER.replace("127.0.0.1:1883", "1883"), "north: listen = '1883' is not host:port"),
        (LISTENER.replace(":8083", ":0"), "north: websocket = '127.0.0.1:0' is not host:port"),
        (
            '[[listener]]\nbroker = "north"\nprotocol = "mqtt"\n',
            "broker north has no address: give",
        ),
        *(
            (LISTENER + f"{key} = {value}\n", f"north: {key} = {value} must be from")
            for key, value in (
                *(("receive_maximum", 0), ("receive_maximum", 65_536), ("keep_alive_s", -1)),
                *(("maximum_packet_size", -1), ("maximum_packet_size", 1 << 28 | 5)),
                *(("session_expiry_s", 1 << 32), ("topic_alias_maximum", 65_536)),
            )
        ),
        (LISTENER + "tls = true\n", "tls = true, and the file no section"),
        (LISTENER.replace(":1883", ":7301"), "listen of broker north and listen in a .* are both"),
        (LISTENER.replace(":8083", ":7302"), "listen of broker south and websocket in a "),
        (LISTENER.replace(":1883", ":9001"), "admin address of broker north and listen in a "),
        (LISTENER.replace(":1883", ":9002"), "admin address of storage s1 and listen in a "),
        (LISTENER.replace(":8083", ":1883"), "both 127.0.0.1:1883 on 127.0.0.1; give each"),
        (LISTENER + LISTENER, "listen in a .* broker north and listen in a .* broker north are"),
        (LISTENER + LISTENER.replace("north", "south"), "broker north and listen in a .* south"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_network(FILE + text)


OPEN = LISTENER.replace("127.0.0.1:1883", "0.0.0.0:1883")
REACHED = (
    r"broker north would listen on 0.0.0.0 without TLS, which others can reach: give the file a "
    r"section \[tls\] .*, or listen on 127.0.0.1, or set insecure = true"
)
INSECURE = FILE.replace("[network]", "[network]\ninsecure = true")


@pytest.mark.parametrize("key", ["listen", "websocket"])
def test_others_reach_it_by_tls_only_unless_said(key: str) -> None:
    port = ":1883" if key == "listen" else ":8083"
    text = LISTENER.replace(f"127.0.0.1{port}", f"0.0.0.0{port}")
    with pytest.raises(ConfigurationError, match=REACHED):
        read_network(FILE + text)
    (entry,) = read_network(FILE + TLS + text).listener
    assert entry.speaks_tls("0.0.0.0", True) and not entry.speaks_tls("127.0.0.1", True)
    with pytest.raises(ConfigurationError, match=r"remove tls = false, or listen on 127\.0\.0\.1$"):
        read_network(FILE + TLS + text + "tls = false\n")
    (entry,) = read_network(INSECURE + text).listener
    assert not entry.speaks_tls("0.0.0.0", False)


def test_tls_on_loopback_is_a_choice() -> None:
    (usual,) = read_network(FILE + TLS + LISTENER).listener
    (wanted,) = read_network(FILE + TLS + LISTENER + "tls = true\n").listener
    assert not usual.speaks_tls("127.0.0.1", True) and wanted.speaks_tls("127.0.0.1", True)


def test_all_addresses_of_a_machine_include_each_of_them() -> None:
    for text in (
        OPEN + OTHER.replace(":1884", ":1883"),
        OTHER.replace(":1884", ":1883") + OPEN,
        OPEN.replace(":1883", ":7301"),
    ):
        with pytest.raises(ConfigurationError, match="are both"):
            read_network(INSECURE + text)


def test_machines_of_their_own_may_have_the_same_addresses() -> None:
    text = INSECURE.replace("127.0.0.1:7302", "10.0.0.2:7302") + OPEN
    assert len(read_network(text + OPEN.replace("north", "south")).listener) == 2


def test_mqtt_needs_durable_sessions() -> None:
    without = FILE.replace('directory = "sessions"\n', "", 1)
    with pytest.raises(
        ConfigurationError, match=r"north: MQTT needs durable sessions, and these a"
    ):
        read_network(without + LISTENER)
    gossip = (
        '[network]\nrouting = "gossip"\n[routing]\ncontacts = ["127.0.0.1:7301"]\n'
        '[sessions]\ndirectory = "d"\n[[broker]]\nname = "127.0.0.1:7301"\n'
        'listen = "127.0.0.1:7301"\n'
    )
    assert read_network(gossip)
    with pytest.raises(
        ConfigurationError, match="which routing 'gossip' does not have: use a rout"
    ):
        read_network(gossip + LISTENER.replace("north", "127.0.0.1:7301"))


def test_what_changes() -> None:
    def changed(before: str, after: str) -> dict[str, tuple[object, object]]:
        found = changes(read_network(FILE + before), read_network(FILE + after))
        return {each.what: (each.before, each.after) for each in found}

    assert changed(LISTENER + OTHER, OTHER + LISTENER) == {}
    assert changed(LISTENER, LISTENER + 'content = "json"\n') == {
        "[[listener]] north 127.0.0.1:1883 content": ("none", "json")
    }
    assert list(changed(LISTENER, LISTENER + OTHER)) == ["[[listener]] north 127.0.0.1:1884"]
    assert list(changed(LISTENER, LISTENER.replace(":1883", ":1885"))) == [
        "[[listener]] north 127.0.0.1:1883",
        "[[listener]] north 127.0.0.1:1885",
    ]


def test_peers_are_not_told() -> None:
    assert read_network(FILE + LISTENER).for_peers().listener == []
