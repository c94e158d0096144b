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
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.draw.text import size_words
from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import Origin, is_address, source_of
from i2s_spec.inspect.memory import MemoryUse, memory, trained_context
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import path_of
from i2s_spec.linter.report.text import examined
from i2s_spec.linter.report_data import Report, on_command_line, other_command, repair_step, repairs_of
from i2s_spec.linter.rule import Severity, finding_of
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.model.load import refusal
from i2s_spec.schema import faults
from i2s_spec.schema.architectures import architecture_of

if TYPE_CHECKING:
    from i2s_spec.inspect.identify import Identification
    from i2s_spec.linter.runtimes.conversions import UsefulConversion
    from i2s_spec.linter.runtimes.verdicts import Verdict
    from i2s_spec.model.text.deep_checks import DeepChecks

Progress = Callable[[int, int], Any]

#: Conversions that are recommended.
CONVERSIONS: Final = 6


class Step(NamedTuple):
    """Something to do next: a command, and why."""

    command: str
    why: str


class Checkup(NamedTuple):
    """The results for a file: the report of the linter, its origin, the verdicts of runtimes, and the next steps.

    `identification` is None and `verdicts` empty if the file is not GGUF or cannot be read. `dialect` is the one that
    the verdicts assume for the I2_S tensors, and `certain` says whether the weights or the writer show it. `refusal` is
    why `load_model` refuses a model without errors, in its words; None if it does not, or there is no model. `summary` says
    what the model is, in sentences; `conversions` which conversions help a program to compute it, `remarks` what else to
    know of programs; `verb` computes its outputs (`run`, `embed`). `deep` has the results of the checks that run the model.
    """

    report: Report
    identification: Identification | None
    verdicts: tuple[Verdict, ...]
    dialect: str
    certain: bool
    steps: tuple[Step, ...]
    refusal: str | None = None
    summary: tuple[str, ...] = ()
    conversions: tuple[UsefulConversion, ...] = ()
    remarks: tuple[str, ...] = ()
    verb: str | None = None
    deep: DeepChecks | None = None

    def __repr__(self) -> str:
        from i2s_spec.errors import line

        steps = "; ".join(step.command for step in self.steps)
        return line("Checkup", self.report.path, f"{self.report.words}{f'; next: {steps}' if steps else ''}")


def doctor(origin: Origin, *, threads: int = 1, progress: Progress | None = None, deep: bool = False) -> Checkup:
    """Run all checks on one file that need no other file.

    :param origin: a path, a buffer, a seekable stream or a `Source`; only regular files are opened
    :param threads: how many threads read the weights
    :param progress: called now and then with the bytes of payload that were read, and those to read
    :param deep: also read all weights for their layout, run the model: whether its outputs are finite, and whether it
        predicts a text as it should, and render its chat template (`model.text.deep_checks`)
    :returns: the results; no fault of the file raises an exception
    """
    before = _state(origin)
    found = _doctor(origin, threads, progress, deep)
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
    """Return the identity of the file at a path, and when it was written; None if it is not a path of this machine."""
    path = path_of(origin)
    if path is None or is_address(path):
        return None
    try:
        now = os.stat(path)
    except (OSError, ValueError):
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _doctor(origin: Origin, threads: int, progress: Progress | None, deep: bool) -> Checkup:
    report = lint(origin, threads=threads, progress=progress, details=examined)
    path = on_command_line(quote(report.path, limit=4096, bare=True))
    found = Checkup(report, None, (), "canonical", False, ())
    if report.readable:
        with suppress(FormatError):  # the file changed or disappeared after it was linted
            found = _looked_at(origin, threads, found, deep)
    return found._replace(steps=tuple(_steps(found, path)))


def _looked_at(origin: Origin, threads: int, found: Checkup, deep: bool) -> Checkup:
    """Return the checkup with the origin of a file, its verdicts, its dialect, and what the forward pass makes of
    it.
    """
    from i2s_spec.inspect.identify import identify
    from i2s_spec.linter.runtimes.conversions import conversions, remarks
    from i2s_spec.linter.runtimes.verdicts import verdicts

    path, report = path_of(origin), found.report
    source = source_of(origin)
    try:
        identified = identify(File(source), payloads="full" if deep else "sample", threads=threads)
        dialect, certain = _dialect(identified)
        file = File(source)
        is_model = identified.kind is None or identified.kind.is_model
        subject = LintContext(file, path)
        subject.errors = tuple(each for each in report.findings if each.severity is Severity.ERROR)
        made = verdicts(subject, dialect)
        found = found._replace(
            identification=identified, verdicts=made, dialect=dialect, certain=certain, summary=summary(file)
        )
        if is_model and report.ok and file.tensors and "general.architecture" in file.metadata:  # it should be a model
            why_not = refusal(file)
            helpful = conversions(file, made)
            found = found._replace(
                refusal=why_not, verb=_verb_for(file) if why_not is None else None, conversions=helpful,
                remarks=remarks(file, made, helpful),
            )  # fmt: skip
        if deep and is_model and file.tensors:
            from i2s_spec.model.text.deep_checks import deep_checks

            found = found._replace(deep=deep_checks(file, identified, threads))
        return found
    finally:
        if path is not None:
            source.close()


def _verb_for(file: File) -> str | None:
    """Return the verb that runs this model on a text; None if the file has no tokens to read text with."""
    if "tokenizer.ggml.tokens" not in file.metadata:
        return None
    return "embed" if architecture_of(file.metadata, file.tensors).embedding_model else "run"


def _dialect(found: Identification) -> tuple[str, bool]:
    """Return the dialect of the I2_S tensors: the one that the weights show, or else canonical."""
    answers = {question.name: question.answer for question in found.questions}
    layout = answers.get("layout")
    if layout is None or not found.i2s:
        return "canonical", False
    code_map = answers.get("code map")
    name = layout.name if code_map is None or code_map.name == "offset-1" else f"{layout.name}/{code_map.name}"
    return name, True


def _steps(checkup: Checkup, path: str) -> Iterator[Step]:
    """Yield what to do next, the most urgent first."""
    report, found, verdicts = checkup.report, checkup.identification, checkup.verdicts
    counts = Counter(finding.code for finding in report.findings)
    counts.update(report.elided)
    ranks = {finding.code: finding.severity.rank for finding in report.findings}
    worst_first = sorted(counts.items(), key=lambda item: (-ranks[item[0]], -item[1], item[0]))
    repairs = repairs_of(((each.code, each.fix) for each in report.findings), report.elided)
    repacked = next(filter(None, (other_command(finding.code, finding.got, path) for finding in report.findings)), None)
    if repacked is not None:
        yield Step(repacked, "the tensors are packed in another layout than readers expect")
    elif (step := repair_step((pair for code, _ in worst_first for pair in repairs[code].items()), path)) is not None:
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
    for conversion in checkup.conversions[:CONVERSIONS]:
        yield Step(conversion.command(path, checkup.dialect if found.i2s else "canonical"), conversion.words)
    if verdicts and not runs and (found.kind is None or found.kind.part is None):
        none = "no runtime is known to compute it correctly" if found.tensors else "no runtime runs it"
        yield Step(f"i2s lint {path} --runtimes", f"says why {none}, with sources")
    if checkup.verb == "run":
        yield Step(f"i2s run {path} --prompt TEXT", "generates text with the reference forward pass")
    elif checkup.verb == "embed":
        yield Step(f"i2s embed {path} --text TEXT", "gives the embedding of a text with the reference forward pass")


# --- what a model is -------------------------------------------------------------------------------------------------
# Its name, sizes, types of tensors, tokenizer and memory, in a few sentences. Only the header is read.

#: Tensors that are examined: no model has more.
_MOST: Final = 65_536

#: The context for which a cache is computed, if the model was not trained for a shorter one.
_CONTEXT: Final = 4096

#: Keys of the architecture that give sizes, and what one is called, and several are.
_SIZES: Final = (
    ("block_count", "layer", "layers"), ("embedding_length", "wide", "wide"),
    ("feed_forward_length", "in the feed-forward network", "in the feed-forward network"),
    ("attention.head_count", "head", "heads"),
    ("attention.head_count_kv", "of them for keys and values", "of them for keys and values"),
    ("expert_count", "expert", "experts"), ("context_length", "token of context", "tokens of context"),
)  # fmt: skip


def summary(file: File) -> tuple[str, ...]:
    """Summarize the model in a file: text from the file is quoted; empty without tensors or an architecture."""
    architecture = file.metadata.short("general.architecture")
    if not isinstance(architecture, str) or not file.index.tensors or file.fault is not None:
        return ()
    sizes = [
        counted(value, one, several)
        for key, one, several in _SIZES
        if isinstance(value := file.metadata.short(f"{architecture}.{key}"), int) and not isinstance(value, bool)
    ]
    name = file.metadata.short("general.name")
    named = f" called {quote(name, 64)}" if isinstance(name, str) and name else ""
    tensors = list(islice(file.tensors.rows, _MOST))
    weights = sum(tensor.elements for tensor in tensors)
    matrices = Counter(tensor.kind for tensor in tensors if len(tensor.ne) > 1 and tensor.raw_name.startswith(b"blk."))
    tables = Counter(
        tensor.kind for tensor in tensors if len(tensor.ne) > 1 and not tensor.raw_name.startswith(b"blk.")
    )
    types = [f"matrices {_listed(matrices)}"] if matrices else []
    types += [f"tables {_listed(tables)}"] if tables else []
    found = [f"a model of architecture {quote(architecture, 64, bare=True)}{named}: {', '.join(sizes)}"]
    found.append(f"{counted(weights, 'weight')}: {'; '.join(types)}" if types else counted(weights, "weight"))
    tokenizer = file.metadata.short("tokenizer.ggml.model")
    if isinstance(tokenizer, str):
        pre = file.metadata.short("tokenizer.ggml.pre")
        split = f", split as {quote(pre, 32, bare=True)}" if isinstance(pre, str) else ""
        chat = "a chat template" if "tokenizer.chat_template" in file.metadata else "no chat template"
        found.append(f"tokenizer {quote(tokenizer, 32, bare=True)}{split}; {chat}")
    if (context := trained_context(file)) is not None:
        found.append(_memory_words(memory(file, min(context, _CONTEXT)), context))
    return tuple(found)


def _memory_words(found: MemoryUse, context: int) -> str:
    """How much memory a model takes, in a sentence."""
    weights = "of weights of unknown size" if found.weights is None else f"{size_words(found.weights)} of weights"
    tokens = f"{'its ' if found.context == context else ''}{counted(found.context, 'token')}"
    if found.cache_bytes is None:
        cache = "a cache of unknown size"
    elif all(part.name == "recurrent state" for part in found.cache or ()):
        cache = f"{size_words(found.cache_bytes)} of recurrent state" if found.cache else "no cache"
    else:
        cache = f"{size_words(found.cache_bytes)} of cache in F16 for {tokens}"
    return f"memory, as llama.cpp lays it out: {weights} and {cache}; buffers of intermediate results come on top"


def _listed(types: Counter[str]) -> str:
    return " and ".join(f"{name} ({count:,})" for name, count in types.most_common())
