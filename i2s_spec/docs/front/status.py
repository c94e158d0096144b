"""This module says in one line where the specification stands: version, date, status, repository, and how much there is."""

from __future__ import annotations

import re
import tomllib
from html import escape

from i2s_spec._version import __version__
from i2s_spec.docs.checkout import root
from i2s_spec.docs.requirements import requirements
from i2s_spec.draw.made_by import made_at
from i2s_spec.linter.rules import all_rules


def line() -> str:
    """The line as HTML; the date is that of the build, or `SOURCE_DATE_EPOCH`."""
    facts = [
        f"Package {escape(__version__)}{escape(_next())}",
        f"built {made_at():%Y-%m-%d}",
        "status: draft; numbers of clauses, requirements and rules are never reused",
        f'<a href="requirements.html">{len(requirements())} requirements</a>',
        f'<a href="rules/index.html">{sum(1 for _ in all_rules())} rules</a>',
    ]
    if repository := _repository():
        facts.append(f'<a href="{escape(repository)}">repository</a>')
    return f'<p class="i2s-status">{" · ".join(facts)}</p>'


def _next() -> str:
    """The version that the changes since the last release belong to."""
    path = root() / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    heading = re.search(r"^## (\S+)", text, re.MULTILINE)
    return f", with the changes of {heading[1]}" if heading and heading[1] != __version__.partition(".dev")[0] else ""


def _repository() -> str:
    """The address that the package declares; empty where it declares none."""
    path = root() / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"] if path.is_file() else {}
    urls = {name.lower(): address for name, address in project.get("urls", {}).items()}
    return str(urls.get("repository") or urls.get("source") or "")
