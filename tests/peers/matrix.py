"""Damage by architecture: what `i2s lint` finds of what llama.cpp refuses. `python tests/peers matrix`.

    python tests/peers matrix                   a sample of two files for each kind and architecture; about two minutes
    python tests/peers matrix --all             every tensor and key; about half an hour
    python tests/peers matrix --from FOLDER     damage to other sound files, one for each architecture

A smallest sound file of each architecture (`i2s new --arch`), in each of which one thing is changed (`damage`), is judged by
llama.cpp's library (`judge`) and by `i2s lint`. The counts are written to `matrix.json`, from which the site makes a page.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from peers.arch_tables.command import SHIPPED, read_table

#: What `i2s new` calls the language models of an architecture whose name stands for embedding models there.
LANGUAGE_MODELS: Final = {"qwen3": "qwen3-lm"}

#: The results.
MATRIX_FILE: Final = Path(__file__).with_name("matrix.json")

SCHEMA_VERSION: Final = 1

#: Files of each kind and architecture, unless all are made.
SAMPLE: Final = 2

#: Kinds of damage of which a warning is the answer that lint should give, and why.
WARNED: Final = {
    "architecture-unknown": "an architecture that the table does not have may be newer than the table, so it is no error",
}

#: What is said of a file that llama.cpp refuses without words, or by an end of its process: not which file that was.
_SILENT: Final = "llama.cpp does not compute it"


Severity = Literal["error", "warning"]


class Row(NamedTuple):
    """A file on which the two differ.

    :param kind: of damage, :param where: the tensor or key, :param reason: llama.cpp's message, or the codes of lint
    """

    architecture: str
    kind: str
    where: str
    reason: str


@dataclass
class Counts:
    """Files of one kind and architecture: those that llama.cpp refuses, those of them in which lint finds an error, those
    that load, and those of them in which lint finds an error.
    """

    refused: int = 0
    found: int = 0
    loaded: int = 0
    alarms: int = 0


@dataclass
class Matrix:
    """The counts by architecture and kind, the files on which the two differ, and architectures without a sound file."""

    counts: dict[str, dict[str, Counts]] = field(default_factory=dict)
    missed: list[Row] = field(default_factory=list)
    alarms: list[Row] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)

    def total(self, counts: Iterable[Counts] | None = None) -> Counts:
        """The sum of counts; of all by default."""
        chosen = [each for kinds in self.counts.values() for each in kinds.values()] if counts is None else list(counts)
        return Counts(*(sum(column) for column in zip(*map(_row, chosen), strict=True)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("architectures", nargs="*", metavar="NAME", help="architectures; all unless some are named")
    parser.add_argument("--all", action="store_true", help="every tensor and key instead of a sample")
    parser.add_argument("--each", type=int, default=SAMPLE, metavar="N", help="files of each kind in a sample")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample")
    parser.add_argument("--from", dest="folder", type=Path, metavar="FOLDER", help="sound files, instead of `i2s new`")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files there, with verdicts.json")
    parser.add_argument("-o", "--output", type=Path, default=MATRIX_FILE, metavar="OUT", help="the results' file")


def run(options: argparse.Namespace) -> int:
    """Make the matrix; the result is the exit status."""
    from peers.judge import LIBRARY, missing

    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    matrix = Matrix()
    with tempfile.TemporaryDirectory(prefix="i2s-matrix-") as temporary:
        folder = options.keep or Path(temporary)
        sound = _given(options.folder) if options.folder else _made(Path(temporary) / "sound", matrix)
        for path in sound:
            if not options.architectures or path.stem in options.architectures:
                _judge_copies(path, folder / path.stem, matrix, None if options.all else options.each, options.seed)
                print(f"{path.stem}: {matrix.total(matrix.counts.get(path.stem, {}).values())}", file=sys.stderr)
                if not options.keep:
                    _remove(folder / path.stem)
    judge = f"llama.cpp of {LIBRARY.name} {LIBRARY.version} ({LIBRARY.registry})"
    sample = "every one" if options.all else f"at most {options.each} (seed {options.seed})"
    options.output.write_text(as_text(matrix, judge, sample), encoding="utf-8")
    total = matrix.total()
    print(
        f"{total.found} of {total.refused} refused files are errors of lint; {total.alarms} of {total.loaded} loaded ones"
    )
    return 0


# Sound files.


def _given(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.gguf"))


def _made(folder: Path, matrix: Matrix) -> Iterator[Path]:
    """A smallest file of each architecture of the table."""
    from i2s_spec.cli import cli

    folder.mkdir()
    for name in read_table(SHIPPED)["arch"]:
        path, printed = folder / f"{name}.gguf", io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                made = ["new", str(path), "--arch", LANGUAGE_MODELS.get(name, name), "--type", "F16", "--quiet"]
                status = cli.main(made, "i2s", standalone_mode=False)
            except Exception as error:  # of click, for what `new` does not know
                status = str(error)
        if status or not path.is_file():
            matrix.without[name] = f"i2s new: {status}" if isinstance(status, str) else "i2s new makes no file"
        else:
            yield path


# Damaged files.


def _judge_copies(path: Path, folder: Path, matrix: Matrix, each: int | None, seed: int) -> None:
    """Make damaged copies of a sound file, and count the verdicts on them."""
    from peers.damage import Content
    from peers.judge import judge

    (sound,) = judge([path])
    if sound.bad:
        matrix.without[path.stem] = f"the undamaged file is refused: {sound.message}" if sound.message else _SILENT
        return
    folder.mkdir(parents=True, exist_ok=True)
    copies = list(_copies(Content.read(path), folder, each, random.Random(f"{seed} {path.stem}")))
    verdicts = judge([copy for copy, _, _ in copies])
    for (copy, kind, where), verdict in zip(copies, verdicts, strict=True):
        codes = findings(copy, "warning" if kind in WARNED and verdict.bad else "error")
        counts = matrix.counts.setdefault(path.stem, {}).setdefault(kind, Counts())
        if verdict.bad:
            counts.refused += 1
            counts.found += bool(codes)
            if not codes:
                told = (where, verdict.message) if verdict.word == "refuse" and verdict.message else ("", _SILENT)
                matrix.missed.append(Row(path.stem, kind, *told))
        else:
            counts.loaded += 1
            counts.alarms += bool(codes)
            if codes:
                matrix.alarms.append(Row(path.stem, kind, where, " ".join(codes)))
    words = {copy.name: verdict.word for (copy, _, _), verdict in zip(copies, verdicts, strict=True)}
    (folder / "verdicts.json").write_text(json.dumps(words, indent=0), encoding="utf-8")


def _copies(content: Any, folder: Path, each: int | None, chance: random.Random) -> Iterator[tuple[Path, str, str]]:
    """Write damaged copies of a content: path, kind, and what was changed."""
    from peers.damage import KINDS

    for kind, change in KINDS.items():
        changed = list(change(content))
        if each is not None and len(changed) > each:
            changed = [changed[i] for i in sorted(chance.sample(range(len(changed)), each))]
        for where, copy in changed:
            path = folder / f"{kind}--{re.sub(r'[^A-Za-z0-9_.-]', '_', where)}.gguf"
            copy.write(path)
            yield path, kind, where


def findings(path: Path, least: Severity) -> list[str]:
    """The codes of what lint finds, of a severity or a graver one, each once."""
    import i2s_spec as i2s

    counted = ("error", "warning") if least == "warning" else ("error",)
    return list(dict.fromkeys(each.code for each in i2s.lint(path).findings if each.severity in counted))


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


# As text.


def as_text(matrix: Matrix, judge: str, sample: str) -> str:
    """The results for the repository: a line for each architecture and each file on which the two differ."""
    kinds = list(dict.fromkeys(kind for each in matrix.counts.values() for kind in each))
    head = {
        "schema_version": SCHEMA_VERSION, "judge": judge, "sample": sample, "kinds": kinds,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "table": read_table(SHIPPED)["commit"],
        "warned": {kind: why for kind, why in WARNED.items() if kind in kinds},
    }  # fmt: skip
    rows = {name: [_row(counts.get(kind, Counts())) for kind in kinds] for name, counts in matrix.counts.items()}

    def dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts = [f"{dumped(name)}: {dumped(value)}" for name, value in head.items()]
    for name, objects in (("counts", rows), ("without", matrix.without)):
        lines = ",\n".join(f"{dumped(key)}: {dumped(each)}" for key, each in objects.items())
        parts.append(f'"{name}": {{\n{lines}\n}}')
    for name, differing in (("missed", matrix.missed), ("alarms", matrix.alarms)):
        lines = ",\n".join(map(dumped, differing))
        parts.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _row(counts: Counts) -> list[int]:
    return [counts.refused, counts.found, counts.loaded, counts.alarms]
