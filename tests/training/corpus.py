"""This module makes the corpus: short stories, each generated from its own seed, so that any part can be made alone.

    python corpus.py 3              # three stories from the start of the training text
    python corpus.py 3 --unseen     # three of those reserved for measuring

Stories for measuring are other draws of the same kinds; none of them is in the training part word for word. The text was
written for this project; it is dedicated to the public domain (CC0 1.0), as are all stories generated from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from hashlib import sha256
from random import Random

from stories import story

#: Number of stories of the training text, and of the unseen text.
TRAINING, UNSEEN = 24_000, 400


def stories(part: str, count: int) -> Iterator[str]:
    """The first stories of a part, `training` or `unseen`."""
    for number in range(count):
        yield story(Random(f"i2s-spec {part} {number}"))


def unseen(training: set[str], count: int = UNSEEN) -> list[str]:
    """Unseen stories, without those that the training text also contains."""
    return [text for text in stories("unseen", count) if text not in training]


def digest(texts: list[str]) -> str:
    """A hash that identifies a text."""
    return sha256("\n\n".join(texts).encode()).hexdigest()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Print stories of the corpus.")
    arguments.add_argument("count", type=int, nargs="?", default=5)
    arguments.add_argument("--unseen", action="store_true")
    given = arguments.parse_args()
    for number, text in enumerate(stories("unseen" if given.unseen else "training", given.count)):
        print(("\n" if number else "") + text)
