"""The page about MQTT, docs/mqtt.md, with the table of what is in docs/mqtt-statements.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = "<!-- statements:"
"""How the line begins behind which the tables are."""
STANDARDS = {"5.0": "MQTT 5.0", "3.1.1": "MQTT 3.1.1"}


def page() -> str:
    """Return the page: its text as it is, and the tables."""
    text = (DOCS / "mqtt.md").read_text(encoding="utf-8")
    at = text.index("\n", text.index(MARK))
    stated = tomllib.loads((DOCS / "mqtt-statements.toml").read_text(encoding="utf-8"))
    return text[: at + 1] + "".join(
        _table(title, [each for each in stated["statement"] if each["version"] == version])
        for version, title in STANDARDS.items()
    )


def _table(title: str, statements: list[dict[str, str]]) -> str:
    lines = [f"\n### {title}\n", _summary(statements), "| statement | what it asks | test |"]
    lines.append("|---|---|---|")
    lines += [f"| {each['id']} | {each['says']} | {_shown(each)} |" for each in statements]
    return "\n".join(lines) + "\n"


def _summary(statements: list[dict[str, str]]) -> str:
    tested, unmet = (sum(key in each for each in statements) for key in ("test", "unmet"))
    rest = len(statements) - tested - unmet
    return f"{tested} are shown by tests, {rest} do not apply, {unmet} are not met.\n"


def _shown(statement: dict[str, str]) -> str:
    if "unmet" in statement:
        return f"**Not met.** {statement['unmet']}"
    if "why" in statement:
        return f"Does not apply. {statement['why']}"
    path, _, name = statement["test"].partition("::")
    return f"[{name.partition('[')[0]}](../{path})"
