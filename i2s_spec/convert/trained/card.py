"""This module reads the cards of the trained models: data, sizes, losses and digests, kept beside each file as JSON."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent

#: The models, and the architectures with which each can be written.
MODELS: Final = {
    "stories": ("bitnet-b1.58", "bitnet-25", "bitnet"),
    "llama": ("llama",),
}

#: The model that verbs use if no file is given.
DEFAULT: Final = "stories"
#: Its default prompt: the tokens of "One morning", because encoding needs an extra.
OPENING: Final = (46, 77, 68, 494)


@cache
def card(name: str = DEFAULT) -> dict[str, Any]:
    """The card of a model.

    >>> card()["license"], card()["architecture"]
    ('CC0-1.0', 'bitnet-b1.58')
    """
    stored: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return stored


@cache
def unseen_text() -> str:
    """Five stories of the test part of the corpus, on which no model was trained."""
    return (HERE / "unseen.txt").read_text(encoding="utf-8")
