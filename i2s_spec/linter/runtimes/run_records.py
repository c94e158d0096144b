"""This module reads the records of runs: what programs printed and computed of small files, when somebody ran them.

They stand in `records.json`, which `python -m runs make` writes; `records.schema.json` describes it. A fact that a run
shows is cited as `run PROGRAM/FILE`, and `--runtimes` says nothing of a program that no record or source says.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.errors import counted

RECORDS_FILE: Final = Path(__file__).with_name("records.json")
SCHEMA_VERSION: Final = 1


class TriedFile(NamedTuple):
    """A small file: the `i2s` commands that make it, its SHA-256 and size, its architecture and types of tensors."""

    name: str
    commands: tuple[str, ...]
    sha256: str
    bytes: int
    architecture: str
    types: frozenset[str]


class Computed(NamedTuple):
    """How what a program computed compares with our forward pass of the file `against`, with these numerics.

    `correlation` is Pearson's, of all log-probabilities at all positions; `argmax` counts positions with the same likeliest
    token, of `positions`.
    """

    against: str
    numerics: str
    correlation: float
    argmax: int
    positions: int

    @property
    def agrees(self) -> bool:
        """Whether the program computed what our forward pass does, but for the rounding of its kernels.

        Blocks of activations with scales of their own move logits by 3 %, which exchanges two tokens that are nearly as
        likely: so it may be at one position of eight.
        """
        return self.correlation >= 0.999 and 8 * (self.positions - self.argmax) <= self.positions

    @property
    def text(self) -> str:
        """The comparison as part of a sentence."""
        return (
            f"correlation {self.correlation:.5f} with our forward pass, the likeliest token the same at "
            f"{self.argmax} of {counted(self.positions, 'position')}"
        )


class RunRecord(NamedTuple):
    """One run of a program on a file.

    `end` is its exit status or signal, in words; `printed` the lines that matter of what it printed, `shown` what it says
    of a file that it reads.
    """

    id: str
    program: str
    version: str
    date: str
    file: TriedFile
    loads: bool
    end: str
    printed: tuple[str, ...]
    shown: str
    computed: tuple[Computed, ...]

    @property
    def citation(self) -> str:
        """How a fact names it."""
        return f"run {self.id}"


@cache
def records() -> dict[str, RunRecord]:
    """All records, by their ids."""
    about: dict[str, Any] = json.loads(RECORDS_FILE.read_text(encoding="utf-8"))
    files = {
        each["name"]: TriedFile(
            each["name"], tuple(each["commands"]), each["sha256"], each["bytes"], each["architecture"],
            frozenset(each["types"]),
        )
        for each in about["files"]
    }  # fmt: skip
    return {
        each["id"]: RunRecord(
            each["id"], each["program"], each["version"], each["date"], files[each["file"]], each["loads"], each["end"],
            tuple(each["printed"]), each["shown"], tuple(Computed(**one) for one in each["computed"]),
        )
        for each in about["records"]
    }  # fmt: skip
