"""The site of the documentation: `make site`.

The sources are the pages as they are, with links that also work on a code host. So the source
folder is the repository, and pages outside of `docs/` to which `docs/` links belong to the site.
The index pages (`README.md`) say what is in which section: their links become the navigation.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README"
SECTIONS = ("tutorial", "how-to", "reference", "explanation", "reproduction")
TITLES = {
    "reproduction/README": "Reproduction <reproduction/README>",
    "../CHANGELOG": "Changelog <../CHANGELOG>",
    "../lab/README": "Laboratory <../lab/README>",
}
"""What the navigation calls a page whose heading says more."""

project = "Reefcast"
author = "The Reefcast developers"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
html_title = f"Reefcast {release}"

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = INDEX
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/*/*.md",
    "lab/README.md",
    "examples/*.md",
    "examples/*/*.md",
]
exclude_patterns = [".*", "out", "dist", "build"]
myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False
suppress_warnings = [
    "misc.highlighting_failure",  # signatures in the reference are no whole programs
    "toc.not_included",  # pages outside of `docs/` are linked where they belong
]
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"

# Without a network: no fonts, scripts or icons from elsewhere.
html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
pygments_dark_style = "github-dark"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["index.html"]


def setup(app: Sphinx) -> None:
    app.connect("source-read", _add_navigation)


def _add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Adds the links of an index page to the navigation, in their order."""
    folder, _, page = name.rpartition("/")
    if page == "README" and folder in {"docs", *(f"docs/{each}" for each in SECTIONS)}:
        links = re.findall(r"^- .*?\]\(([^)#:]+)\.md\)", source[0], re.MULTILINE)
        if folder == "docs/reproduction":
            links = re.findall(r"^\| [^|]+ \| \[\w+\.md\]\((\w+)\.md\) \|", source[0], re.MULTILINE)
        entries = "\n".join(TITLES.get(link, link) for link in dict.fromkeys(links))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
