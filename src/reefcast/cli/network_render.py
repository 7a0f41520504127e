"""`reefcast network render`: a network file for the machines of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast import __version__
from reefcast.cli.options import DIRECTORY, json_option, network_argument

if TYPE_CHECKING:
    from reefcast.network.kubernetes import Rendering

CERTIFICATE_KEY, TEXT, MANIFESTS = "tls.crt", "net.toml", "reefcast.yaml"


@click.command("render")
@network_argument
@click.option("--kubernetes", is_flag=True, required=True, help="Write objects for Kubernetes.")
@click.option(
    "--image",
    default=f"reefcast:{__version__}",
    show_default=True,
    help="The image that pods run, made from deploy/Containerfile.",
)
@click.option(
    "--namespace", default="default", show_default=True, help="The namespace of all objects."
)
@click.option(
    "--domain", default="cluster.local", show_default=True, help="The domain of the cluster."
)
@click.option(
    "--volume",
    metavar="SIZE",
    default="10Gi",
    show_default=True,
    help="The size of the disk of each broker with durable sessions, and of each storage.",
)
@click.option(
    "--directory",
    "out",
    type=DIRECTORY,
    default=Path("out/kubernetes"),
    show_default=True,
    help="Write the files into this directory.",
)
@json_option("the files, the objects in them, and the Secrets that they need")
def command(
    *,
    network: Path,
    kubernetes: bool,
    image: str,
    namespace: str,
    domain: str,
    volume: str,
    out: Path,
    as_json: bool,
) -> None:
    """Write NETWORK as objects for Kubernetes.

        reefcast network render net.toml --kubernetes

    In the directory there are a network file with the addresses that pods have, and a file for
    `kubectl apply`: a StatefulSet for each broker and each storage, Services, a ConfigMap, and a
    budget of one pod that may be missing. Keys, certificates and users are not in it: the command
    says which Secrets to make. Nothing in the cluster changes.
    """
    from reefcast.network.kubernetes import Cluster, manifests, rendering

    assert kubernetes  # the only one so far; a file for something else is another flag
    cluster = Cluster(image, namespace, domain, volume)
    rendered = rendering(network.read_bytes().decode(), cluster)
    out.mkdir(parents=True, exist_ok=True)
    files = {TEXT: rendered.text, MANIFESTS: manifests(rendered.objects)}
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
    if as_json:
        objects = [
            {"kind": each["kind"], "name": each["metadata"]["name"]} for each in rendered.objects
        ]
        paths = [str(out / name) for name in files]
        click.echo(
            json.dumps({"files": paths, "objects": objects, "secrets": rendered.secrets}, indent=2)
        )
        return
    _say_what_next(rendered, network.parent, out, namespace)


def _say_what_next(rendered: Rendering, folder: Path, out: Path, namespace: str) -> None:
    click.echo(f"{out / TEXT} and {out / MANIFESTS} are written. Next:")
    if any(CERTIFICATE_KEY in files for files in rendered.secrets.values()):
        hosts = "".join(f" --host {broker}={host}" for broker, host in rendered.hosts.items())
        click.echo(f"  reefcast certificates make {out / TEXT}{hosts}")
    for name, files in rendered.secrets.items():
        where = {
            key: folder / rendered.given[path] if path in rendered.given else out / path
            for key, path in files.items()
        }
        given = " ".join(f"--from-file={key}={file}" for key, file in where.items())
        click.echo(f"  kubectl -n {namespace} create secret generic {name} {given}")
    click.echo(f"  kubectl apply -f {out / MANIFESTS}")
