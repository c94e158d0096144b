"""This module reads the records of runs: what programs printed and computed when they were run on small files.

`python -m runs make` writes them to `records.json`; `records.schema.json` describes it. A fact that a run shows is
cited as `run PROGRAM/FILE`. `--runtimes` makes no statement about a program without a record or a source.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.errors import counted

RECORDS_FILE: Final = Path(__file__).with_name("records.json")
SCHEMA_VERSION: Final = 1

#: What precedes the id of a record in a citation.
RUN_PREFIX: Final = "run "


class TriedFile(NamedTuple):
    """A small file: the `i2s` commands that make it, its SHA-256 and size, its architecture and types of tensors."""

    name: str
    commands: tuple[str, ...]
    sha256: str
    bytes: int
    architecture: str
    types: frozenset[str]


class Computed(NamedTuple):
    """A comparison of a program's results with our forward pass of the file `against`, with these numerics.

    `correlation` is Pearson's, over all log-probabilities at all positions; `argmax` counts the positions with the same
    most likely token, out of `positions`.
    """

    against: str
    numerics: str
    correlation: float
    argmax: int
    positions: int

    @property
    def agrees(self) -> bool:
        """Whether the results agree with our forward pass, except for the rounding of the program's kernels.

        If activations are quantized in blocks with a scale each, logits change by 3 %. This can exchange two tokens
        with nearly the same probability, which is allowed at one position of eight.
        """
        return self.correlation >= 0.999 and 8 * (self.positions - self.argmax) <= self.positions

    @property
    def text(self) -> str:
        """The comparison as part of a sentence."""
        return (
            f"correlation {self.correlation:.5f} with our forward pass, same most likely token at "
            f"{self.argmax} of {counted(self.positions, 'position')}"
        )


class RunRecord(NamedTuple):
    """One run of a program on a file.

    `end` is its exit status or signal, in words; `printed` the relevant lines of its output, `shown` what it reports
    about a file that it reads.
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
        """The citation of this run."""
        return RUN_PREFIX + self.id


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
