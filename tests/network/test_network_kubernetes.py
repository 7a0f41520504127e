"""A network file as objects for Kubernetes: valid by the schemas that Kubernetes publishes, and
complete, so that what pods are told to read and to dial is there."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from reefcast.cli.main import group
from reefcast.errors import ConfigurationError
from reefcast.network.file import parse_network
from reefcast.network.kubernetes import (
    ADMIN_PORT,
    CONFIGURATION,
    PORT,
    STATE,
    Cluster,
    Rendering,
    manifests,
    rendering,
)

CLUSTER = Cluster("registry.example/reefcast:1", "events", volume="20Gi")
MEMBERS = """
[[broker]]
name = "north"  # the capital
listen = "127.0.0.1:7401"
admin = "127.0.0.1:9001"
[[broker]]
name = "South_1"
listen = "127.0.0.1:7402"
[[link]]
between = ["north", "South_1"]
[[storage]]
name = "s1"
broker = "north"
topics = ["orders/#"]
directory = "history/s1"
"""
OPEN = '[network]\nname = "Office"\ninsecure = true\n' + MEMBERS
TLS = '[tls]\ncertificate = "c/{broker}.pem"\nauthority = "c/a.pem"\n'
SECURED = (
    '[network]\nname = "office"\n'
    + TLS
    + '[security]\nusers = "people/users.toml"\ntokens = "keys.json"\naudit = "out/audit"\n'
    + '[sessions]\ndirectory = "sessions"\n[limits]\ndrain_s = 20.5\n'
    + MEMBERS
)


CERTIFIED = TLS + MEMBERS.replace('admin = "127.0.0.1:9001"\n', "")
"""Nobody has to say who he is: nobody outside may see the status."""


def found(rendered: Rendering, kind: str) -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each["spec"] if "spec" in each else each["data"]
        for each in rendered.objects
        if each["kind"] == kind
    }


def pod(rendered: Rendering, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pod of a StatefulSet, and its container."""
    spec = found(rendered, "StatefulSet")[name]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


@pytest.mark.long
@pytest.mark.parametrize("text", [OPEN, SECURED])
def test_the_published_schemas_accept_each_object(text: str) -> None:
    import kubernetes_validate

    rendered = rendering(text, CLUSTER)
    read = list(yaml.safe_load_all(manifests(rendered.objects)))
    assert read == json.loads(json.dumps(rendered.objects))
    for each in read:
        kubernetes_validate.validate(each, "1.34", strict=True)
    assert len(found(rendered, "StatefulSet")) == 3


def test_the_schemas_refuse_what_is_wrong() -> None:
    import kubernetes_validate

    (*_, wrong) = rendering(OPEN, CLUSTER).objects
    wrong["spec"]["replicaz"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


def test_each_broker_listens_where_its_pod_is() -> None:
    """A pod's whole name is that of its StatefulSet with -0, in the domain of the Service."""
    rendered = rendering(OPEN, CLUSTER)
    network = parse_network(rendered.text).validate()
    for entry in network.broker:
        host, port = entry.address
        name, service, *rest = host.split(".")
        assert rest == ["events", "svc", "cluster", "local"]
        assert found(rendered, "StatefulSet")[name.removesuffix("-0")]["serviceName"] == service
        assert found(rendered, "Service")[service]["publishNotReadyAddresses"]
        assert port == PORT
    assert found(rendered, "ConfigMap")["office"]["net.toml"] == rendered.text
    assert "# the capital" in rendered.text


def test_a_pod_reads_what_is_there() -> None:
    """Each path in the network file is a file of a volume, and each Secret is said."""
    rendered = rendering(SECURED, CLUSTER)
    network = parse_network(rendered.text).validate()
    for member, name in [
        ("north", "office-north"),
        ("South_1", "office-south-1"),
        ("s1", "office-s1"),
    ]:
        spec, container = pod(rendered, name)
        (volume,) = spec["volumes"]
        sources = volume["projected"]["sources"]
        given = {
            item["path"]
            for source in sources
            for item in source.get("secret", source.get("configMap"))["items"]
        }
        files = network.tls.files(member)
        wanted = {*files, network.security.users, network.security.tokens}
        assert given == {"net.toml", *wanted}
        assert container["args"][:3] == [
            "storage" if member == "s1" else "broker",
            f"{CONFIGURATION}/net.toml",
            member,
        ]
        secrets = {source["secret"]["name"] for source in sources if "secret" in source}
        assert secrets == {f"{name}-certificate", "office-security"} <= set(rendered.secrets)
        assert spec["terminationGracePeriodSeconds"] > network.limits.drain_s
    assert rendered.given == {
        "security/users.toml": "people/users.toml",
        "security/keys.json": "keys.json",
    }
    assert network.security.audit.startswith(STATE)


def test_what_is_kept_has_a_disk() -> None:
    for text, kept in ((OPEN, {"office-s1"}), (SECURED, {"office-s1", "office-north"})):
        for name, spec in found(rendering(text, CLUSTER), "StatefulSet").items():
            claims = spec.get("volumeClaimTemplates", [])
            assert bool(claims) == (name in kept or (text is SECURED and "south" in name))
            for claim in claims:
                assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"


@pytest.mark.parametrize(
    ("text", "probe"),
    [
        (OPEN, {"httpGet": {"path": "/readyz", "port": "admin", "scheme": "HTTP"}}),
        (SECURED, {"httpGet": {"path": "/readyz", "port": "admin", "scheme": "HTTPS"}}),
        (  # a probe has no certificate
            SECURED.replace("[tls]", '[tls]\nclients = "required"'),
            {"tcpSocket": {"port": "reefcast"}},
        ),
        (
            CERTIFIED,
            {"tcpSocket": {"port": "reefcast"}},
        ),
    ],
)
def test_the_cluster_sees_whether_a_broker_serves(text: str, probe: dict[str, Any]) -> None:
    rendered = rendering(text, CLUSTER)
    name = next(each for each in found(rendered, "StatefulSet") if each.endswith("north"))
    _, container = pod(rendered, name)
    assert {**container["readinessProbe"], **probe} == container["readinessProbe"]
    admin = parse_network(rendered.text).validate().admin_address("north")
    assert admin == (("0.0.0.0", ADMIN_PORT) if "admin" in str(container["ports"]) else None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (MEMBERS, r"give the file a section \[tls\]"),
        (OPEN.replace('"South_1"', '"NORTH"'), "'north' and 'NORTH' would both be 'office-north'"),
        (OPEN.replace('"South_1"', '"ö"'), "the name of 'ö' has no letter"),
        (OPEN.replace('"South_1"', f'"{"b" * 50}"'), "more than 52 characters"),
        (OPEN.replace('"history/s1"', '"/data/s1"'), "storage s1: directory '/data/s1'"),
        (
            '[network]\nrouting = "gossip"\n[routing]\ncontacts = ["127.0.0.1:7401"]\n'
            '[[broker]]\nname = "127.0.0.1:7401"\nlisten = "127.0.0.1:7401"\n',
            "named by its address",
        ),
        (OPEN + "#" * 1_000_000, "more than 1000000 bytes"),
    ],
)
def test_what_cannot_run_there_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        rendering(text, CLUSTER)


def test_the_command_writes_files_and_says_what_is_next(tmp_path: Path) -> None:
    file, out = tmp_path / "net.toml", tmp_path / "out"
    file.write_text(SECURED, encoding="utf-8")
    arguments = ["network", "render", str(file), "--kubernetes", "--directory", str(out)]
    done = CliRunner().invoke(group, arguments)
    assert done.exit_code == 0, done.output
    assert (out / "net.toml").is_file() and (out / "reefcast.yaml").is_file()
    _, certificates, *secrets, apply = done.output.splitlines()
    made = CliRunner().invoke(group, shlex.split(certificates)[1:])
    assert made.exit_code == 0, made.output
    assert shlex.split(apply) == ["kubectl", "apply", "-f", str(out / "reefcast.yaml")]
    people, keys = tmp_path / "people" / "users.toml", tmp_path / "keys.json"
    given = [word for line in secrets for word in shlex.split(line) if "--from-file" in word]
    paths = {Path(word.partition("=")[2].partition("=")[2]) for word in given}
    assert {people, keys} <= paths
    assert all(path.is_file() for path in paths - {people, keys})


def test_the_command_in_json(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(OPEN, encoding="utf-8")
    arguments = [
        "network",
        "render",
        str(file),
        "--kubernetes",
        "--directory",
        str(tmp_path),
        "--json",
    ]
    done = CliRunner().invoke(group, arguments)
    told = json.loads(done.output)
    assert {each["kind"] for each in told["objects"]} >= {"ConfigMap", "Service", "StatefulSet"}
    assert told["secrets"] == {}


@pytest.mark.parametrize(("text", "listens"), [(OPEN, True), (SECURED, True), (CERTIFIED, False)])
def test_operators_see_storages_where_they_see_brokers(text: str, listens: bool) -> None:
    rendered = rendering(text, CLUSTER)
    [entry] = parse_network(rendered.text).validate().storage
    assert entry.admin_address == (("0.0.0.0", ADMIN_PORT) if listens else None)
    [(name, spec)] = [each for each in found(rendered, "StatefulSet").items() if "s1" in each[0]]
    template = spec["template"]
    [container] = template["spec"]["containers"]
    ports = [{"name": "admin", "containerPort": ADMIN_PORT}] if listens else []
    assert container.get("ports", []) == ports
    assert ("readinessProbe" in container) is ("prometheus.io/port" in str(template)) is listens
    if listens:
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert rendered.hosts["s1"].startswith(f"{name}-0.")


LISTENERS = """
[[listener]]
broker = "north"
protocol = "mqtt"
listen = "127.0.0.1:1883"
websocket = "127.0.0.1:8080"
content = "json"  # old devices
tls = false
[[listener]]
broker = "north"
protocol = "mqtt"
listen = "127.0.0.1:1884"
[[listener]]
broker = "South_1"
protocol = "mqtt"
listen = "127.0.0.1:1885"
"""
KEPT = OPEN.replace("[[broker]]", '[sessions]\ndirectory = "sessions"\n[[broker]]', 1)


@pytest.mark.parametrize(
    ("text", "first", "web"), [(KEPT, 1883, 8083), (SECURED, 8883, 8084)], ids=["open", "secured"]
)
def test_mqtt_is_on_the_same_ports_of_all_brokers(text: str, first: int, web: int) -> None:
    import kubernetes_validate

    rendered = rendering(text + LISTENERS, CLUSTER)
    for each in rendered.objects:
        kubernetes_validate.validate(each, "1.34", strict=True)
    network = parse_network(rendered.text).validate()
    assert "# old devices" in rendered.text and network.listener[0].content == "json"
    listening = [(each.broker, each.addresses) for each in network.listener]
    assert listening == [
        ("north", (("0.0.0.0", first), ("0.0.0.0", web))),
        ("north", (("0.0.0.0", first + 1),)),
        ("South_1", (("0.0.0.0", first),)),
    ]
    assert {
        each.speaks_tls(host, network.tls.on)
        for each in network.listener
        for host, _ in each.addresses
    } == {text is SECURED}
    ports = {
        name: {
            each["name"]: each["containerPort"] for each in pod(rendered, name)[1].get("ports", ())
        }
        for name in found(rendered, "StatefulSet")
    }
    wanted = {
        member: {
            port for broker, addresses in listening if broker == member for _, port in addresses
        }
        for member in ("north", "South_1", "s1")
    }
    for member, name in (("north", "north"), ("South_1", "south-1"), ("s1", "s1")):
        of_mqtt = {port for each, port in ports[f"office-{name}"].items() if "mqtt" in each}
        assert of_mqtt == wanted[member]
    service = found(rendered, "Service")["office-clients"]["ports"]
    assert {each["port"]: each.get("targetPort") for each in service} == {
        PORT: None,
        **{port: f"mqtt-{port}" for port in sorted(wanted["north"] | wanted["South_1"])},
    }
    assert all(ports["office-north"][f"mqtt-{port}"] == port for port in wanted["north"])


def test_without_mqtt_nothing_speaks_of_it() -> None:
    assert "mqtt" not in manifests(rendering(SECURED, CLUSTER).objects)
