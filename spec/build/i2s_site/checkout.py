"""Where the text is: this folder's checkout, its chapters, and every page that somebody wrote."""

from __future__ import annotations

from pathlib import Path


def root() -> Path:
    """Return the folder of the checkout."""
    return Path(__file__).resolve().parents[3]


def chapters() -> Path:
    """Return the folder of the chapters."""
    return root() / "spec"


def pages() -> list[Path]:
    """Every page that somebody wrote, in the order in which a reader meets them: chapters, annexes, tutorials, others."""
    folder = chapters()

    def place(path: Path) -> tuple[int, int, str]:
        number = path.name.partition("-")[0]
        return (0, int(number), "") if number.isdigit() and path.parent == folder else (1, 0, str(path))

    return sorted(folder.rglob("*.md"), key=place)
