"""`i2s conform`: run other people's decoders on the vectors."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.fuzz import size
from i2s_spec.cli.termination import cleaned_up
from i2s_spec.errors import EXIT_FINDINGS, SettingError, counted, quote

if TYPE_CHECKING:
    from i2s_spec.conformance.run.askers import Asker
    from i2s_spec.conformance.run.results import CaseResult, RunResult
    from i2s_spec.fuzzing.child import Bounds

#: As `i2s_spec.conformance.run.report.FORMS`, which is imported where a report is written.
_FORMS = ("text", "ndjson", "markdown", "junit", "html", "shields")


@click.group(
    short_help="Run a decoder in any language on the test vectors.",
    epilog="Example:  i2s conform smoke -- python my_adapter.py",
)
def command() -> None:
    """Run a decoder in any language on the test vectors, and say where it first differs.

    The decoder is reached through an adapter, a program of some 40 lines that reads requests as lines of JSON and answers
    each with one line. The tutorial "Test your decoder in ten minutes" (spec/tutorials/decoder.md) says how to write one;
    tests/peers/adapters has some to begin with, in Python, C, Rust, Go and JavaScript.
    """


def _bounds(timeout: float, memory: int) -> Bounds:
    from i2s_spec.fuzzing.child import Bounds

    return Bounds(timeout, memory)


def _reports(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        form, equals, place = text.partition("=")
        if form not in _FORMS or not equals or not place:
            raise click.BadParameter(
                f"{quote(text)} is not FORM=FILE with a form of {', '.join(_FORMS)}", ctx, parameter
            )
        found[form] = place
    return found


@command.command(
    "run",
    epilog="Example:  i2s conform run -- python my_adapter.py",
    short_help="Run an adapter on every vector, and compare.",
)
@click.argument("words", nargs=-1, metavar="-- COMMAND...")
@click.option(
    "--simple",
    is_flag=True,
    help="COMMAND reads a GGUF file on its standard input, and writes canonical JSON or ends with a status that is not 0.",
)
@click.option("--ctypes", "library", metavar="LIB:SYMBOL", help="A function of a shared library instead of a COMMAND.")
@click.option("--type", "type_", default="i2_s", show_default=True, metavar="TYPE", help="What that function decodes.")
@click.option("--signature", default="void(u8*,f32*,i64)", show_default=True, metavar="TEXT",
              help="Its parameters: bytes u8*, answer f32* or i8*, elements, or rows and columns.")  # fmt: skip
@click.option("--vectors", type=click.Path(exists=True, file_okay=False), metavar="DIR",
              help="Vectors that `i2s vectors export` wrote. [default: those of this version]")  # fmt: skip
@click.option("--only", multiple=True, metavar="PATTERN", help="Only vectors whose id, op, feature or flag matches.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="No vectors whose id, op, feature or flag matches.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, metavar="S",
              help="Time limit for one answer.")  # fmt: skip
@click.option("--memory", type=size, metavar="SIZE", default="1G", show_default=True, help="Limit of resident memory.")
@click.option("--known", type=click.Path(dir_okay=False), metavar="FILE",
              help="List of failures that are known: exactly these must fail. A missing file is an empty list.")  # fmt: skip
@click.option("--fix", is_flag=True, help="Rewrite the list of --known.")
@click.option(
    "--format", "form", type=click.Choice(_FORMS), default="text", show_default=True, help="Form of the report."
)
@click.option("--report", "reports", multiple=True, metavar="FORM=FILE", callback=_reports,
              help="Write the report to a file as well, in this form.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def run(
    words: tuple[str, ...],
    simple: bool,
    library: str | None,
    type_: str,
    signature: str,
    vectors: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    timeout: float,
    memory: int,
    known: str | None,
    fix: bool,
    form: str,
    reports: dict[str, str],
    quiet: bool,
) -> int:
    """Run COMMAND on every vector, compare its answers, and explain the first difference of each.

    COMMAND is an adapter that speaks the protocol i2s-cp/1, unless --simple or --ctypes say otherwise. It is started
    again after a crash; time, memory and number of processes are bounded. Vectors that need undeclared features are
    skipped, and unknown names of features are ignored: check the number of vectors that were run. `--format ndjson`
    says why each was skipped.

    Exit status: 0 if every vector that was run passed, or failed as the list of --known says; 1 otherwise, and if none
    was run; 2 usage.
    """
    from i2s_spec.conformance.run import known_failures
    from i2s_spec.conformance.run.adapter_process import AdapterFault, require_program
    from i2s_spec.conformance.run.report import FORMS
    from i2s_spec.conformance.run.runner import run_cases

    if fix and (only or skip):
        raise click.UsageError("--fix writes the whole list; it cannot be combined with --only or --skip")
    if fix and known is None:
        raise click.UsageError("--fix needs the list's name: --known FILE")
    listed = known_failures.read_list(known) if known is not None else {}
    asker = _asker(words, simple, library, type_, signature, _bounds(timeout, memory))
    if library is None:
        try:
            require_program(words)
        except AdapterFault as fault:
            click.echo(f"i2s: {fault}", err=True)
            return EXIT_FINDINGS
    with cleaned_up(), _folder(vectors) as folder:
        from i2s_spec.conformance.run.cases import read_cases

        suite = read_cases(folder)
        cases = suite.chosen(only, skip)
        if not cases:
            raise click.UsageError("no vector matches")
        try:
            with _bar(len(cases), quiet) as advance:
                done = run_cases(asker, cases, suite.version, words, advance)
        except AdapterFault as fault:
            click.echo(f"i2s: {fault}", err=True)
            return EXIT_FINDINGS
    if known is not None and fix:
        count = known_failures.write_list(done, known)
        click.echo(f"{quote(known, limit=4096, bare=True)}: {counted(count, 'known failure')}", err=True)
        listed = known_failures.read_list(known)
    if known is not None:
        known_failures.apply(done, listed, whole=not only and not skip)
    _write(reports, [done])
    click.echo(FORMS[form]([done]), nl=False)
    return 0 if done.ok else EXIT_FINDINGS


@command.command(
    epilog="Example:  i2s conform smoke -- python my_adapter.py",
    short_help="Test three basic properties of a new adapter.",
)
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, metavar="S",
              help="Time limit for one answer.")  # fmt: skip
@click.option("--memory", type=size, metavar="SIZE", default="1G", show_default=True, help="Limit of resident memory.")
def smoke(words: tuple[str, ...], timeout: float, memory: int) -> int:
    """Report in three sentences whether an adapter answers, reads bits in the right order, and finds the scale."""
    from i2s_spec.conformance.run.smoke_test import smoke as asked

    failed = False
    with cleaned_up():
        for sentence in asked(words, _bounds(timeout, memory)):
            click.echo(quote(sentence.text, limit=1000, bare=True))
            failed = failed or sentence.well is False
    return EXIT_FINDINGS if failed else 0


@command.command(
    epilog="Example:  i2s conform report --format html a.ndjson b.ndjson", short_help="Merge records of runs."
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE...")
@click.option(
    "--format", "form", type=click.Choice(_FORMS), default="text", show_default=True, help="Form of the report."
)
def report(files: tuple[str, ...], form: str) -> None:
    """Show records of runs, which `--report ndjson=FILE` writes, in another form; several make a matrix."""
    from i2s_spec.conformance.run.report import FORMS
    from i2s_spec.conformance.run.report.ndjson import read_ndjson

    click.echo(FORMS[form]([read_ndjson(file) for file in files]), nl=False)


def _asker(
    words: tuple[str, ...], simple: bool, library: str | None, type_: str, signature: str, bounds: Bounds
) -> Asker:
    from i2s_spec.conformance.run import library_adapter
    from i2s_spec.conformance.run.askers import ProtocolAsker, SimpleAsker

    if (library is not None) == bool(words) or (simple and library is not None):
        raise click.UsageError(
            "name one adapter: a command after `--`, with or without --simple, or --ctypes LIB:SYMBOL"
        )
    if library is None:
        return SimpleAsker(words, bounds) if simple else ProtocolAsker(words, bounds)
    path, colon, symbol = library.rpartition(":")
    if not colon or not path or not symbol:
        raise click.UsageError(f"{quote(library)} is not LIB:SYMBOL")
    try:
        library_adapter.parse_signature(signature)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    full = str(Path(path).resolve()) if "/" in path or Path(path).is_file() else path
    return ProtocolAsker([sys.executable, "-m", library_adapter.__name__, full, symbol, type_, signature], bounds)


@contextmanager
def _folder(vectors: str | None) -> Iterator[Path]:
    """The folder of vectors, written for this run where none is given."""
    if vectors is not None:
        yield Path(vectors)
        return
    from i2s_spec.conformance.vectors.write_suite import write_suite

    with tempfile.TemporaryDirectory(prefix="i2s-vectors-") as folder:
        write_suite(folder)
        yield Path(folder)


def _write(reports: dict[str, str], runs: list[RunResult]) -> None:
    from i2s_spec.conformance.run.report import FORMS
    from i2s_spec.gguf.atomic_file import OutputFile

    for form, place in reports.items():
        try:
            with OutputFile(place, force=True) as output:
                output.write(FORMS[form](runs).encode("utf-8"))
        except OSError as error:
            raise SettingError(f"{quote(place, limit=4096, bare=True)}: {error.strerror}") from None


@contextmanager
def _bar(total: int, quiet: bool) -> Iterator[Any]:
    """A bar on stderr while it is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda count, result: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total, failed="")
        failed = 0

        def advance(count: int, result: CaseResult) -> None:
            nonlocal failed
            failed += result.status.value in ("fail", "errored", "not run")
            bar.update(task, completed=count, failed=f"{failed} failed" if failed else "", refresh=True)

        yield advance
