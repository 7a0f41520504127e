"""The files of the papers' folders: claims, curves and texts that belong together, and the
errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from unmade_pages import with_unmade

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments import overview, page, table
from reefcast_lab.experiments.campaign import (
    SCALES,
    Claim,
    Measured,
    Paper,
    PaperPoint,
    Plot,
    Point,
)
from reefcast_lab.experiments.clusters.claims import FILES as CLUSTERS
from reefcast_lab.experiments.covering.claims import FILES as COVERING
from reefcast_lab.experiments.evidence_tables import Case
from reefcast_lab.experiments.gossip.claims import FILES as GOSSIP
from reefcast_lab.experiments.mesh.claims import FILES as MESH
from reefcast_lab.experiments.octopia.claims import FILES as OCTOPIA
from reefcast_lab.experiments.outage.claims import FILES as OUTAGE
from reefcast_lab.experiments.paper_files import PaperFiles
from reefcast_lab.experiments.registry import NAMES, papers
from reefcast_lab.experiments.sharing.claims import FILES as SHARING
from reefcast_lab.experiments.skew.claims import FILES as SKEW
from reefcast_lab.experiments.storage.claims import FILES as STORAGE
from reefcast_lab.experiments.tenfold.claims import FILES as TENFOLD
from reefcast_lab.experiments.undone.claims import FILES as UNDONE

DOCS = Path(__file__).parents[3] / "docs" / "reproduction"
PAIRED = {"effect", "difference", "gap", "wins"}
"""The kinds of claims that compare two routings."""
PAPERS = (OCTOPIA, COVERING, MESH, GOSSIP, STORAGE)
ALL_FILES = (*PAPERS, UNDONE, SHARING, OUTAGE, SKEW, CLUSTERS, TENFOLD)
FILES = {files.name: files for files in ALL_FILES}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def paper(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    """Return each of the papers; runs that need real data are listed as if there were some."""
    one = papers()[name]
    if one.data_variable:
        monkeypatch.setenv(one.data_variable, str(tmp_path / "any"))
    return one


@pytest.mark.parametrize("scale", SCALES)
def test_every_claim_compares_runs_that_there_are(paper: Paper, scale: str) -> None:
    sizes: dict[tuple[str, str], set[float]] = {}
    for campaign in paper.campaigns:
        runs = campaign.runs(scale)
        assert len(set(runs)) == len(runs)
        for run in runs:
            assert run.campaign == campaign.name
            sizes.setdefault((campaign.name, run.routing), set()).add(run.x)
    for claim in paper.claims:
        assert bool(claim.against) == (claim.kind in PAIRED), claim
        of = sizes[claim.campaign, claim.of]
        shared = of & sizes[claim.campaign, claim.against or claim.of]
        assert {min(of), max(of)} & shared, claim
        # Small runs may have one size alone; then there is no figure.
        assert len(shared) > 1 or claim.kind not in ("gap", "flat") or scale == "small", claim


def test_every_figure_of_the_paper_has_its_place_and_every_explanation_its_note(
    paper: Paper,
) -> None:
    for claim in paper.claims:
        assert claim.source or claim.paper is None, claim
        assert not claim.explained or (claim.note and claim.paper is not None), claim
        assert not claim.explained or claim.cause, claim
        assert not claim.cause or (claim.note and claim.paper is not None), claim
    said = [(claim.id, claim.metric) for claim in paper.claims]
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("name", with_unmade(NAMES))
def test_every_curve_is_published(paper: Paper) -> None:
    made = overview.read(DOCS / f"{paper.name}.md")
    assert made is not None and not overview.unmade(paper, made)
    for plot in paper.plots:
        assert (DOCS / page.picture(paper, plot)).is_file(), plot


def test_every_curve_is_of_a_campaign_and_of_claims(paper: Paper) -> None:
    names = {campaign.name for campaign in paper.campaigns}
    ids = {claim.id for claim in paper.claims}
    for plot in paper.plots:
        assert plot.campaign in names and plot.ids and set(plot.ids) <= ids, plot
    assert len({plot.name for plot in paper.plots}) == len(paper.plots)


@pytest.mark.parametrize("name", with_unmade(NAMES))
def test_the_published_page_says_what_the_files_say(paper: Paper) -> None:
    """This covers everything but what is measured: a claim that is changed needs `experiment
    report` again."""
    made = overview.read(DOCS / f"{paper.name}.md")
    assert made is not None
    rows = [table.Finding(claim, None, None, 0) for claim in paper.claims]
    assert [(line.id, line.what, line.paper) for line in made.lines] == [
        (row.claim.id, page.cell(row.claim.metric), page.cell(table.paper_text(row)))
        for row in rows
    ]
    for line, claim in zip(made.lines, paper.claims, strict=True):
        assert (line.state == "explained") == claim.explained, claim
        assert (line.state == "no figure of the paper") == (claim.paper is None), claim
        assert line.state != "not reproduced" or claim.cause, claim
    text = made.file.read_text(encoding="utf-8")
    assert all(page.cell(claim.note) in text for claim in paper.claims)
    assert paper.setting in text
    files = FILES[paper.name]
    for part in files.parts():
        if f"### {part.title}" in text and not files.computed.keys() & files.names_in(part):
            assert files.texts.filled(part.text) in text


def test_every_point_of_the_paper_lies_on_a_line_and_has_its_place(paper: Paper) -> None:
    for plot in paper.plots:
        runs = [run for run in paper.campaign(plot.campaign).runs("paper") if not run.variant]
        sizes = {run.x for run in runs}
        for point in plot.points:
            assert {point.line, point.over or point.line} <= {run.routing for run in runs}, point
            assert point.source.strip() and point.line != point.over, point
            assert point.panel is None or (plot.by == "at" and point.panel in sizes), point
            if plot.by == "x" and point.x is not None:
                assert min(sizes) <= point.x <= max(sizes), point
                assert point.x in sizes or not point.over, point


def test_every_part_of_the_evidence_is_of_runs_that_there_are(paper: Paper) -> None:
    for part in FILES[paper.name].parts():
        runs = paper.campaign(part.campaign).runs("paper")
        routings = {run.routing for run in runs}
        assert routings & {*(part.routings or routings)}, part
        assert not part.beside or paper.campaign(part.beside)
        assert part.text or part.columns, part
        assert {*part.variants} <= {"", *(run.variant for run in runs)}, part


@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_used_and_every_value_named(name: str) -> None:
    files = FILES[name]
    known = {*files.texts.written, *files.texts.given, *files.computed}
    assert known == files.named()


# --- reading --------------------------------------------------------------------------------------

CLAIMS = """\
[[claims]]
id = "R1"
campaign = "crossing"
measure = "messages"
of = "acyclic"
note = "{why}"
figures = [
    { metric = "messages of {size}" },
    { metric = "the same, over flooding", kind = "effect", against = "flooding", paper = -0.9 },
]
"""
PAGE = """\
[[plots]]
name = "crossing"
title = "Messages"
campaign = "crossing"
measure = "messages"
x_label = "brokers"
y_label = "messages"
ids = ["R1"]
"""
NOTES = """\
# A toy

## why

it is {shorter}; of
two lines

and two paragraphs

## setting

All is made up.

## shorter

a tree of {size}
"""


def toy(folder: Path, claims: str = CLAIMS, page: str = PAGE, notes: str = NOTES) -> PaperFiles:
    for name, text in (("claims.toml", claims), ("page.toml", page), ("notes.md", notes)):
        (folder / name).write_text(text, encoding="utf-8")
    return PaperFiles(folder, "toy", {"size": 7})


def test_what_a_group_says_holds_for_each_of_its_figures(tmp_path: Path) -> None:
    files = toy(tmp_path)
    note = "it is a tree of 7; of two lines\n\nand two paragraphs"
    assert files.claims() == (
        Claim("toy/R1", "messages of 7", "level", "crossing", "messages", "acyclic", note=note),
        Claim(
            "toy/R1",
            "the same, over flooding",
            "effect",
            "crossing",
            "messages",
            "acyclic",
            "flooding",
            -0.9,
            note,
        ),
    )
    assert files.paper((), tmp_path / "parameters.toml").title == "A toy"
    assert files.plots() == (
        Plot(
            "crossing", "Messages", "crossing", "messages", "brokers", "messages", "x", ("toy/R1",)
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("paper =", "papre =", r"claims\.toml: R1, 'the same, .*: there is no 'papre'; take id"),
        (
            'note = "{why}"',
            'cause = "us"',
            r"R1, 'messages of .*, cause: there is no 'us'; take ours",
        ),
        ('"effect"', '"affect"', r"R1, 'the same, .*, kind: there is no 'affect'; take effect"),
        ("{why}", "{because}", r"notes\.md has no text 'because'"),
        ('measure = "messages"\n', "", r"R1, 'messages of {size}' has no 'measure'"),
    ],
)
def test_a_claim_that_cannot_be_read_is_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        toy(tmp_path, CLAIMS.replace(old, new)).claims()


def test_what_a_paper_states_of_a_curve_is_read(tmp_path: Path) -> None:
    points = """points = [
        { line = "acyclic", x = 5, y = 4, source = "Fig. 1" },
        { line = "flooding", y = 2, over = "acyclic", panel = 1, source = "text" },
    ]"""
    [plot] = toy(tmp_path, page=f"{PAGE}{points}\n").plots()
    assert plot.points == (
        PaperPoint("acyclic", 4, "Fig. 1", x=5),
        PaperPoint("flooding", 2, "text", panel=1, over="acyclic"),
    )


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ('line = "acyclic", y = 4', r"page\.toml: 'crossing', points has no 'source'"),
        ('line = "acyclic", z = 4, source = "text"', r"'crossing', points: there is no 'z'; take"),
    ],
)
def test_a_point_without_its_place_is_refused(tmp_path: Path, point: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        toy(tmp_path, page=f"{PAGE}points = [{{ {point} }}]\n").plots()


def test_a_curve_over_nothing_is_refused(tmp_path: Path) -> None:
    files = toy(tmp_path, page=f'{PAGE}by = "time"\n')
    with pytest.raises(ConfigurationError, match=r"'crossing', by: there is no 'time'; take x, at"):
        files.plots()


PARTS = f"""\
routings = ["flooding", "acyclic"]

{PAGE}
[columns]
costs = [["messages", "messages"], ["delay, ms", "delay_s", 1000]]

[[evidence]]
campaign = "crossing"
title = "All figures"
text = "{{most}} messages, {{shorter}}."
x = "brokers"
routing = "routing"
descending = true
columns = ["costs"]

[[evidence]]
campaign = "another"
text = "It was measured."
"""


def test_evidence_is_texts_and_tables_of_what_was_measured(tmp_path: Path) -> None:
    toy(tmp_path, page=PARTS)
    computed = {"most": lambda found: found.cell("crossing", "messages", Case(10, "flooding"))}
    files = PaperFiles(tmp_path, "toy", {"size": 7}, computed)
    points = [
        Point("crossing", metric, routing, variant, x, 0.0, mean, interval, 2)
        for metric, routing, variant, x, mean, interval in (
            ("messages", "acyclic", "", 10, 1.5, 0.25),
            ("messages", "flooding", "", 10, 9.0, None),
            ("messages", "flooding", "", 5, 4.0, None),
            ("delay_s", "flooding", "", 5, 0.012, None),
            ("messages", "flooding", "half", 5, 7.0, None),
            ("messages", "nobody", "", 5, 7.0, None),
        )
    ]
    assert files.evidence(Measured("small", points, [])) == [
        "### All figures",
        "9 messages, a tree of 7.",
        "| brokers | routing | messages | delay, ms |\n"
        "| --:|---|--:|--: |\n"
        "| 10 | flooding | 9 | - |\n"
        "| 10 | acyclic | 1.5 ± 0.25 | - |\n"
        "| 5 | flooding | 4 | 12 |\n",
    ]
    assert files.evidence(Measured("small", [], [])) == []


def test_columns_that_no_table_shares_are_refused(tmp_path: Path) -> None:
    files = toy(tmp_path, page=PARTS.replace('["costs"]', '["cost"]'))
    with pytest.raises(ConfigurationError, match="'All figures', columns: there is no 'cost'"):
        files.parts()


def test_texts_that_name_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'why' names itself"):
        toy(tmp_path, notes=NOTES.replace("a tree", "{why}")).claims()
