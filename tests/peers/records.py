"""The table of runs: each program on each small file, its output, and how its values compare with ours."""

from __future__ import annotations

import datetime
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import i2s_spec as i2s
from i2s_spec.linter.runtimes.records import RECORDS_FILE, SCHEMA_VERSION
from i2s_spec.schema.architectures import architecture_of
from peers.child import Answer, answer_of
from peers.llama_cpp import as_floats, correlation, likeliest, log_softmax
from peers.programs import PROGRAMS, Program
from peers.small_files import SMALL_FILES, Small, digest, make

#: The input tokens, as numbers.
TOKENS: Final = (5, 6, 7, 8, 100, 200, 31, 44)

#: The numerics of our forward pass that programs are compared with.
NUMERICS: Final = "bitnet-golden-1"

#: Architectures with logits; the others are embedding models, which programs only load.
_LANGUAGE: Final = ("llama", "bitnet", "bitnet-b1.58", "qwen3-lm")

#: What modelaudit prints for every tensor, recorded once.
_TENSOR: Final = re.compile(r"blk\.\d+\.\w+\.weight")


class Recorder:
    """Files and our own results, made on first use; their folder exists while the context is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logits = cache(self._logits)

    def _logits(self, name: str) -> Any:
        path = make(self.folder, SMALL_FILES[name])
        return log_softmax(i2s.load_model(path, profile=NUMERICS).forward(TOKENS).logits)

    def file(self, file: Small) -> dict[str, Any]:
        """The record of a file."""
        path = make(self.folder, file)
        with i2s.open(path) as opened:
            types = {tensor.type.name if tensor.type else str(tensor.number) for tensor in opened.tensors.values()}
            architecture = architecture_of(opened.metadata, opened.tensors).name
        return {
            "name": file.name, "commands": list(file.commands), "sha256": digest(path), "bytes": path.stat().st_size,
            "architecture": architecture, "types": sorted(types),
        }  # fmt: skip

    def record(self, program: Program, file: Small, date: str) -> dict[str, Any]:
        """The record of one run."""
        path = make(self.folder, file)
        language = SMALL_FILES[file.means[0]].name.removesuffix(".i2_s") in _LANGUAGE
        computes = program.computes and language
        answer = answer_of(program, path, TOKENS if computes else ())
        return {
            "id": f"{program.name}/{file.name}", "program": program.name, "version": program.version, "date": date,
            "file": file.name, "loads": answer.loads, "end": answer.outcome.name,
            "printed": list(answer.printed), "shown": _shown(answer.shown),
            "computed": self._computed(answer, file) if computes and answer.loads else [],
        }  # fmt: skip

    def _computed(self, answer: Answer, file: Small) -> list[dict[str, Any]]:
        theirs = as_floats(answer)
        rows = []
        for name in file.means:
            ours = self.logits(name)
            same = int((likeliest(theirs) == likeliest(ours)).sum())
            rows.append({"against": name, "numerics": NUMERICS, "correlation": round(correlation(theirs, ours), 5),
                         "argmax": same, "positions": len(TOKENS)})  # fmt: skip
        return rows


def _shown(text: str) -> str:
    """A program's output for a file; lines repeated for each tensor appear once."""
    parts = dict.fromkeys(_TENSOR.sub("TENSOR", part) for part in text.split("; "))
    return "; ".join(parts)[:300]


def wanted(program: Program) -> list[Small]:
    """The files on which a program runs."""
    return [file for file in SMALL_FILES.values() if program.everything or file.name.startswith("llama.")]


def table() -> dict[str, Any]:
    """The table in the package; an empty one if there is none."""
    if not RECORDS_FILE.is_file():
        return {"schema_version": SCHEMA_VERSION, "tokens": list(TOKENS), "files": [], "records": [], "decoders": []}
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
    records, reasons = [], []
    with tempfile.TemporaryDirectory(prefix="i2s-runs-") as folder:
        recorder = Recorder(Path(folder))
        files = [recorder.file(file) for file in SMALL_FILES.values()]
        for program in PROGRAMS:
            reason = program.missing() if not names or program.name in names else "not asked for"
            if reason is not None:
                records += [each for each in former["records"] if each["program"] == program.name]
                reasons += [] if reason == "not asked for" else [reason]
                continue
            for file in wanted(program):
                records.append(recorder.record(program, file, date))
                progress(f"{records[-1]['id']}: {'loads' if records[-1]['loads'] else 'refuses'}")
    return {**former, "tokens": list(TOKENS), "files": files, "records": records}, reasons


def as_text(about: dict[str, Any]) -> str:
    """The table as text for the repository: one line for each file and each run."""

    def lines(rows: Iterable[dict[str, Any]]) -> str:
        return ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)

    head = f'"schema_version": {about["schema_version"]},\n"tokens": {json.dumps(about["tokens"])}'
    lists = ",\n".join(f'"{name}": [\n{lines(about[name])}\n]' for name in ("files", "records", "decoders"))
    return f"{{\n{head},\n{lists}\n}}\n"
