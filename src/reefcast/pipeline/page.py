"""HTML pages that need no other file: what the reports have in common."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from reefcast.pipeline import units


@dataclass(frozen=True, slots=True)
class Card:
    """A headline figure; `tone` is "", "good" or "bad"."""

    value: str
    name: str
    more: str
    tone: str = ""


HERE = "reefcast.pipeline"


def render_page(template: str, package: str = HERE, **values: object) -> str:
    """Return the HTML of a template of `package`, which may extend those of this package. One that
    extends `page.html.j2` needs `title`, `kind` ("live" or "simulated"), `cards`, and `facts`,
    (name, value) of how the run was made."""
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, HERE))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {
        "count": units.count,
        "counted": units.counted,
        "duration": units.duration,
        "size": units.size,
    }
    return pages.get_template(template).render(**values)
