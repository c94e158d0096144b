"""What verbs open where no file is named: the trained model that comes with the package."""

from __future__ import annotations

from typing import Any


def origin(path: str | None) -> Any:
    """What to open for an argument that may be left out: the path itself, or the model of the package."""
    if path is not None:
        return path
    from i2s_spec.convert.trained.model import source

    return source()


def named(path: str | None) -> str:
    """What that is called where a path would be printed."""
    if path is not None:
        return path
    from i2s_spec.convert.trained.model import label

    return label()
