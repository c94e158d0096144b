"""This module finds the chapters: they are in a checkout beside the package, and in no installed package."""

from __future__ import annotations

from pathlib import Path

from i2s_spec.errors import SettingError


def root() -> Path:
    """The folder of the checkout that this package was imported from.

    :raises SettingError: where the package is installed without one
    """
    folder = Path(__file__).resolve().parents[2]
    if not (folder / "mkdocs.yml").is_file() or not (folder / "spec" / "index.md").is_file():
        raise SettingError(
            "the text of the specification is not part of the installed package: clone the repository, "
            "`pip install -e '.[docs]'` there, and run this again"
        )
    return folder


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
