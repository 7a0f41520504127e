"""What a router sees of its links: the driver's queue lengths, and the rates of the last window."""

from __future__ import annotations

from routing_scenarios import one_link

from reefcast.routing.links import Links, Overload, Rates


class Queues:
    def queue_len(self, link: str) -> int:
        return {"b": 7}.get(link, 0)


def test_queue_lengths_are_the_drivers() -> None:
    assert Links(Queues()).queue_len("b") == 7
    assert Links().queue_len("b") == 0


def test_what_the_present_input_has_put_on_a_link_counts_already() -> None:
    """The driver learns of it only when the whole batch is routed."""
    links = Links(Queues(), Overload(tau=8))
    links.pass_time(0.0)
    links.goes("b")
    assert (links.queue_len("b"), links.lst.overloaded("b")) == (8, False)
    links.goes("b")
    assert (links.queue_len("b"), links.lst.overloaded("b")) == (9, True)
    assert links.lst.found_overloaded == {"b": 1}
    links.pass_time(0.001)
    assert links.queue_len("b") == 7


def test_rates_are_those_of_the_last_whole_window() -> None:
    links = Links()
    links.pass_time(10.1)
    links.came("b", 3)
    links.goes("c")
    assert links.rates("b") == Rates(0, 0)
    links.pass_time(11.6)
    assert links.rates("b") == Rates(3, 0)
    assert links.rates("c") == Rates(0, 1)
    links.came("b", 1)
    links.pass_time(12.1)
    assert links.rates("b") == Rates(1, 0)
    links.pass_time(14.9)  # a window without any input lies between
    assert links.rates("b") == Rates(0, 0)


def test_the_broker_counts_what_passes() -> None:
    network = one_link()
    for _ in range(5):
        network.publish("p", x=1)
    network.run()
    for broker in network.brokers.values():
        broker.links.pass_time(1.0)
    assert network.brokers["a"].router.links.rates("b") == Rates(0, 5)
    assert network.brokers["b"].router.links.rates("a") == Rates(5, 0)
