"""The table `decoders.json`: a row for each program that answered the test vectors, of counts and of wrong answers in words.

The pages "Who decodes what" and "Known wrong answers of other programs" show this table and nothing else.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from i2s_spec.conformance.protocol import CaseFolder, VectorCase
from i2s_spec.conformance.report import read_ndjson
from i2s_spec.conformance.runner import ProtocolAsker, run_cases
from i2s_spec.conformance.score import CaseResult, RunResult, Status
from i2s_spec.fuzzing.bounded_process import Bounds

#: The rows, and paragraphs on wrong answers, by the id of a row.
TABLE: Final = Path(__file__).with_name("decoders.json")
WRONG: Final = Path(__file__).with_name("wrong_answers.json")

#: Limits for one answer: seconds (processors may be busy), and resident bytes.
BOUNDS: Final = Bounds(seconds=20.0, memory=2 << 30)

#: The most wrong answers of one implementation that are kept in words.
LISTED: Final = 12

#: How an implementation ended without an answer, by the kind of the fault. Of these, the table has a number and no more:
#: no vector and no message.
ENDINGS: Final = {
    "crash": "ended by itself", "timeout": "did not end", "memory": "took too much memory", "output": "wrote without end",
    "processes": "started too many processes",
}  # fmt: skip

#: Words of a message that says how a program ended, which an adapter may have caught.
ENDED: Final = re.compile(r"SIG[A-Z]{3}|[Pp]anic|ended by|was killed|core dumped|assert|MiB of memory")

#: What names a file in the words of an answer: the short name of a malformed one, and a file of the suite.
_FILE: Final = re.compile(r" \([\w-]+(, [^()]*)?\)(?=\)$)| ?\S*I2S-\d+\S*")

#: Operations on the payload of one tensor, and those on files.
_TENSOR_OPS: Final = ("decode", "dequant", "quantize")
_FILE_OPS: Final = ("container", "verdict")
#: What a vector of a tensor is about, by the beginning of its features.
_KINDS: Final = ("layout.", "type.")

#: What the runner says of a refusal whose sound twin is refused, too.
_ALONE: Final = "it does not accept the sound file either"
#: Suite 1.0.0 names no twins: the sound file of which malformed ones are changes, by whether they have a tensor of type
#: 36. It calls a file sound that this specification does not.
_SOUND: Final = {True: "I2S-0191", False: "I2S-0200"}
_NESTED: Final = "I2S-0202"


def run_on(command: list[str], suite: CaseFolder, cases: Iterable[VectorCase] | None = None) -> RunResult:
    """Run an adapter on vectors: all of the suite unless some are given."""
    chosen = suite.cases if cases is None else tuple(cases)
    return run_cases(ProtocolAsker(command, BOUNDS), chosen, suite.version)


def row(name: str, run: RunResult) -> dict[str, Any]:
    """The row of an implementation; what was not asked has no count.

    :param name: the implementation's name in `implementations`, or another one for the record of a contributor
    """
    about = run.implementation
    asked = [each for each in run.results if each.status not in (Status.SKIPPED, Status.NOT_RUN) and each.id != _NESTED]
    ended = Counter(ENDINGS[each.fault] for each in asked if each.fault in ENDINGS)
    answered = [each for each in asked if each.fault not in ENDINGS]
    files = _files([each for each in answered if each.op in _FILE_OPS], run.suite_version == "1.0.0")
    if files and not files["type_36"]:
        answered = [each for each in answered if each.op not in _FILE_OPS or "type.i2_s" not in each.features]
    scored = [each for each in answered if each.status is not Status.NOTED and each.op not in _FILE_OPS]
    failed = [each for each in answered if each.status in (Status.FAIL, Status.ERRORED) and not _is_alone(each)]
    return {
        "id": name, "name": about.name, "version": about.version, "source": about.source, "date": run.date,
        "suite_version": run.suite_version,
        "operations": {op: _share(each for each in scored if each.op == op) for op in dict.fromkeys(e.op for e in scored)},
        "files": files,
        "tensors": _tensors([each for each in scored if each.op in _TENSOR_OPS]),
        "ended": dict(ended), "failed": len(failed),
        "failures": _in_words(failed),
    }  # fmt: skip


def _in_words(failed: Iterable[CaseResult]) -> list[str]:
    """The first wrong answers: of tensors and models with the vector's id, of files in words alone, since another program
    may not survive what this one takes."""
    words: Counter[str] = Counter()
    for each in failed:
        text = " ".join(each.text.split())
        if each.op in _FILE_OPS:
            text = "it did not answer rightly" if ENDED.search(text) else _FILE.sub("", text)
            words[f"{each.op}: {text}"] += 1
        else:
            words[f"{each.id} {each.op}: {text}"] += 1
    return [text if count == 1 else f"{text} ({count} files)" for text, count in words.most_common(LISTED)]


def _files(asked: list[CaseResult], old: bool) -> dict[str, Any]:
    """Sound files that are taken; refusals, of which one counts only where the sound twin is taken.

    A program that refuses every file with a type of tensors is not asked for faults in them: it has no such type.

    :param old: whether the results are of suite 1.0.0
    """
    taken = {each.id: each.status is not Status.FAIL for each in asked if each.verdict == "valid"}
    has_36 = any(taken.get(each.id) for each in asked if "type.i2_s" in each.features)
    sound = [each for each in asked if each.verdict == "valid" and (has_36 or "type.i2_s" not in each.features)]
    if not asked:
        return {}
    found: dict[str, Any] = {"type_36": has_36, "sound": _share(sound)}
    alone = 0
    for op in _FILE_OPS:
        bad = [each for each in asked if each.op == op and each.verdict == "invalid"]
        pairs = [each for each in bad if not _is_alone(each)]
        if old:
            pairs = [each for each in bad if taken.get(_SOUND["type.i2_s" in each.features])]
        alone += sum(each.status is Status.PASS or _is_alone(each) for each in bad) - _share(pairs)[0]
        if pairs:
            found[op] = _share(pairs)
    return found | ({"alone": alone} if alone else {})


def _is_alone(each: CaseResult) -> bool:
    return each.message.startswith(_ALONE)


def _tensors(asked: list[CaseResult]) -> dict[str, list[int]]:
    kinds = sorted({feature for each in asked for feature in each.features if feature.startswith(_KINDS)})
    return {kind: _share(each for each in asked if kind in each.features) for kind in kinds}


def _share(results: Iterable[CaseResult]) -> list[int]:
    """Right answers, and all."""
    found = [each.status in (Status.PASS, Status.NOTED) for each in results]
    return [sum(found), len(found)]


def from_records(paths: Sequence[Path], name: str = "") -> dict[str, Any]:
    """The row of records as `i2s conform run --report ndjson=FILE` writes them, named after the first file.

    :param paths: records of one version of a program, with an adapter for each part of it
    :raises SettingError: for a file that is no complete record
    """
    runs = [read_ndjson(path) for path in paths]
    best: dict[str, CaseResult] = {}
    for each in (each for run in runs for each in run.results):
        order = (Status.NOT_RUN, Status.SKIPPED, Status.NOTED)  # an answer that was compared says more
        if (
            each.id not in best
            or best[each.id].status in order[: order.index(each.status) if each.status in order else 3]
        ):
            best[each.id] = each
    runs[0].results = [best[id_] for id_ in sorted(best)]
    return row(name or paths[0].stem, runs[0])


def rows() -> list[dict[str, Any]]:
    """The table."""
    found: list[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def put(made: Iterable[dict[str, Any]]) -> None:
    """Put rows into the table, each in the place of the row with its id."""
    found = {each["id"]: each for each in (*rows(), *made)}
    lines = ",\n".join(json.dumps(found[name], ensure_ascii=False) for name in sorted(found))
    TABLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
