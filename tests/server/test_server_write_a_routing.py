"""The routing that write-a-routing.md builds, in the simulator and over real connections."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_brokers import Live

import reefcast
from live_networks import until
from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, read_network
from reefcast.overlay.topology import Graph, hops_from, names, random_tree
from reefcast.routing.registry import routing_named
from reefcast.server.supervisor import free_ports
from reefcast.simulation.checkers import Evidence, check
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

GUIDE = (Path(__file__).parents[2] / "docs" / "how-to" / "write-a-routing.md").read_text()
MODULE, SCRIPT = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
(NETWORK,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
WANDER = "wander:Wander"


@pytest.fixture(autouse=True, scope="module")
def wander(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Put the module of the guide where Python finds it; yield its folder."""
    folder = tmp_path_factory.mktemp("wander")
    (folder / "wander.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def test_it_takes_under_80_lines() -> None:
    assert len(MODULE.splitlines()) < 80


def test_the_script_shows_what_the_guide_says() -> None:
    with redirect_stdout(StringIO()) as shown:
        exec(compile(SCRIPT, "write-a-routing.md", "exec"), {"__name__": "script"})
    (promised,) = re.findall(r"It prints\n\n```text\n(.*?)```", GUIDE, re.DOTALL)
    assert shown.getvalue() == promised


def mesh(rng: random.Random) -> Graph:
    """Return a random tree with a few more links, so that walks can meet what was flooded."""
    made = random_tree(names(rng.randint(2, 8)), rng)
    for a in made:
        for b in made:
            if a < b and b not in made[a] and rng.random() < 0.2:
                made[a] = sorted([*made[a], b])
                made[b] = sorted([*made[b], a])
    return made


def random_run(seed: int, flood_hops: int, **options: int) -> Simulation:
    rng = random.Random(seed)
    kind = routing_named(WANDER)
    wanted = kind.options(flood_hops=flood_hops, **options)
    simulation = Simulation(Setup(graph=mesh(rng), routing=WANDER, seed=seed, options=wanted))
    brokers = list(simulation.setup.graph)
    for number in range(rng.randint(1, 6)):
        filter = rng.choice(("x < 3", "x >= 2", "TRUE"))
        simulation.subscribe(f"s{number}", rng.choice(brokers), filter, at_s=0.0)
    for number in range(20):
        at_s = 1.0 + rng.random() * 0.01
        simulation.publish(
            f"p{number % 3}", brokers[number % 3 % len(brokers)], {"x": number % 6}, at_s
        )
    simulation.run()
    return simulation


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 3), st.integers(0, 3), st.integers(0, 5))
def test_the_common_invariants_hold(seed: int, flood: int, walks: int, walk_hops: int) -> None:
    simulation = random_run(seed, flood, walks=walks, walk_hops=walk_hops)
    check(simulation).require()
    evidence = Evidence(simulation)
    near = {pair for pair in evidence.demanded if hops_between(simulation, pair) <= flood}
    assert near <= set(evidence.delivered)  # what flooding reaches is not left to chance
    far = flood + walk_hops
    assert all(hops_between(simulation, pair) <= far for pair in evidence.delivered)


def hops_between(simulation: Simulation, pair: tuple[str, int, str, int]) -> int:
    clients = simulation.world.clients
    publisher, subscriber = clients[pair[0]].broker, clients[pair[2]].broker
    return hops_from(simulation.setup.graph, publisher)[subscriber]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_flooding_far_enough_delivers_what_flooding_delivers(seed: int) -> None:
    wide = random_run(seed, 20)
    assert check(wide).expected == len(Evidence(wide).delivered)


def test_one_seed_gives_one_run() -> None:
    first, second = (random_run(7, 1, walks=2, walk_hops=4) for _ in range(2))
    assert Evidence(first).delivered == Evidence(second).delivered
    assert first.result() == second.result()


def test_its_options_are_checked() -> None:
    with pytest.raises(ConfigurationError, match=r"\[routing\].*no key 'flood_hop'; it has flood"):
        read_network(NETWORK.replace("flood_hops", "flood_hop"))
    with pytest.raises(ConfigurationError, match=r"wander:Nobody.*cannot be imported"):
        read_network(NETWORK.replace("wander:Wander", "wander:Nobody"))
    with pytest.raises(ConfigurationError, match="is not a subclass"):
        read_network(NETWORK.replace("wander:Wander", "wander:WanderOptions"))


async def test_it_runs_over_real_connections(live: Live) -> None:
    text = NETWORK
    for old, new in zip(range(7301, 7305), free_ports(4), strict=True):
        text = text.replace(f":{old}", f":{new}")
    network = read_network(text)
    nodes = await live.up(network)
    async with AsyncExitStack() as stack:
        subscriptions = {}
        for name in nodes:
            client = await stack.enter_async_context(reefcast.connect(_url(network, name)))
            subscriptions[name] = await client.subscribe("n >= 5")
            await subscriptions[name].settled()
        publisher = await stack.enter_async_context(reefcast.connect(_url(network, "a")))
        for n in range(10):
            await publisher.publish(n=n)
        # Flooding reaches the neighbours; from each a walk goes on to c, the only way left.
        for subscription in subscriptions.values():
            got = [(await anext(subscription))["n"] for _ in range(5)]
            assert got == [5, 6, 7, 8, 9]
        assert nodes["b"].host.core.counters["walked"] > 0
        # After eight more links, twice round the ring, a walk ends at the broker it set out from.
        counts = [nodes[name].host.core.counters for name in "bd"]
        await until(lambda: [count["duplicate"] for count in counts] == [10, 10])
        assert not any(subscription.waiting for subscription in subscriptions.values())


def _url(network: NetworkFile, broker: str) -> str:
    host, port = network.address(broker)
    return f"reefcast://{host}:{port}"


def test_the_command_of_the_guide_runs(wander: Path) -> None:
    (wander / "wander.toml").write_text(NETWORK)
    (line,) = re.findall(r"PYTHONPATH=\. reefcast (simulate .*)", GUIDE)
    fewer = line.replace("--publications 1000", "--publications 100")
    assert fewer != line
    reefcast_command = Path(sys.executable).parent / "reefcast"
    done = subprocess.run(
        [reefcast_command, *fewer.split()],
        cwd=wander,
        env={"PYTHONPATH": ".", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "copies on a walk" in done.stdout
