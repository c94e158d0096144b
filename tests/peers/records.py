"""The table of runs: each program on each small file, its output, and how its values compare with ours."""

from __future__ import annotations

import datetime
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

import i2s_spec as i2s
from i2s_spec.cli import cli
from i2s_spec.codec.quantized import TYPES as QUANTIZED
from i2s_spec.codec.quantized import dequantize
from i2s_spec.errors import SettingError
from i2s_spec.linter.runtimes.records import RECORDS_FILE, SCHEMA_VERSION, form_of
from i2s_spec.schema.architectures import ARCHITECTURES, architecture_of
from peers import taken
from peers.child import Answer, answer_of
from peers.damage import Content, Weight
from peers.judge import LIBRARY, judge
from peers.llama_cpp import as_floats, correlation, likeliest, log_softmax
from peers.programs import PROGRAMS, Program
from peers.small_files import SMALL_FILES, Small, digest, make, smallest_files

#: The input tokens, as numbers.
TOKENS: Final = (5, 6, 7, 8, 100, 200, 31, 44)

#: The numerics of our forward pass that programs are compared with.
NUMERICS: Final = "bitnet-golden-1"
#: The same of delta nets, whose states carry every rounding of activations from token to token.
_NUMERICS: Final = {"qwen35": "llamacpp-2026"}

#: Architectures with logits; the others are embedding models, which programs only load.
_LANGUAGE: Final = ("llama", "bitnet", "bitnet-b1.58", "bitnet-25", "qwen3-lm", "qwen35")

#: What a record says of a run that a signal ended, and why these do: of such runs the table has numbers alone.
NO_ANSWER: Final = "no answer"
_SIGNALS: Final = {
    "SIGFPE": "a division by zero", "SIGABRT": "an assertion", "died": "an assertion", "SIGSEGV": "a memory fault",
}  # fmt: skip

#: Files with something that our forward pass leaves out, too: nothing is known of programs that agree with it.
_LEFT_OUT: Final = ("llama.f16.sub-norms",)

#: What a program that returns tokens alone is asked for.
GENERATED: Final = 16
TOKENS_ALONE: Final = ("pytritium",)

#: What modelaudit prints for every tensor, recorded once.
_TENSOR: Final = re.compile(r"blk\.\d+\.\w+\.weight")


class Recorder:
    """Files and our own results, made on first use; their folder exists while the context is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endings: Counter[tuple[str, ...]] = Counter()
        self.logits = cache(self._logits)

    def _logits(self, name: str) -> Any:
        """Our log-probabilities of a file, of its dequantised weights if their type is none of ours; None if it has a
        graph that is not implemented."""
        path = make(self.folder, SMALL_FILES[name])
        if name in _LEFT_OUT:
            return None
        try:
            logits = i2s.load_model(_as_floats(path), numerics=_numerics(name)).forward(TOKENS).logits
        except SettingError:
            return None
        return None if logits is None else log_softmax(logits)

    def _greedy(self, name: str) -> list[int]:
        """The likeliest tokens that follow, one by one."""
        model, tokens = i2s.load_model(make(self.folder, SMALL_FILES[name]), numerics=NUMERICS), list(TOKENS)
        for _ in range(GENERATED):
            tokens.append(int(model.forward(tokens).logits[-1].argmax()))
        return tokens[len(TOKENS) :]

    def file(self, file: Small) -> dict[str, Any]:
        """The record of a file."""
        path = make(self.folder, file)
        with i2s.open(path) as opened:
            types = {tensor.type.name if tensor.type else str(tensor.number) for tensor in opened.tensors.values()}
            form = form_of(opened)
            declared = form.architecture in ARCHITECTURES
            architecture = architecture_of(opened.metadata, opened.tensors).name if declared else form.architecture
        return {
            "name": file.name, "commands": list(file.commands), "sha256": digest(path), "bytes": path.stat().st_size,
            "architecture": architecture, "types": sorted(types), "kind": form.architecture, "form": sorted(form.attributes),
        }  # fmt: skip

    def makes(self, file: Small) -> bool:
        """Whether `i2s` makes a file; of some architectures it does not know a smallest one."""
        try:
            make(self.folder, file)
        except (RuntimeError, click.UsageError):
            return False
        return True

    def answer(self, program: Program, file: Small) -> Answer:
        """A program's answer for a file, with values for the tokens if it computes them."""
        path = make(self.folder, file)
        if program.name.endswith("-exports"):
            path = _exported(path)
        return answer_of(program, path, TOKENS if _computes(program, file) or program.name in TOKENS_ALONE else ())

    def record(self, program: Program, file: Small, date: str) -> dict[str, Any]:
        """The record of one run."""
        answer, computes = self.answer(program, file), _computes(program, file)
        computed: list[dict[str, Any]] = []
        if answer.loads and answer.tokens:
            computed = [self._same_tokens(answer, name) for name in file.means]
        elif answer.loads and computes:
            computed = [row for name in file.means if (row := self._computed(answer, name)) is not None]
        made = {
            "id": f"{program.name}/{file.name}", "program": program.name, "version": program.version, "date": date,
            "file": file.name, "loads": answer.loads, "end": answer.outcome.name,
            "printed": [] if answer.loads and program.computes else list(answer.printed), "shown": _shown(answer.shown),
            "computed": computed,
        }  # fmt: skip
        self._without_ending(made)
        finite = bool(answer.log_probabilities) and bool(np.isfinite(np.nanmax(as_floats(answer), axis=1)).all())
        return made | ({"decoded": True} if finite and not computed else {})

    def _computed(self, answer: Answer, name: str) -> dict[str, Any] | None:
        theirs, ours = as_floats(answer), self.logits(name)
        if ours is None or np.isnan(theirs).all(axis=1).any():
            return None
        return {
            "against": name, "numerics": _numerics(name), "correlation": round(correlation(theirs, ours), 5),
            "argmax": int((likeliest(theirs) == likeliest(ours)).sum()), "positions": len(TOKENS),
        }  # fmt: skip

    def _same_tokens(self, answer: Answer, name: str) -> dict[str, Any]:
        same = [one == other for one, other in zip(answer.tokens, self._greedy(name), strict=True)]
        first = same.index(False) if False in same else len(same)
        return {"against": name, "numerics": NUMERICS, "argmax": first, "positions": GENERATED}

    def decoded(self, files: Sequence[Small], date: str) -> Iterator[dict[str, Any]]:
        """The records of llama.cpp's library on files: whether it loads them and computes finite values."""
        for file, verdict in zip(files, judge([make(self.folder, file) for file in files]), strict=True):
            loads = verdict.word in ("load", "nan")
            made = {
                "id": f"{LIBRARY.name}/{file.name}", "program": LIBRARY.name, "version": LIBRARY.version, "date": date,
                "file": file.name, "loads": loads, "end": verdict.word,
                "printed": [verdict.message] if verdict.message else [], "shown": "", "computed": [],
            }  # fmt: skip
            self._without_ending(made)
            yield made | ({"decoded": True} if verdict.word == "load" else {})

    def _without_ending(self, made: dict[str, Any]) -> None:
        """Count a run that a signal ended, and leave out of its record how it did."""
        if made["loads"] or not made["end"].startswith(("SIG", "died")):
            return
        kind = _SIGNALS.get(made["end"], "a signal")
        self.endings[made["program"], made["version"], made["date"], kind] += 1
        made |= {"end": NO_ANSWER, "printed": [], "shown": ""}


def _numerics(name: str) -> str:
    """The numerics with which programs are compared on a file."""
    return _NUMERICS.get(name.partition(".")[0], NUMERICS)


def _computes(program: Program, file: Small) -> bool:
    """Whether a program is asked for the log-probabilities of a file."""
    return program.computes and (file.wide or file.means[0].split(".")[0] in _LANGUAGE)


def _as_floats(path: Path) -> Path:
    """A copy with the weights of types that our forward pass does not take as F32; the same file if it takes all."""
    content = Content.read(path)
    floats = {
        name: Weight.of(dequantize(weight.data, weight.kind).reshape(weight.shape), "F32")
        for name, weight in content.tensors.items()
        if weight.kind in QUANTIZED
    }
    if not floats:
        return path
    for name, weight in floats.items():
        content = content.with_tensor(name, weight)
    copy = path.with_suffix(".floats.gguf")
    content.write(copy)
    return copy


def _exported(path: Path) -> Path:
    """The weights of the checkpoint that `i2s export` makes of a file."""
    folder = path.with_suffix(".export")
    if not folder.exists():
        cli.main(["export", str(path), "-o", str(folder), "--quiet"], prog_name="i2s", standalone_mode=False)
    return folder / "model.safetensors"


def _shown(text: str) -> str:
    """A program's output for a file; lines repeated for each tensor appear once."""
    parts = dict.fromkeys(_TENSOR.sub("TENSOR", part) for part in text.split("; "))
    return "; ".join(parts)[:300]


def wanted(program: Program) -> list[Small]:
    """The files on which a program runs."""
    return [
        file
        for file in SMALL_FILES.values()
        if (program.everything or file.name.startswith("llama."))
        and (program.wide != "no" if file.wide else program.wide != "only")
        and re.match(program.names, file.name)
    ]


def table() -> dict[str, Any]:
    """The table in the package; an empty one if there is none."""
    if not RECORDS_FILE.is_file():
        return {"schema_version": SCHEMA_VERSION, "tokens": list(TOKENS), "files": [], "records": [], "endings": []}
    found: dict[str, Any] = json.loads(RECORDS_FILE.read_text(encoding="utf-8"))
    return found


def write_table(about: dict[str, Any]) -> None:
    """Write the table into the package."""
    RECORDS_FILE.write_text(as_text(about), encoding="utf-8")


def make_records(names: Sequence[str], progress: Callable[[str], None]) -> tuple[dict[str, Any], list[str]]:
    """Run programs; returns the table, and reasons why programs could not run: their former records remain.

    :param names: the programs; by default all
    """
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    former = table()
    records, reasons, ran = [], [], set()
    with tempfile.TemporaryDirectory(prefix="i2s-runs-") as folder:
        recorder = Recorder(Path(folder))
        smallest = [file for file in smallest_files() if recorder.makes(file)]
        files = [recorder.file(file) for file in (*SMALL_FILES.values(), *smallest)]
        for program in PROGRAMS:
            reason = program.missing() if not names or program.name in names else "not asked for"
            if reason is not None:
                records += [each for each in former["records"] if each["program"] == program.name]
                reasons += [] if reason == "not asked for" else [reason]
                continue
            ran.add(program.name)
            for file in wanted(program):
                records.append(recorder.record(program, file, date))
                progress(f"{records[-1]['id']}: {'loads' if records[-1]['loads'] else 'refuses'}")
            if program is LIBRARY:
                records += recorder.decoded(smallest, date)
        records += taken.rows()
        counts = [dict(zip(_ENDING, key, strict=True), count=n) for key, n in recorder.endings.items()]
    endings = [*(each for each in former["endings"] if each["program"] not in ran), *counts]
    endings.sort(key=lambda each: [each[name] for name in _ENDING])
    about = {
        "schema_version": SCHEMA_VERSION, "tokens": list(TOKENS), "files": files, "records": records,
        "devices": taken.devices(), "endings": endings,
    }  # fmt: skip
    return about, reasons


#: What runs that a signal ended are counted by.
_ENDING: Final = ("program", "version", "date", "kind")

#: Fields that are left out where they are empty.
_OPTIONAL: Final = ("printed", "shown", "computed")


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value or name not in _OPTIONAL}


def as_text(about: dict[str, Any]) -> str:
    """The table as text for the repository: one line for each file and each run."""

    def lines(rows: Iterable[dict[str, Any]]) -> str:
        return ",\n".join("  " + json.dumps(_filled(row), ensure_ascii=False) for row in rows)

    head = f'"schema_version": {about["schema_version"]},\n"tokens": {json.dumps(about["tokens"])}'
    lists = ",\n".join(f'"{name}": [\n{lines(about[name])}\n]' for name in ("files", "records", "devices", "endings"))
    return f"{{\n{head},\n{lists}\n}}\n"
