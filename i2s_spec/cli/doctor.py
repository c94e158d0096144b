"""`i2s doctor FILE`: is it sound, what is it, who runs it, what to do next; on one screen."""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from i2s_spec.cli.options import INPUT, remote_options, shown, threads_option
from i2s_spec.cli.process import progress_bar
from i2s_spec.draw.text import cut, json_document, visible
from i2s_spec.errors import EXIT_FINDINGS, FormatError, counted

if TYPE_CHECKING:
    from i2s_spec.checkup import Checkup
    from i2s_spec.draw.terminal import Line
    from i2s_spec.inspect.kind import RecognisedKind
    from i2s_spec.model.text.template_engines import TemplateChecks

SCHEMA_VERSION: Final = 1

#: Files of a folder that are examined.
MOST_FILES: Final = 1000

#: Codes of findings that are shown; the rest is counted.
SHOWN: Final = 6

#: Width of a page that goes to no terminal, the widest and the narrowest one.
WIDTH: Final = 100
NARROWEST: Final = 40

#: What runtimes make of the file, the best first: heading, style, loads, computes.
_GROUPS: Final = (
    ("compute it correctly", "green", ("yes",), ("correctly",)),
    ("are expected to compute it correctly", "green", ("yes",), ("expected",)),
    ("run it; what they compute was not compared", "", ("yes",), ("not compared",)),
    ("correct on some machines only", "yellow", ("yes",), ("depends on the machine",)),
    ("need a conversion first", "yellow", ("with option",), None),
    ("compute it wrongly", "red", ("yes",), ("wrongly",)),
    ("load its vocabulary only", "", ("vocabulary only",), ("-",)),
    ("read it, and compute nothing", "", ("yes",), ("-",)),
    ("refuse it", "red", ("no",), None),
    ("crash on it", "red", ("crash",), None),
    ("load it; what they compute was not tried", "", ("yes",), ("not tried",)),
    ("not tried", "", ("not tried",), ("not tried",)),
)


@click.command(
    "doctor",
    epilog="Example:  i2s new tiny.gguf && i2s doctor tiny.gguf",
    short_help="Summarize a file on one screen: faults, origin, runtimes, next steps.",
)
@click.argument("file", metavar="FILE|FOLDER", type=INPUT)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: the results of lint, identify and --runtimes, and the next steps.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Also read all weights for their layout, and run the model: whether its values are finite, and whether it "
    "predicts a text as it should; and render its chat template with the engines that are installed: the same tokens?",
)
@threads_option("Threads that read. [default: one for each processor]")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@remote_options
def doctor_command(file: str, as_json: bool, deep: bool, threads: int, quiet: bool) -> int:
    """Answer three questions about a file: what is it, is it sound, and who runs it, or what to do so that one does.

    The summary combines `i2s lint`, `i2s identify` and the verdicts of `i2s lint --runtimes`. The verdicts assume the
    layout that the weights show. A conversion is recommended if recorded runs show that a program computes such a file.

    --deep takes minutes for a model of 2B parameters; a test by a text is given up after 15 minutes. The chat template
    is rendered in processes with limits, by Jinja as transformers runs it (extra [chat]) and by llama.cpp ([runtimes]).
    Of a FOLDER, every *.gguf file in it gets a line.

    Exit code: that of `i2s lint FILE`, of the worst file in a FOLDER; with --deep also 1 if the model is wrong.
    """
    from i2s_spec.checkup import doctor
    from i2s_spec.draw import terminal

    files, left = _files(file)
    if files:
        return _of_folder(files, left, as_json, deep, threads)
    with progress_bar("reading", quiet) as progress:
        found = doctor(file, threads=threads, progress=progress, deep=deep)
    if as_json:
        sys.stdout.writelines(json_document(_document(found)))
    else:
        columns = terminal.columns(sys.stdout)
        width = WIDTH if columns is None else max(NARROWEST, min(columns, WIDTH))
        terminal.write(_page(found, width), sys.stdout)
    return _exit_code(found)


def _exit_code(found: Checkup) -> int:
    wrong = found.deep is not None and not found.deep.sound
    return max(found.report.exit_code(), EXIT_FINDINGS if wrong else 0)


# --- folder ----------------------------------------------------------------------------------------------------------
# A line for each file; one file is read at a time.


def _files(path: str) -> tuple[list[str], int]:
    """Return the `*.gguf` files in a folder, in the order of their names, up to `MOST_FILES`; and how many are left
    out. Empty for what is no folder, and for one without such files."""
    if not os.path.isdir(path):
        return [], 0
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".gguf"))
    except OSError:
        return [], 0
    return [os.path.join(path, name) for name in names[:MOST_FILES]], max(0, len(names) - MOST_FILES)


def _of_folder(files: list[str], left: int, as_json: bool, deep: bool, threads: int) -> int:
    """Print a line on each file, or a list of documents; the exit code is that of the worst file."""
    from i2s_spec.checkup import Checkup, doctor
    from i2s_spec.gguf.source import below
    from i2s_spec.linter.report_data import Report
    from i2s_spec.linter.rule import finding_of

    worst, documents = 0, []
    for path in files:
        try:
            below(*os.path.split(path))
        except FormatError as error:
            found = Checkup(Report(path, (finding_of(error),), {}), None, (), "canonical", False, ())
        else:
            found = doctor(path, threads=threads, deep=deep)
        worst = max(worst, _exit_code(found))
        if as_json:
            documents.append(_document(found))
        else:
            click.echo(_line(found))
    if as_json:
        sys.stdout.writelines(json_document({"schema_version": SCHEMA_VERSION, "files": documents, "left_out": left}))
    elif left:
        click.echo(f"and {counted(left, 'more file')}, not examined")
    return worst


def _line(found: Checkup) -> str:
    """Return what a file is, whether it is sound, and who runs it, in a line."""
    report, kind = found.report, _special(found)
    types = Counter() if report.details is None else Counter(report.details["types"])
    about = kind.title if kind is not None else ""
    if not about and found.identification is not None:
        matrices = ", ".join(name for name, _ in types.most_common(3))
        about = f"{visible(found.identification.architecture, 64, bare=True) or 'no architecture'} ({matrices})"
    good = [each.title for each in found.verdicts if each.loads == "yes" and each.computes in ("correctly", "expected")]
    runs = f"computed by {counted(len(good), 'program')}" if good else "computed by no program that was run"
    if not good and found.conversions:
        runs += f"; convert --to {found.conversions[0].type}"
    model = kind is None and found.identification is not None
    deep = "" if found.deep is None or found.deep.sound else "; the model is wrong: --deep"
    parts = [_sound_words(found)[0] + deep, about, runs if model and report.ok else ""]
    return f"{shown(report.path)}: {'; '.join(part for part in parts if part)}"


# --- page ------------------------------------------------------------------------------------------------------------


def _document(found: Checkup) -> dict[str, Any]:
    report = {name: value for name, value in found.report.as_dict().items() if name != "details"}
    return {
        "schema_version": SCHEMA_VERSION,
        "report": report,
        "kind": None
        if found.identification is None or found.identification.kind is None
        else found.identification.kind.as_dict(),
        "identification": None if found.identification is None else found.identification.as_dict(),
        "dialect": {"name": found.dialect, "certain": found.certain},
        "refusal": found.refusal,
        "summary": list(found.summary),
        "runtimes": [verdict.as_dict() for verdict in found.verdicts],
        "conversions": [each.as_dict() for each in found.conversions],
        "remarks": list(found.remarks),
        "deep": None if found.deep is None else found.deep.as_dict(),
        "next": [step._asdict() for step in found.steps],
    }


def _page(found: Checkup, width: int) -> Iterator[Line]:
    from i2s_spec.draw.terminal import Piece
    from i2s_spec.linter.report.text import sentence

    report = found.report
    kind = _special(found)
    yield [
        Piece(shown(report.path), "bold"), *([Piece(f"  {kind.title}")] if kind is not None else [])
    ]  # fmt: skip
    if kind is not None:
        yield from _wrapped(kind.use, width)
    other = kind is not None and kind.is_beside
    if found.identification is not None and not other:
        yield []
        yield from _origin(found, width)
    yield []
    yield from _sound(found, width)
    if report.details is not None:
        about = report.details if kind is None else {**report.details, "kind": {**report.details["kind"], "title": ""}}
        yield from _wrapped(sentence(about), width)
    if found.deep is not None:
        yield []
        yield from found.deep.lines()
        yield from _template(found.deep.template, width)
    if found.verdicts and not other:
        yield []
        yield from _runtimes(found, width)
    if found.steps:
        yield []
        yield [Piece("What next", "bold")]
        for step in found.steps:
            yield [Piece(f"  {step.command}", "cyan")]
            yield from _wrapped(step.why, width, "      ")


def _special(found: Checkup) -> RecognisedKind | None:
    """Return what the file is, if it is anything else than a whole model."""
    kind = found.identification.kind if found.identification is not None else None
    return kind if kind is not None and kind.is_special else None


def _sound(found: Checkup, width: int) -> Iterator[Line]:
    from i2s_spec.draw.terminal import Piece
    from i2s_spec.linter.report_data import repair_words, repairs_of

    report = found.report
    repairs = repairs_of(((each.code, each.fix) for each in report.findings), report.elided)
    yield [Piece("Is it sound?  ", "bold"), Piece(*_sound_words(found))]
    counts = Counter(finding.code for finding in report.findings) + Counter(report.elided)
    first = {finding.code: finding for finding in reversed(report.findings)}
    codes = sorted(counts, key=lambda code: (-first[code].severity.rank, -counts[code], code))
    for code in codes[:SHOWN]:
        rule, count = first[code].rule, counts[code]
        mark = ", ".join(repair_words(option, 0 if n == count else n) for option, n in repairs[code].items())
        text = cut(first[code].message, 400)  # what is from the file is quoted there
        text += f"; and {count - 1:,} more" if count > 1 else ""
        words = f"{counted(count, first[code].severity.value)}: {code} {rule.slug}: {text}"
        yield from _wrapped(words + (f" [{mark}]" if mark else ""), width)
    if len(codes) > SHOWN:
        more = len(codes) - SHOWN
        yield from _wrapped(f"and {counted(more, 'more code')}: i2s lint lists all findings", width)
    yield from _left_out(found, width)
    yield from _refusal(found, width)


def _sound_words(found: Checkup) -> tuple[str, str]:
    """Say whether a file is sound, with the style of the answer."""
    report = found.report
    if report.bugs:
        return "not checked to the end: this is a bug in i2s-spec", "red"
    if not report.readable:
        return "no: it cannot be read as a GGUF file", "red"
    if not report.ok:
        return "no", "red"
    if report.unchecked:
        return f"no {'errors' if report.findings else 'findings'} in what was checked", "yellow"
    if report.findings:
        return "yes, with remarks", "green"
    return (
        ("yes, no findings", "green") if found.refusal is None else ("no findings, but it cannot be run here", "yellow")
    )


def _template(found: TemplateChecks | None, width: int) -> Iterator[Line]:
    """Yield what engines make of the chat template."""
    from i2s_spec.draw.terminal import Piece

    if found is None:
        return
    yield []
    yield [Piece("Is its chat template the same to the engines?  ", "bold"), Piece(*found.words)]
    for text, style in found.remarks():
        yield from _wrapped(text, width, style=style)


def _left_out(found: Checkup, width: int) -> Iterable[Line]:
    """Yield what no rule examined."""
    if found.report.unchecked:
        yield from _wrapped(f"not checked: {'; '.join(found.report.unchecked)}", width, style="yellow")


def _refusal(found: Checkup, width: int) -> Iterable[Line]:
    """Yield why the forward pass, as of `i2s run` and `i2s embed`, refuses a file that has no errors."""
    if found.refusal is not None:
        yield from _wrapped(f"the reference forward pass refuses it: {cut(found.refusal, 400)}", width, style="yellow")


def _origin(found: Checkup, width: int) -> Iterator[Line]:
    from i2s_spec.draw.terminal import Piece

    assert found.identification is not None
    yield [Piece("What is it?", "bold")]
    fault = found.identification.fault
    if fault is not None:
        yield from _wrapped(f"not read to its end, because of {fault.code} {fault.fault.slug}", width)
    elif not found.identification.tensors and (
        found.identification.kind is None or not found.identification.kind.is_special
    ):
        yield from _wrapped("a header without tensors, such as a vocabulary: there is no model in it", width)
    for each in found.summary:
        yield from _wrapped(each, width)
    answered = False
    for question in found.identification.questions:
        answer = question.answer
        if answer is not None:
            name, answered = answer.title if answer.name == "other" or question.name == "writer" else answer.name, True
            yield from _wrapped(f"{question.name}: {name} ({answer.confidence})", width)
        elif question.name == "layout":
            answered = True
            unread = f"not read, because of {fault.code}" if fault is not None else ""
            words = unread or "cannot tell; files do not state it, and these weights do not show it"
            yield from _wrapped(f"layout: {words}", width)
    if found.identification.tensors and not answered and fault is None:
        yield from _wrapped("cannot tell: nothing in it shows which program wrote it", width)


def _runtimes(found: Checkup, width: int) -> Iterator[Line]:
    from i2s_spec.draw.terminal import Piece

    packed = ""
    if found.identification is not None and found.identification.i2s:
        packed = "  " + (f"packed as {found.dialect}" if found.certain else "if it is packed as most readers expect")
    yield [Piece("Who runs it?", "bold"), Piece(packed)]
    kind = None if found.identification is None else found.identification.kind
    if kind is not None and kind.part is not None:
        yield from _wrapped("only this part of a split model was tried, not the model", width)
    elif all(each.computes == "-" or each.loads == each.computes == "not tried" for each in found.verdicts):
        yield from _wrapped("none of the runtimes that were tried", width, style="red")
    for heading, style, loads, computes in _GROUPS:
        titles = [
            verdict.title
            for verdict in found.verdicts
            if verdict.loads in loads and (computes is None or verdict.computes in computes)
        ]
        if titles:
            yield from _wrapped(f"{heading}: {'; '.join(titles)}", width, style=style)
    for remark in found.remarks:
        yield from _wrapped(remark, width, style="yellow")


def _wrapped(text: str, width: int, indent: str = "  ", style: str = "") -> Iterable[Line]:
    from i2s_spec.draw.terminal import Piece

    for line in textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "  "):
        yield [Piece(line, style)]
