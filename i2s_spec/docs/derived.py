"""This module lists everything in `spec/` that is written from declarations, writes it, and tells whether it is current.

The pages of the rules, of the requirements, of the register, of the vectors, of the runtimes, of decoders, of the
registry and of the layouts that weights tell, the script of the interactive page, the picture of the README and the
pages at former addresses are written as a whole; of chapters 5, 7, 11 and 12 the tables that repeat declarations, which are
found by their heads. Nothing else in the folder is touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from i2s_spec.docs import pages, redirects, requirements, runtimes
from i2s_spec.docs.annexes import decoders_page, register, registry_page, vectors_page
from i2s_spec.docs.before_after import Run
from i2s_spec.docs.checkout import chapters
from i2s_spec.docs.front.picture import picture
from i2s_spec.docs.layouts import matrix_page
from i2s_spec.docs.notebooks import executed
from i2s_spec.draw import palette
from i2s_spec.errors import MissingExtra, SettingError, quote
from i2s_spec.exports import javascript
from i2s_spec.gguf.atomic_file import OutputFile

#: The folder of the pages of rules.
RULES: Final = "rules"


def _with(*makers: Callable[[], str]) -> Callable[[str], str]:
    """A page with tables made anew."""
    return lambda text: with_tables(text, [make() for make in makers])


def _redirect(former: str) -> Callable[[str], str]:
    return lambda _: redirects.page(former)


#: Files below `spec/`, and what makes them of what they are now.
FILES: Final[dict[str, Callable[[str], str]]] = {
    "05-payload.md": _with(runtimes.dialects),
    "07-dialects.md": _with(runtimes.quantizers, runtimes.converters, runtimes.releases, runtimes.runtimes),
    "11-conformance.md": _with(*(lambda name=name: requirements.listed(name) for name in requirements.CLASSES)),
    "12-security.md": _with(runtimes.advisories),
    "requirements.md": lambda _: requirements.page(),
    "register.md": lambda _: register.page(),
    "register.tsv": lambda _: register.as_tsv(),
    "register.json": lambda _: register.as_json(),
    "conformance-vectors.md": lambda _: vectors_page.page(),
    "runtimes.md": lambda _: runtimes.page(),
    "decoders.md": lambda _: decoders_page.page(),
    "layouts.md": matrix_page.page,
    "annexes/registry.md": lambda _: registry_page.page(),
    "tutorials/notebook.md": lambda _: executed.page(),
    "tutorials/notebook.ipynb": lambda _: executed.as_ipynb(),
    "assets/palette.css": lambda _: palette.site_style(),
    "assets/layouts.js": lambda _: javascript.text(),
    "assets/front.svg": lambda _: picture(),
    **{f"{former}.html": _redirect(former) for former in redirects.RENAMED},
}


def with_tables(text: str, tables: Sequence[str]) -> str:
    """A page in which tables stand in the place of those with the same heads, in their order.

    >>> print(with_tables("a\\n\\n| x |\\n|---|\\n| old |\\n\\nb\\n", ["| x |\\n|---|\\n| new |\\n"]))
    a
    <BLANKLINE>
    | x |
    |---|
    | new |
    <BLANKLINE>
    b
    <BLANKLINE>

    :raises SettingError: for a table whose head the page does not have
    """
    done = ""
    for table in tables:
        head = table.partition("\n")[0]
        before, found, rest = text.partition(f"\n{head}\n")
        if not found:
            raise SettingError(f"the page has no table with the head {quote(head)} where one belongs")
        rows = rest.splitlines(keepends=True)
        left = next((i for i, row in enumerate(rows) if not row.startswith("|")), len(rows))
        done, text = f"{done}{before}\n{table}", "".join(rows[left:])
    return done + text


def write(run: Run) -> list[str]:
    """Write everything that is not current.

    :param run: runs a command line in a folder, and gives its transcript
    :returns: what was written or removed, by its path below `spec/`
    :raises SettingError: where there is no checkout, or a chapter has lost a table
    :raises MissingExtra: where a command on the page of a rule cannot be run without an extra
    """
    folder = chapters()
    changed = []
    for name, make in FILES.items():
        path = folder / name
        before = _read(path)
        after = make(before)
        if after != before:
            with OutputFile(path, force=True) as output:
                output.write(after.encode("utf-8"))
            changed.append(name)
    return changed + [f"{RULES}/{name}" for name in pages.write(folder / RULES, run)]


def check(run: Run, unable: dict[str, MissingExtra] | None = None) -> list[str]:
    """What is not current, a sentence for each; a chapter that has lost a table is one of them.

    :param run: as of `write`
    :param unable: where it is given, pages of rules that cannot be made without an extra are named in it
    :raises SettingError: where there is no checkout
    :raises MissingExtra: where `unable` is not given, for the first such page
    """
    folder = chapters()
    wrong = []
    for name, make in FILES.items():
        text = _read(folder / name)
        try:
            if make(text) != text:
                wrong.append(f"{name} is not what its declarations say")
        except SettingError as error:
            wrong.append(f"{name}: {error}")
        except FileNotFoundError as error:  # what the page is made of
            wrong.append(f"{name}: there is no {quote(os.path.relpath(error.filename, folder), bare=True)}")
    return wrong + [f"{RULES}/{sentence}" for sentence in pages.check(folder / RULES, run, unable)]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
