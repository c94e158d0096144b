"""Everything of the site that is made from declarations, by its path below `spec/`; nothing of it is in git.

`PAGES` are files as a whole; `architectures.pages` and `rules` make one for each architecture and for each rule. A table of
`TABLES` stands in a chapter in the place of a fence `i2s-table` with its name, which `with_tables` replaces; mkdocs then
sees Markdown, and checks the links in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from i2s_site import (
    annexes,
    architectures,
    commands,
    damage,
    decoders,
    exports,
    install,
    inventories,
    layouts,
    notebook,
    requirements,
    runtimes,
)
from i2s_site.checkout import chapters
from i2s_site.examples import Drift
from i2s_spec.cli import rule_pages
from i2s_spec.draw import svg
from i2s_spec.exports import javascript

#: Files below `spec/`, and what makes them.
PAGES: Final[dict[str, Callable[[], str]]] = {
    "requirements.md": requirements.page,
    "register.md": requirements.register_page,
    "register.tsv": requirements.as_tsv,
    "register.json": requirements.as_json,
    "conformance-vectors.md": annexes.vectors_page,
    "runtimes.md": runtimes.page,
    "decoders.md": decoders.page,
    "wrong-answers.md": decoders.wrong_page,
    "damage.md": damage.page,
    "layouts.md": layouts.page,
    "annexes/registry.md": annexes.registry_page,
    "install.md": install.page,
    "commands.md": commands.page,
    "annexes/shaders.md": exports.shaders_page,
    "annexes/kernels.md": exports.kernels_page,
    "tutorials/notebook.md": notebook.page,
    "tutorials/notebook.ipynb": notebook.as_ipynb,
    "assets/palette.css": svg.site_style,
    "assets/layouts.js": javascript.text,
}

#: Tables of chapters by the names that their fences have.
TABLES: Final[dict[str, Callable[[], str]]] = {
    "architectures": inventories.architectures_declared,
    "kinds": inventories.kinds_of_files,
    "projectors": inventories.projectors,
    "order of keys": inventories.order_of_keys,
    "order of tensors": inventories.order_of_tensors,
    "activations": inventories.activations,
    **{f"keys {clause}": partial(inventories.keys_of, clause) for clause in inventories.KEY_CLAUSES},
    **{f"tensors {clause}": partial(inventories.tensors_of, clause) for clause in inventories.TENSOR_CLAUSES},
    "dialects": runtimes.dialects,
    "scales": annexes.scales,
    "quantizers": runtimes.quantizers,
    "converters": runtimes.converters,
    "releases": runtimes.releases,
    "runtimes": runtimes.runtimes,
    "advisories": runtimes.advisories,
    "exports": exports.read_by,
    "JSON schemas": exports.schema_list,
    "statements": annexes.statements,
    **{f"requirements {name}": partial(requirements.listed, name) for name in requirements.CLASSES},
}

_TABLE: Final = re.compile(r"^```i2s-table\n([^(\n]+?) *(?:\([^\n]*\))?\n```\n", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return the generated files but for the pages of the rules."""
    return {name: make() for name, make in PAGES.items()} | architectures.pages() | exports.schemas()


def rules() -> dict[str, str]:
    """Return the pages of the rules, which take half a minute: the commands on them are run.

    :raises MissingExtra: if one of them needs an extra
    """
    return {f"rules/{name}": text for name, text in rule_pages.pages(chapters()).items()}


def with_tables(markdown: str) -> str:
    """Return a page with its tables in the place of the fences that name them.

    :raises Drift: for a name that no table has
    """
    return _TABLE.sub(lambda found: table(found[1]), markdown)


def table(name: str) -> str:
    """Return a table by its name.

    :raises Drift: if no table has it
    """
    if name not in TABLES:
        raise Drift(f"no table is called {name}; there are {', '.join(TABLES)}")
    return TABLES[name]()


def everything() -> dict[str, str]:
    """Return the generated files, and the chapters that have tables with these in place."""
    made = pages() | rules()
    for path in sorted(chapters().glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if _TABLE.search(text):
            made[path.name] = with_tables(text)
    return made
