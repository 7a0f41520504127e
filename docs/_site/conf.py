"""The site of the documentation: `make site`.

The sources are the pages as they are, with links that also work on a code host: so the source folder is
that of the repository, and the pages that `docs/` links to outside of it belong to the site. What
is in which section is said by the index pages (`README.md`), whose links become the navigation.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README"
SECTIONS = ("tutorial", "how-to", "reference", "explanation", "reproduction")

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
suppress_warnings = [
    "misc.highlighting_failure",  # signatures in the reference are no whole programs
]
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"

# Without a network: no fonts, scripts or icons from elsewhere.
html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
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
        entries = "\n".join(dict.fromkeys(links))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
