"""The script of a torture: what publishers, sessions and faults do in a random network."""

from __future__ import annotations

from reefcast.simulation.torture.judging import judge
from reefcast.simulation.torture.network import Network


class Torture:
    """A run of a network in which everything happens that may; its generator chooses."""

    def __init__(self, network: Network, publications: int) -> None:
        self.network, self.rng = network, network.rng
        self.left = publications
        self.wants = 0

    def run(self, rounds: int = 60) -> list[str]:
        """Let it happen, then let all come to an end; return what is wrong."""
        network, rng = self.network, self.rng
        for name in rng.sample(network.names, min(2, len(network.names))):
            self._new_publisher(name)
        self._want()
        if rng.random() < 0.7:
            network.settle()
        for _ in range(rounds):
            network.run(rng.choice((0, 1, 2, 5, 20)))
            self._something()
            if network.problems:
                return network.problems
        return judge(network)

    def _new_publisher(self, broker: str) -> None:
        name = f"p{len(self.network.publishers)}"
        advertises = self.rng.choice(("", "x >= 0", "x >= 0 AND x < 10"))
        self.network.publisher(name, broker, advertises)

    def _want(self) -> None:
        network, rng = self.network, self.rng
        if self.wants < 6:
            self.wants += 1
            name = f"s{rng.randrange(3)}"
            wanted = network.sessions.get(name)
            home = rng.choice(network.names) if wanted is None else wanted.home
            filter = f"x >= {rng.randrange(8)}"
            if wanted is None or filter not in wanted.asked:
                network.want(name, home, filter)

    def _something(self) -> None:
        network, rng = self.network, self.rng
        down = [name for name in network.names if name not in network.cores]
        roll = rng.random()
        if roll < 0.45 and self.left:
            publisher = rng.choice(sorted(network.publishers.values(), key=lambda p: p.name))
            for _ in range(rng.choice((1, 1, 3))):
                if publisher.broker in network.cores and self.left:
                    self.left -= 1
                    publisher.publish({"x": rng.randrange(10)}, confirm=rng.random() < 0.8)
        elif roll < 0.60 and network.cores:
            network.kill(rng.choice(sorted(network.cores)))
        elif roll < 0.78 and down:
            network.start(rng.choice(down))
        elif roll < 0.84:
            edge = rng.choice(network.edges)
            network.cut ^= {(min(edge), max(edge))}
        elif roll < 0.90:
            network.pass_time(rng.choice((0.5, 3.0, 6.0, 30.0)))
        elif roll < 0.93 and down:
            network.give_up(rng.choice(down))
        elif roll < 0.95:
            self._want()
        elif roll < 0.98:
            network.pass_by(rng.choice(network.names), f"x >= {rng.randrange(8)}")
        else:
            publisher = rng.choice(sorted(network.publishers.values(), key=lambda p: p.name))
            publisher.move(rng.choice(network.names))
