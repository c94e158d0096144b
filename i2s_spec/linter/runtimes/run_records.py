"""The table of runs of other programs: what they printed and computed for small files, and their answers to the vectors.

`python tests/peers` in a checkout writes it to `records.json`; `records.schema.json` describes it. A fact that a run
shows is cited as `run PROGRAM/FILE`. `--runtimes` makes no statement about a program without a record or a source.
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


class DecoderRun(NamedTuple):
    """A run of an implementation on the test vectors, as counts: a pair is the number of right answers and of all.

    :param source: package and version, empty for an adapter that was written from the text
    :param counts: vectors by the name of their status
    :param files: `sound` and `malformed` files as pairs, and `ended`, ids of vectors at which it crashed or hung; empty
        unless it reads files
    :param tensors: a pair for each layout and type, by the feature of the vectors
    :param models: the pair for forward passes
    :param failures: the first failures, each as id, operation and first difference
    """

    id: str
    name: str
    version: str
    source: str
    date: str
    suite_version: str
    counts: dict[str, int]
    files: dict[str, list[Any]]
    tensors: dict[str, list[int]]
    models: list[int]
    failures: list[str]


def _table() -> dict[str, Any]:
    about: dict[str, Any] = json.loads(RECORDS_FILE.read_text(encoding="utf-8"))
    return about


def decoders() -> list[DecoderRun]:
    """The runs on test vectors, in the order of the file."""
    return [DecoderRun(**each) for each in _table()["decoders"]]


@cache
def records() -> dict[str, RunRecord]:
    """All records, by their ids."""
    about = _table()
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
