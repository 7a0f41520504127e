"""What stands below the table: all figures of all runs."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Measured
from reefcast_lab.experiments.evidence_tables import Section, tables
from reefcast_lab.experiments.storage import advertising, readings, real, trees

COLUMNS = (
    ("mean hops", "mean_hops"),
    ("computed", "computed"),
    ("none is below", "bound"),
    ("storages", "brokers_with_storages"),
    ("requests at the busiest", "busiest_share"),
    ("to the end of an answer (s)", "answer_s"),
    ("messages for a request", "messages"),
    ("copies sent of a publication", "copies_sent"),
)

TEXT = (
    "`mean hops`: simulated; `computed`: from the rates, over all requests. `optimum`: the best "
    "placement with the same limits, to within 1 %; no placement is below the bound beside it. "
    "`grd_opt` has no limits, and so may be below. Messages and copies are those between brokers: "
    "a request and its answer, and what it costs to bring a publication to all storages of its "
    "topic; links take 10 ms."
)

CAPACITY = (
    "There are as few storages as can keep all copies. So with more room there may be fewer of "
    "them, and more hops even with the best placement."
)

POPULAR = (
    "The rates of a topic vary between 0 and a highest rate of its own, which is drawn from 0 to 1."
)

READINGS = (
    "What the paper leaves open. `savings`: the gain of a broker in step 1 is what all requests "
    "would save by a storage there; the paper's formula, P x D, counts only what passes through "
    "it. `k rounds`: `rnd` takes the brokers that as many rounds as copies chose most often, where "
    "ours has as many rounds as storages. By savings pub/sub is nearer to grd_opt than to rnd from "
    "half of all topics on; with little room it is not, in any reading: what it lacks there is "
    "lost by the limits. A `rnd` of k rounds is nearer to pub/sub."
)


def _section(campaign: str, title: str, x_title: str, text: str = "") -> Section:
    return Section(campaign, title, x_title, text, COLUMNS, "placement")


SECTIONS = (
    _section(trees.BROKERS, "Over the number of brokers (S1)", "brokers", TEXT),
    _section(trees.CAPACITY, "Over what a storage keeps (S2)", "topics of a storage", CAPACITY),
    _section(trees.COPIES, "Over the copies of a topic (S3)", "copies"),
    _section(trees.POPULAR_BROKERS, "S1, topics of different popularity", "brokers", POPULAR),
    _section(trees.POPULAR_CAPACITY, "S2, topics of different popularity", "topics of a storage"),
    _section(readings.NAME, "Other readings", "topics of a storage", READINGS)._replace(
        columns=(("mean hops, computed", "computed"),)
    ),
    _section(
        advertising.NAME,
        "What brokers are told of storages",
        "brokers",
        "Messages between brokers until all know of all storages, one storage after the other; and "
        "until all know that one of them is gone. Left alone: of all brokers and topics of that "
        "storage, those that know no other one then, though there is one.",
    )._replace(
        columns=(
            ("messages to tell", "messages_to_tell"),
            ("messages when one goes", "messages_to_withdraw"),
            ("left alone", "left_alone"),
        ),
        routing_title="rule",
    ),
    _section(
        real.NAME,
        "A real network (our own)",
        "copies",
        "With all its links: it is no tree, and requests take the shortest ways. Publications are "
        "flooded there, so that copies are no cost of the storages.",
    )._replace(columns=(*COLUMNS, ("brokers", "brokers"))),
)


def evidence(measured: Measured) -> list[str]:
    """Markdown."""
    return tables(measured.points, SECTIONS)
