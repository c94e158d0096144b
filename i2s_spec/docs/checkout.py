"""This module finds the chapters: they are in a checkout, beside the package or around the current folder.

An editable install has them beside it. Any other install is used with the checkout that one stands in, or with the one whose
`mkdocs.yml` mkdocs reads, which says so by `mkdocs_hook.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from i2s_spec._version import __version__
from i2s_spec.errors import SettingError, quote

#: Files that a checkout has, and no other folder; the last one is where the package itself is not.
_TEXT: Final = ("mkdocs.yml", "spec/index.md")
_VERSION: Final = "i2s_spec/_version.py"

#: The checkout that somebody named, which comes before any that is found.
_named: list[Path] = []


def use(folder: Path) -> None:
    """Take the text of a checkout from now on, wherever the package lies.

    :raises SettingError: for a folder that is not a checkout, and for one of another version, whose text says other things
    """
    folder = folder.resolve()
    if not _is_checkout(folder):
        raise SettingError(f"{quote(str(folder))} is not a checkout of i2s-spec")
    _require_version(folder)
    _named[:] = [folder]


def root() -> Path:
    """The folder of the checkout: the one that was named, that this package was imported from, or that one stands in.

    :raises SettingError: where there is none, or only one of another version
    """
    if _named:
        return _named[0]
    folder = Path(__file__).resolve().parents[2]
    if all((folder / mark).is_file() for mark in _TEXT):
        return folder
    here = Path.cwd()
    for place in (here, *here.parents):
        if _is_checkout(place):
            _require_version(place)
            return place
    raise SettingError(
        "the text of the specification is not part of the installed package: clone the repository, and run this again "
        "in the clone"
    )


def chapters() -> Path:
    """The folder of the chapters.

    :raises SettingError: as `root`
    """
    return root() / "spec"


def pages() -> list[Path]:
    """Every page that somebody wrote, in the order in which a reader meets them: chapters, annexes, tutorials, others."""
    folder = chapters()

    def place(path: Path) -> tuple[int, int, str]:
        number = path.name.partition("-")[0]
        return (0, int(number), "") if number.isdigit() and path.parent == folder else (1, 0, str(path))

    return sorted((path for path in folder.rglob("*.md") if path.parent.name != "rules"), key=place)


def _is_checkout(folder: Path) -> bool:
    return all((folder / mark).is_file() for mark in (*_TEXT, _VERSION))


def _require_version(folder: Path) -> None:
    found = re.search(r'__version__ = "([^"]+)"', (folder / _VERSION).read_text(encoding="utf-8"))
    if found is None or found[1] != __version__:
        theirs = quote(found[1], bare=True) if found is not None else "unknown"
        raise SettingError(
            f"the checkout {quote(str(folder))} is of version {theirs}, and the installed package of {__version__}: "
            "run `pip install .` in it"
        )
