"""A network file as objects for Kubernetes, and as the file that brokers there read.

Each broker and each storage is a StatefulSet of one pod, because each is somebody of its own: it
has a name that others dial, and a disk with its sessions or its history. A pod's own name leads to
it by `/etc/hosts`, before the cluster's name service knows the pod, so a broker can listen on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, read_network
from reefcast.network.sections import OWN_NAME, BrokerEntry, StorageEntry

PORT, ADMIN_PORT = 7301, 9464
EVERYWHERE = "0.0.0.0"
ADMIN = f"{EVERYWHERE}:{ADMIN_PORT}"
MQTT_PORTS = {"listen": (1883, 8883), "websocket": (8083, 8084)}
"""Where the first MQTT listener of each broker is, without and with TLS; others are above it."""
CONFIGURATION, STATE = "/etc/reefcast", "/var/lib/reefcast"
"""Where a pod has the network file with secrets beside it, and its disk."""
USER = 10001
"""The user of the container file."""
PATIENCE_S = 10
"""Seconds that a pod may take to end, beyond the time to drain its queues."""
MOST_NAME_CHARS = 52
"""The longest name of a StatefulSet whose pods get all of their labels."""
MOST_FILE_BYTES = 1_000_000
"""What fits into a ConfigMap."""
_FILES = ("users", "tokens", "key")
"""The keys of `[security]` that name files; brokers only read them."""


Files = dict[str, str]
"""The keys of a Secret, each with where its file is, beside the network file."""


class Cluster(NamedTuple):
    """Where a network is to run. `volume`: the size of each disk, as Kubernetes writes it."""

    image: str
    namespace: str = "default"
    domain: str = "cluster.local"
    volume: str = "10Gi"


class Rendering(NamedTuple):
    """What a network is in a cluster. `text`: the network file that its pods read; `secrets`: the
    Secrets that it needs, which `objects` does not contain; `given`: for files of secrets that
    exist already, where they are beside the given network file; `hosts`: for each broker, the name
    by which its clients may reach it or another one, and for each storage with an admin listener
    that of its pod."""

    text: str
    objects: list[dict[str, Any]]
    secrets: dict[str, Files]
    given: dict[str, str]
    hosts: dict[str, str]


def rendering(text: str, cluster: Cluster) -> Rendering:
    """Return a network file's text as a network in a cluster. Raises `ConfigurationError` for what
    cannot run there, with what to change."""
    given = read_network(text)
    names = Names(given, cluster)
    there = _text_there(text, given, names)
    network = read_network(there)
    if len(there.encode()) > MOST_FILE_BYTES:
        raise ConfigurationError(
            f"the network file has more than {MOST_FILE_BYTES} bytes, which no ConfigMap holds: "
            "take out comments"
        )
    secrets = dict(pair for member in names.of for pair in _secrets(network, member, names))
    files = dict(_security_there(given))
    hosts = dict.fromkeys(network.names, f"{names.clients}.{cluster.namespace}.svc")
    hosts |= {each.name: names.host(each.name) for each in network.storage if each.admin}
    return Rendering(
        there,
        list(_objects(network, there, names, cluster)),
        secrets,
        {path: getattr(given.security, key) for key, path in files.items() if key in _FILES},
        hosts,
    )


class Names:
    """The names of a network and of its members in a cluster, which are names of hosts, too."""

    def __init__(self, network: NetworkFile, cluster: Cluster) -> None:
        self.network = host_name(network.network.name, "the network")
        self.of: dict[str, str] = {}
        whose: dict[str, str] = {}
        members: list[BrokerEntry | StorageEntry] = [*network.broker, *network.storage]
        for entry in members:
            name = f"{self.network}-{host_name(entry.name, entry.name)}"
            if len(name) > MOST_NAME_CHARS:
                raise ConfigurationError(
                    f"{name!r} has more than {MOST_NAME_CHARS} characters, which is too long for a "
                    "StatefulSet: shorten the name of the network, or of the broker or storage"
                )
            if name in whose:
                raise ConfigurationError(
                    f"{whose[name]!r} and {entry.name!r} would both be {name!r} in a cluster, "
                    "whose names have small letters, digits and '-' only: rename one"
                )
            whose[name] = entry.name
            self.of[entry.name] = name
        self._domain = f"{self.network}.{cluster.namespace}.svc.{cluster.domain}"

    def host(self, member: str) -> str:
        """Return the whole name by which a member's pod is reached."""
        return f"{self.of[member]}-0.{self._domain}"

    def certificate(self, member: str) -> str:
        return f"{self.of[member]}-certificate"

    @property
    def clients(self) -> str:
        return f"{self.network}-clients"

    @property
    def security(self) -> str:
        return f"{self.network}-security"


def host_name(name: str, whose: str) -> str:
    """Return a name with the characters that names of hosts may have. Raises `ConfigurationError`
    if nothing is left of it."""
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not found:
        raise ConfigurationError(f"the name of {whose!r} has no letter a to z and no digit")
    return found


# --- the network file -----------------------------------------------------------------------------


def _text_there(text: str, given: NetworkFile, names: Names) -> str:
    """Return the network file with the addresses and paths of the cluster; the rest stays."""
    import tomlkit

    _check(given)
    document: Any = tomlkit.parse(text)
    for entry in document["broker"]:
        entry["listen"] = f"{names.host(entry['name'])}:{PORT}"
        entry.pop("admin", None)
    _move_listeners(document.get("listener", ()), given.tls.on)
    document.pop("admin", None)
    for entry in document.get("storage", ()):
        entry.pop("admin", None)
    if given.network.insecure or (given.tls.on and given.security is not None):
        document["admin"] = {"listen": ADMIN}
        for entry in document.get("storage", ()):
            entry["admin"] = ADMIN
    if given.tls.on:
        document["tls"].update(
            certificate=f"certificates/{OWN_NAME}.pem",
            key=f"certificates/{OWN_NAME}.key",
            authority="certificates/authority.pem",
        )
    if given.security is not None:
        document["security"].update(dict(_security_there(given)))
    return tomlkit.dumps(document)


def _move_listeners(entries: Iterable[Any], has_tls: bool) -> None:
    """Have the listeners of all brokers on the same ports of their pods, so that clients of the
    Service need not know which broker they reach."""
    count: dict[str, int] = {}
    for entry in entries:
        number = count[entry["broker"]] = count.get(entry["broker"], -1) + 1
        for key, ports in MQTT_PORTS.items():
            if entry.get(key):
                entry[key] = f"{EVERYWHERE}:{ports[has_tls] + number}"
        entry.pop("tls", None)  # no address there is on loopback


def _security_there(given: NetworkFile) -> Iterator[tuple[str, str]]:
    """Yield the keys of `[security]` that have paths, with those of the cluster."""
    if given.security is None:
        return
    for key in _FILES:
        if path := getattr(given.security, key):
            yield key, f"security/{PurePosixPath(path).name}"
    if given.security.audit:
        yield "audit", f"{STATE}/audit"


def _check(network: NetworkFile) -> None:
    """Raise `ConfigurationError` for what cannot run in pods."""
    for entry in network.broker:
        if entry.is_peer:
            raise ConfigurationError(
                f"broker {entry.name} is named by its address, which it does not keep in a "
                "cluster: give it a name"
            )
    places = [
        ("[sessions]", network.sessions.directory),
        ("[requests]", network.requests.directory),
        ("[trace]", network.trace.directory),
        ("[statistics]", network.statistics.directory),
        *((f"storage {entry.name}", entry.directory) for entry in network.storage),
    ]
    for where, directory in places:
        if directory.startswith("/") and not PurePosixPath(directory).is_relative_to(STATE):
            raise ConfigurationError(
                f"{where}: directory {directory!r} is not on the disk of a pod, which is "
                f"{STATE}: make it relative"
            )


def _secrets(network: NetworkFile, member: str, names: Names) -> Iterator[tuple[str, Files]]:
    """Yield the names of the Secrets that a member of the rendered network needs, and their
    files."""
    if network.tls.on:
        yield (
            names.certificate(member),
            {
                "tls.crt": f"certificates/{member}.pem",
                "tls.key": f"certificates/{member}.key",
                "ca.crt": "certificates/authority.pem",
            },
        )
    paths = [path for key in _FILES if (path := getattr(network.security, key, ""))]
    if paths:
        yield names.security, {PurePosixPath(path).name: path for path in paths}


# --- objects --------------------------------------------------------------------------------------


def _objects(
    network: NetworkFile, text: str, names: Names, cluster: Cluster
) -> Iterator[dict[str, Any]]:
    def of(kind: str, api: str, name: str, **content: Any) -> dict[str, Any]:
        metadata = {
            "name": name,
            "namespace": cluster.namespace,
            "labels": _labels(names),
        }
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}

    yield of("ConfigMap", "v1", names.network, data={"net.toml": text})
    everybody = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,  # brokers need each other to become ready
        "selector": _labels(names),
        "ports": _ports(network),
    }
    yield of("Service", "v1", names.network, spec=everybody)
    # By a port's name, so that only brokers with such a listener are asked.
    mqtt = [
        {**each, "targetPort": each["name"]} for each in _listener_ports(network, network.names)
    ]
    ports = [*_ports(network)[:1], *mqtt]
    for_clients = {"selector": _labels(names, "broker"), "ports": ports}
    yield of("Service", "v1", names.clients, spec=for_clients)
    one_at_a_time = {"maxUnavailable": 1, "selector": {"matchLabels": _labels(names)}}
    yield of("PodDisruptionBudget", "policy/v1", names.network, spec=one_at_a_time)
    for member in names.of:
        kind = "broker" if member in network.names else "storage"
        spec = _stateful_set(network, kind, member, names, cluster)
        yield of("StatefulSet", "apps/v1", names.of[member], spec=spec)


def _labels(names: Names, component: str = "", member: str = "") -> dict[str, str]:
    labels = {
        "app.kubernetes.io/name": "reefcast",
        "app.kubernetes.io/instance": names.network,
        "app.kubernetes.io/component": component,
        "reefcast/member": member,
    }
    return {key: value for key, value in labels.items() if value}


def _ports(network: NetworkFile, kind: str = "broker") -> list[dict[str, Any]]:
    """Return where members of this kind listen: storages for operators only."""
    client = [{"name": "reefcast", "port": PORT}] if kind == "broker" else []
    return [*client, {"name": "admin", "port": ADMIN_PORT}] if network.admin.listen else client


def _listener_ports(network: NetworkFile, brokers: Iterable[str]) -> list[dict[str, Any]]:
    """Return where some of these brokers listen for clients of other protocols."""
    listeners = [each for each in network.listener if each.broker in brokers]
    found = {(port, each.protocol) for each in listeners for _, port in each.addresses}
    return [{"name": f"{protocol}-{port}", "port": port} for port, protocol in sorted(found)]


def _stateful_set(
    network: NetworkFile, kind: str, member: str, names: Names, cluster: Cluster
) -> dict[str, Any]:
    labels = _labels(names, kind, names.of[member])
    keeps = kind == "storage" or bool(network.sessions.directory)
    template = {
        "metadata": {"labels": labels, "annotations": _annotations(network)},
        "spec": _pod(network, kind, member, names, cluster, keeps=keeps),
    }
    claim = {
        "metadata": {"name": "state"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": cluster.volume}},
        },
    }
    return {
        "serviceName": names.network,
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": template,
        **({"volumeClaimTemplates": [claim]} if keeps else {}),
    }


def _annotations(network: NetworkFile) -> dict[str, str]:
    """Return where Prometheus finds metrics, by the annotations that its usual set-up reads."""
    if not network.admin.listen:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(ADMIN_PORT),
        "prometheus.io/scheme": "https" if network.tls.on else "http",
    }


def _pod(
    network: NetworkFile, kind: str, member: str, names: Names, cluster: Cluster, *, keeps: bool
) -> dict[str, Any]:
    container = {
        "name": kind,
        "image": cluster.image,
        "args": [kind, f"{CONFIGURATION}/net.toml", member, "--log-format", "json"],
        "workingDir": STATE,
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "configuration", "mountPath": CONFIGURATION, "readOnly": True},
            {"name": "state", "mountPath": STATE},
        ],
    }
    if ports := [*_ports(network, kind), *_listener_ports(network, [member])]:
        named = [{"name": each["name"], "containerPort": each["port"]} for each in ports]
        container |= {"ports": named, **_probes(network, ports[0]["name"])}
    volumes: list[dict[str, Any]] = [_configuration(network, member, names)]
    if not keeps:
        volumes.append({"name": "state", "emptyDir": {}})
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": math.ceil(network.limits.drain_s) + PATIENCE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _labels(names)},
            }
        ],
        "containers": [container],
        "volumes": volumes,
    }


def _probes(network: NetworkFile, port: str) -> dict[str, Any]:
    """Return how the cluster sees that a broker or a storage lives and serves. A probe shows no
    certificate: where clients must, it can only see that this port is open."""
    if network.admin.listen and network.tls.clients != "required":
        scheme = "HTTPS" if network.tls.on else "HTTP"

        def probe(path: str) -> dict[str, Any]:
            return {"httpGet": {"path": path, "port": "admin", "scheme": scheme}}

        alive, ready = probe("/healthz"), probe("/readyz")
    else:
        alive = ready = {"tcpSocket": {"port": port}}
    return {
        "startupProbe": {**alive, "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**alive, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {**ready, "periodSeconds": 5, "timeoutSeconds": 5},
    }


def _configuration(network: NetworkFile, member: str, names: Names) -> dict[str, Any]:
    """Return the volume with the network file and the member's secrets beside it; new ones come
    into a running pod by themselves."""
    files = {"key": "net.toml", "path": "net.toml"}
    sources: list[dict[str, Any]] = [{"configMap": {"name": names.network, "items": [files]}}]
    for name, secret in _secrets(network, member, names):
        items = [{"key": key, "path": path} for key, path in secret.items()]
        sources.append({"secret": {"name": name, "items": items}})
    return {"name": "configuration", "projected": {"defaultMode": 0o440, "sources": sources}}


def manifests(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as YAML, with texts of several lines as such."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True  # what stands twice is written twice, as people do

        def represent_text(self, text: str) -> Any:
            style = "|" if "\n" in text else None
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, Dumper.represent_text)
    return yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, explicit_start=True)
