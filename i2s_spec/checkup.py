"""The checkup of one file, which `i2s doctor` prints: what it is, what is wrong with it, and what to do next.

`doctor` examines the file with the linter, `identify`, the facts about runtimes and the forward pass.

    >>> from i2s_spec.testing.sample import Draft
    >>> found = doctor(Draft().data)
    >>> found.report.ok, found.identification is not None
    (True, True)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import Origin, is_address, source_of
from i2s_spec.linter.analysis.context import Subject
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import path_of
from i2s_spec.linter.report.text import examined
from i2s_spec.linter.report_data import Report, on_command_line, other_command, repair_step
from i2s_spec.linter.rule import Severity, finding_of
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.model.load import refusal
from i2s_spec.schema import faults
from i2s_spec.schema.architectures import architecture_of
from i2s_spec.schema.runtimes import RUNTIME

if TYPE_CHECKING:
    from i2s_spec.inspect.identify import Identification
    from i2s_spec.linter.runtimes.verdicts import Verdict

Progress = Callable[[int, int], Any]


class Step(NamedTuple):
    """Something to do next: a command, and why."""

    command: str
    why: str


class Checkup(NamedTuple):
    """The results for a file: the report of the linter, its origin, the verdicts of runtimes, and the next steps.

    `identification` is None and `verdicts` empty if the file is not GGUF or cannot be read. `dialect` is the one that
    the verdicts assume for the I2_S tensors, and `certain` says whether the weights or the writer show it. `refusal` is
    why `load_model` refuses a model without errors, in its words; None if it does not, or there is no model.
    """

    report: Report
    identification: Identification | None
    verdicts: tuple[Verdict, ...]
    dialect: str
    certain: bool
    steps: tuple[Step, ...]
    refusal: str | None = None

    def __repr__(self) -> str:
        from i2s_spec.errors import line

        steps = "; ".join(step.command for step in self.steps)
        return line("Checkup", self.report.path, f"{self.report.words}{f'; next: {steps}' if steps else ''}")


def doctor(origin: Origin, *, threads: int = 1, progress: Progress | None = None) -> Checkup:
    """Run all checks on one file that need no other file.

    :param origin: a path, a buffer, a seekable stream or a `Source`; only regular files are opened
    :param threads: how many threads read the weights
    :param progress: called now and then with the bytes of payload that were read, and those to read
    :returns: the results; no fault of the file raises an exception
    """
    before = _state(origin)
    found = _doctor(origin, threads, progress)
    report = found.report
    if (
        _state(origin) == before
        or not report.readable
        or any(each.code == faults.CHANGED.code for each in report.findings)
    ):
        return found
    reason = TrustedText("it was written to or replaced")  # the file changed between two checks
    changed = finding_of(FormatError(faults.CHANGED, Span(0, report.size or 0), reason=reason))
    report = replace(report, findings=(changed, *report.findings))
    return Checkup(report, None, (), "canonical", False, ())


def _state(origin: Origin) -> tuple[int, ...] | None:
    """The identity of the file at a path, and when it was written; None if it is not a path of this machine."""
    path = path_of(origin)
    if path is None or is_address(path):
        return None
    try:
        now = os.stat(path)
    except (OSError, ValueError):
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _doctor(origin: Origin, threads: int, progress: Progress | None) -> Checkup:
    report = lint(origin, threads=threads, progress=progress, details=examined)
    path = on_command_line(quote(report.path, limit=4096, bare=True))
    if not report.readable:
        return Checkup(report, None, (), "canonical", False, tuple(_steps(report, None, (), None, path, ())))
    try:
        found, verdicts, dialect, certain, verb, why_not, helpful = _looked_at(origin, threads, report)
    except FormatError:  # the file changed or disappeared after it was linted
        found, verdicts, dialect, certain, verb, why_not, helpful = None, (), "canonical", False, None, None, ()
    steps = tuple(_steps(report, found, verdicts, verb, path, helpful))
    return Checkup(report, found, verdicts, dialect, certain, steps, why_not)


def _looked_at(
    origin: Origin, threads: int, report: Report
) -> tuple[Identification, tuple[Verdict, ...], str, bool, str | None, str | None, tuple[str, ...]]:
    """The origin of a file, its verdicts, its dialect, whether that is certain, the verb that computes its outputs, why
    there is no such verb although the linter finds no errors, and the types to which a conversion helps."""
    from i2s_spec.inspect.identify import identify
    from i2s_spec.linter.runtimes.verdicts import verdicts

    path = path_of(origin)
    source = source_of(origin)
    try:
        found = identify(File(source), payloads="sample", threads=threads)
        dialect, certain = _dialect(found)
        file, verb, why_not = File(source), None, None
        is_model = found.kind is None or found.kind.is_model
        if report.ok and is_model and file.tensors and "general.architecture" in file.metadata:  # it should be a model
            why_not = refusal(file)
            verb = _verb_for(file) if why_not is None else None
        subject = Subject(File(source), path)
        subject.errors = tuple(each for each in report.findings if each.severity is Severity.ERROR)
        made = verdicts(subject, dialect)
        return found, made, dialect, certain, verb, why_not, _helpful(subject, made)
    finally:
        if path is not None:
            source.close()


def _helpful(subject: Subject, verdicts: tuple[Verdict, ...]) -> tuple[str, ...]:
    """The types to which a conversion makes a file that llama.cpp computes, unless it computes this one."""
    from i2s_spec.linter.runtimes import evidence

    (verdict,) = [each for each in verdicts if RUNTIME[each.runtime].on_devices]
    if subject.errors or subject.file.fault is not None or verdict.loads == "yes":
        return ()
    return evidence.helpful_types(RUNTIME[verdict.runtime], evidence.form(subject))


def _verb_for(file: File) -> str | None:
    """The verb that runs this model on a text; None if the file has no tokens to read text with."""
    if "tokenizer.ggml.tokens" not in file.metadata:
        return None
    return "embed" if architecture_of(file.metadata, file.tensors).embedding_model else "run"


def _dialect(found: Identification) -> tuple[str, bool]:
    """The dialect of the I2_S tensors: the one that the weights show, or else canonical."""
    answers = {question.name: question.answer for question in found.questions}
    layout = answers.get("layout")
    if layout is None or not found.i2s:
        return "canonical", False
    code_map = answers.get("code map")
    name = layout.name if code_map is None or code_map.name == "offset-1" else f"{layout.name}/{code_map.name}"
    return name, True


def _steps(
    report: Report, found: Identification | None, verdicts: tuple[Verdict, ...], verb: str | None, path: str,
    helpful: tuple[str, ...],
) -> Iterator[Step]:  # fmt: skip
    """What to do next, the most urgent first."""
    counts = Counter(finding.code for finding in report.findings)
    counts.update(report.elided)
    ranks = {finding.code: finding.severity.rank for finding in report.findings}
    worst_first = sorted(counts.items(), key=lambda item: (-ranks[item[0]], -item[1], item[0]))
    repacked = next(filter(None, (other_command(finding.code, finding.got, path) for finding in report.findings)), None)
    if repacked is not None:
        yield Step(repacked, "the tensors are packed in another layout than readers expect")
    elif (step := repair_step(worst_first, path)) is not None:
        many = (
            f"{step.findings:,} of {counted(sum(counts.values()), 'finding')}"
            if len(report.findings) > 1
            else "the finding"
        )
        yield Step(step.command, f"shows the repairs for {many}; -o OUT.gguf in place of --dry-run writes them")
    if not report.readable and os.path.isdir(report.path):
        yield Step(f"i2s lint {path}", "checks every *.gguf file below the folder, or the checkpoint in it")
    if worst_first:
        code = worst_first[0][0]
        yield Step(f"i2s explain {code}", f"says what {code} {REGISTRY[code].slug} means and what to do")
    if found is None or found.fault is not None or not report.ok:
        return
    if found.i2s and not _dialect(found)[1]:
        yield Step(
            f"i2s lint {path} --reference OTHER",
            "finds the layout by comparison with the checkpoint or another file of the model",
        )
    if found.kind is not None and found.kind.is_beside:
        return
    runs = any(verdict.loads == "yes" and verdict.computes in ("correctly", "expected") for verdict in verdicts)
    if helpful:
        more = "; with CUDA, --to Q2_0 is faster" if "Q2_0" in helpful[1:] else ""
        why = f"makes a file that llama.cpp loads and, according to its runs, computes correctly{more}"
        yield Step(f"i2s convert {path} OUT.gguf --to {helpful[0]}", why)
    if verdicts and not runs and (found.kind is None or found.kind.part is None):
        none = "no runtime is known to compute it correctly" if found.tensors else "no runtime runs it"
        yield Step(f"i2s lint {path} --runtimes", f"says why {none}, with sources")
    if verb == "run":
        yield Step(f"i2s run {path} --prompt TEXT", "generates text with the reference forward pass")
    elif verb == "embed":
        yield Step(f"i2s embed {path} --text TEXT", "gives the embedding of a text with the reference forward pass")
