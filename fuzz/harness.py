"""Parts shared by the harnesses: where their inputs are, and how they run.

Each `fuzz_*.py` has `one_input(data)`, which checks properties that must hold for any bytes. Pytest calls it with all
files in `corpus/` and `regressions/`; run as a program, it searches (`searching.py`). Where the bytes are a GGUF file,
the mutator of `i2s_spec.testing` makes new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.mutator import mutate
from i2s_spec.testing.sample import Draft

HERE = Path(__file__).resolve().parent


def inputs(name: str) -> list[Path]:
    """The stored inputs of a harness: its corpus and its regressions."""
    folders = (HERE / "corpus" / name, HERE / "regressions" / name)
    return sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.name != "README")


def replayed(*names: str) -> pytest.MarkDecorator:
    """Parametrize a test by the stored inputs of harnesses, as `path`: regressions and a third of the corpus; in the
    thorough tier all."""
    paths = [path for name in names for path in inputs(name)]
    quick = {path for path in paths if "corpus" not in path.parts[-3:]} | {*paths[::3]}
    marks = [() if path in quick else pytest.mark.thorough for path in paths]
    given = [pytest.param(path, marks=mark, id=path.name) for path, mark in zip(paths, marks, strict=True)]
    return pytest.mark.parametrize("path", given)


#: A sixth of some inputs, as `sixth`; a quick run takes the first one.
SIXTHS = pytest.mark.parametrize("sixth", [0, *(pytest.param(i, marks=pytest.mark.thorough) for i in range(1, 6))])


def broken(most: int = 20_000, every: int = 1) -> list[bytes]:
    """The malformed files up to a size, or one in `every` of them."""
    return [case.data for case in malformed() if not case.large and len(case.data) <= most][::every]


@cache
def changed(count: int, seed: int = 0) -> tuple[bytes, ...]:
    """Files that the mutator derives from sound ones: the same each time."""
    bases = [Draft().data, Draft("big").data, Draft(last="f32").data, b""]
    made: list[bytes] = []
    for i in range(count):
        base = bases[i % 4] if i % 3 else (made or bases)[-1]
        made.append(mutate(base, f"{seed}/{i}", 1 << 14))
    return tuple(made)


def sentence(error: BaseException) -> str:
    """The message of a refusal; it is safe to print."""
    message = str(error)
    assert message.isprintable(), message
    return message


class Program:
    """Choices from bytes, one after another; the first of each when the bytes have ended."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def over(self) -> bool:
        return self.at >= len(self.data)

    def below(self, count: int) -> int:
        """A number from 0 on."""
        self.at += 1
        return self.data[self.at - 1] % count if self.at <= len(self.data) else 0

    def of(self, choices: Sequence[Any]) -> Any:
        """One of some choices."""
        return choices[self.below(len(choices))]

    def bytes(self) -> bytes:
        """Up to 79 bytes."""
        size = self.below(80)
        self.at += size
        return self.data[self.at - size : self.at]
