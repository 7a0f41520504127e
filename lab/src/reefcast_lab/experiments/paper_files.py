"""Reads what a paper's folder says in files: claims, curves and tables (TOML), texts (Markdown).

`claims.toml` lists the claims, `page.toml` the curves and the evidence, `notes.md` the texts under
headings. A text names another one, or a value that the paper's module gives, in braces: "{model}".
What is measured stands in none of them: evidence names what is computed from results instead.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from string import Formatter
from typing import Any, get_args

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.campaign import (
    Axis,
    Campaign,
    Cause,
    Claim,
    Kind,
    Measured,
    Paper,
    PaperPoint,
    Plot,
    Where,
)
from reefcast_lab.experiments.evidence_tables import Column, Found, Part

_CHOICES = {
    "kind": get_args(Kind),
    "where": get_args(Where),
    "by": get_args(Axis),
    "cause": get_args(Cause),
}
_DEFAULTS = {"kind": "level", "by": "x"}

HOLE = "\0"
"""Stands for a computed value in an outline."""

Computed = Mapping[str, Callable[[Found], object]]
"""What is computed from everything measured, by the name that texts have for it."""


class Texts(dict[str, object]):
    """Texts by heading, and values by name; a text is filled in when it is asked for."""

    def __init__(self, file: Path, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self.file, self.given = file, frozenset(values)
        self.title, self.written = _sections(file.read_text(encoding="utf-8"))
        self._open: list[str] = []

    def __missing__(self, name: str) -> str:
        if name not in self.written:
            raise ConfigurationError(f"{self.file} has no text {name!r}")
        if name in self._open:
            raise ConfigurationError(f"{self.file}: {name!r} names itself")
        self._open.append(name)
        try:
            return self.filled(self.written[name])
        finally:
            self._open.pop()

    def filled(self, text: str) -> str:
        """Fill in what a text names in braces.

        Raises `ConfigurationError` for a name that there is not.
        """
        return text.format_map(self)

    def named_in(self, text: str) -> Iterator[str]:
        """Yield the names in a text, and in the texts that it names."""
        for _, name, _, _ in Formatter().parse(text):
            if name is not None:
                yield name
                yield from self.named_in(self.written.get(name, ""))

    def with_values(self, values: Mapping[str, object]) -> Texts:
        """Return the same texts, with more values."""
        more = copy.copy(self)
        more.update(values)
        return more


def _sections(markdown: str) -> tuple[str, dict[str, str]]:
    """Return the title, and the paragraphs by the heading above them; line breaks within a
    paragraph become spaces."""
    title, *parts = markdown.split("\n## ")
    found = {}
    for part in parts:
        heading, _, text = part.partition("\n")
        paragraphs = (" ".join(lines.split()) for lines in text.strip().split("\n\n"))
        found[heading.strip()] = "\n\n".join(paragraphs)
    return title.strip().removeprefix("# "), found


class PaperFiles:
    """The files in one paper's folder; `values`: what texts name that is no text itself."""

    def __init__(
        self,
        folder: Path,
        name: str,
        values: Mapping[str, object] | None = None,
        computed: Computed | None = None,
    ) -> None:
        self.name = name
        self.computed = computed or {}
        self.texts = Texts(folder / "notes.md", values or {})
        self.claims_file, self.page_file = folder / "claims.toml", folder / "page.toml"
        self._claims, self._page = _toml(self.claims_file), _toml(self.page_file)

    def paper(
        self,
        campaigns: tuple[Campaign, ...],
        parameters_file: Path,
        data: Callable[[], str] = str,
        data_variable: str = "",
    ) -> Paper:
        """Return the paper, with its texts: `notes.md` begins with its title."""
        return Paper(
            name=self.name,
            title=self.texts.title,
            campaigns=campaigns,
            claims=self.claims(),
            plots=self.plots(),
            parameters_file=parameters_file,
            setting=str(self.texts["setting"]),
            evidence=self.evidence,
            outline=self.outline,
            data=data,
            data_variable=data_variable,
        )

    def claims(self) -> tuple[Claim, ...]:
        """Return all claims, in their order; a key of a group holds for each of its figures."""
        return tuple(map(self._claim, self._figures()))

    def plots(self) -> tuple[Plot, ...]:
        """Return the curves of the page, in their order."""
        return tuple(map(self._plot, self._page.get("plots", ())))

    def parts(self) -> tuple[Part, ...]:
        """Return the parts of the evidence, in their order."""
        return tuple(map(self._part, self._page.get("evidence", ())))

    def evidence(self, measured: Measured) -> list[str]:
        """Return paragraphs and tables for the page; parts without results are left out."""
        found = Found(measured)
        shown = (part for part in self.parts() if part.cases(found))
        return [text for part in shown for text in self._shown(part, found)]

    def outline(self) -> list[str]:
        """Return the blocks of the evidence without results: titles, paragraphs with `HOLE` in the
        place of each computed value, and the heads of tables."""
        return [block for part in self.parts() for block in self._outlined(part)]

    def _outlined(self, part: Part) -> Iterator[str]:
        if part.title:
            yield f"### {part.title}"
        if part.text:
            holes = dict.fromkeys(self.computed.keys() & self.names_in(part), HOLE)
            yield from self.texts.with_values(holes).filled(part.text).split("\n\n")
        if part.columns:
            yield part.table(Found(Measured("", [], []))).rstrip("\n")

    def _shown(self, part: Part, found: Found) -> Iterator[str]:
        if part.title:
            yield f"### {part.title}"
        named = self.computed.keys() & self.names_in(part)
        text = self.texts.with_values({name: self.computed[name](found) for name in named})
        if part.text:
            yield text.filled(part.text)
        if part.columns:
            yield part.table(found)

    def names_in(self, part: Part) -> set[str]:
        """Return the texts and values that a part of the evidence names."""
        return set(self.texts.named_in(part.text))

    def named(self) -> set[str]:
        """Return the texts and values that claims or the page name."""
        said = [entry.get(key, "") for entry in self._figures() for key in ("metric", "note")]
        said += [part.text for part in self.parts()]
        return {name for text in ("{setting}", *said) for name in self.texts.named_in(text)}

    def _figures(self) -> Iterator[dict[str, Any]]:
        for group in self._claims["claims"]:
            common = {key: value for key, value in group.items() if key != "figures"}
            yield from (common | figure for figure in group["figures"])

    def _claim(self, entry: dict[str, Any]) -> Claim:
        where = f"{self.claims_file}: {entry.get('id')}, {entry.get('metric')!r}"
        _check(where, entry, Claim)
        said = {key: self.texts.filled(entry.get(key, "")) for key in ("metric", "note")}
        given: dict[str, Any] = {"kind": _DEFAULTS["kind"], **entry, **said}
        return Claim(**given | {"id": self._id(entry["id"])})

    def _plot(self, entry: dict[str, Any]) -> Plot:
        _check(f"{self.page_file}: {entry.get('name')!r}", entry, Plot)
        given: dict[str, Any] = {"by": _DEFAULTS["by"], **entry}
        points = tuple(self._point(entry["name"], point) for point in entry.get("points", ()))
        return Plot(**given | {"ids": tuple(map(self._id, entry["ids"])), "points": points})

    def _point(self, plot: str, entry: dict[str, Any]) -> PaperPoint:
        _check(f"{self.page_file}: {plot!r}, points", entry, PaperPoint)
        return PaperPoint(**entry)

    def _part(self, entry: dict[str, Any]) -> Part:
        where = f"{self.page_file}: {entry.get('title') or entry.get('text')!r}"
        _check(where, entry, Part)
        shared = {"routing", "routings"} & self._page.keys()
        given: dict[str, Any] = {**{key: self._page[key] for key in shared}, **entry}
        given |= {key: tuple(given[key]) for key in ("routings", "variants") if key in given}
        return Part(**given | {"columns": tuple(self._columns(where, entry.get("columns", ())))})

    def _columns(self, where: str, entries: Iterable[Any]) -> Iterator[Column]:
        """Yield columns. An entry is [title, metric, times], or the name of columns that tables
        share."""
        shared = self._page.get("columns", {})
        for entry in entries:
            if isinstance(entry, str):
                _known(f"{where}, columns", [entry], shared)
                yield from self._columns(where, shared[entry])
            else:
                yield Column(*entry)

    def _id(self, row: str) -> str:
        return f"{self.name}/{row}"


def _toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _check(
    where: str, entry: Mapping[str, Any], kind: type[Claim | Plot | Part | PaperPoint]
) -> None:
    """Raise `ConfigurationError` for an unknown key or word, and for a missing key."""
    _known(where, entry, [field.name for field in fields(kind)])
    needed = (field.name for field in fields(kind) if field.default is MISSING)
    for name in {*needed} - {*entry, *_DEFAULTS}:
        raise ConfigurationError(f"{where} has no {name!r}")
    for key, choices in _CHOICES.items():
        _known(f"{where}, {key}", [entry[key]] if key in entry else [], choices)


def _known(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    for one in set(given) - set(known):
        raise ConfigurationError(f"{where}: there is no {one!r}; take {', '.join(known)}")
