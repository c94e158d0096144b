"""`i2s lint` (also `i2s validate`): check GGUF files. Its options are declared in `i2s_spec.linter.options`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.cluster import engine_run, refuse_without_engine
from i2s_spec.cli.options import asked_for, lint_options, remote_options
from i2s_spec.cli.process import Bar
from i2s_spec.cli.verbs import command_line
from i2s_spec.linter.options import Options, RunOptions
from i2s_spec.linter.paths import lint_paths
from i2s_spec.linter.report import Format
from i2s_spec.linter.run import LintRun, WrongCallError

if TYPE_CHECKING:
    from i2s_spec.gguf.atomic_file import OutputFile

#: A report that is being written, and what takes its text: the terminal, or a file that appears when all is well.
Sheet = tuple[Format, Callable[[str], None]]


@click.command(
    "lint",
    epilog="Example:  i2s new tiny.gguf && i2s lint tiny.gguf",
    short_help="Check GGUF files: every finding has a code and a byte range.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(readable=False))
@lint_options(Options, RunOptions)
@remote_options
@click.pass_context
def lint_command(ctx: click.Context, /, files: tuple[str, ...], **given: Any) -> int:
    """Check GGUF files: every finding has a code, a byte range and one plain sentence.

    FILE is a file, a folder (every *.gguf below it), a quoted glob, or @LIST, a file of names (@- for standard input).
    A folder of safetensors is checked as a checkpoint, by the rules whose codes begin with H. With the extra [remote]
    it may be an address: hf://ORG/REPO[@REVISION][/PATH], a page of the hub, https://, s3://. From a server, `i2s lint
    --payload sample hf://ORG/REPO` fetches headers, all scales and a part of each tensor. A repository without GGUF
    files is checked as a checkpoint: only headers and scales are read, unless --payload asks for weights.

    Exit code 0: nothing at or above --fail-on. 1: findings. 3: a file cannot be read or is not GGUF (the report is
    still written). 4: a bug in i2s-spec. 5: a server did not give a file. With several files, the worst code is returned.
    75: a run with --engine ended early; repeat the command to go on. `i2s explain CODE` says more about a finding.

    Options can be set in i2s.toml, in [tool.i2s] of pyproject.toml, or in variables such as I2S_PROFILE; the command
    line comes first, then variables, then the files. Reports name the configuration file that changes their findings.
    With --profile security only a file that --config names may change them, not a file that i2s finds itself.
    """  # fmt: skip
    # Read when NumPy is first imported. Its products here are small, and processes and threads are the linter's own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    asked = asked_for(ctx, given, Options, RunOptions)
    if given["engine"] is None:
        refuse_without_engine(given)
    with ExitStack() as stack:
        try:
            run = LintRun(given, asked)
            weights = stack.enter_context(run.weights())
        except WrongCallError as error:
            raise click.UsageError(str(error)) from None
        remarks = run.remarks
        if run.how.output is not None or not run.forms[0].plain_text:
            remarks = remarks + run.totals.remarks
        _say(f"configuration: {remark}" for remark in remarks)
        if run.forms[1:] or run.how.output is not None or run.how.engine is not None:
            from i2s_spec.cli.process import cleaned_up  # what is printed needs no cleaning up

            stack.enter_context(cleaned_up())
        bar = Bar() if sys.stderr.isatty() and not run.how.quiet else None
        reports: Generator[tuple[str, dict[str, Any]], None, None]
        if run.how.engine is None:
            reports = lint_paths(files, run.options, run.jobs, bar, weights, _checkpoint)
        else:
            reports = engine_run(files, run.options, run.jobs, run.how, _checkpoint)
        stale = _write_reports(run, stack.enter_context(closing(reports)), _sheets(run, stack), command_line(ctx), bar)
    _say(run.end(stale))
    return run.totals.exit_code


def _write_reports(
    run: LintRun, reports: Iterable[tuple[str, dict[str, Any]]], sheets: Iterable[Sheet], typed: str, bar: Bar | None
) -> Collection[str]:
    """Write each report in every form; the stale entries of the baseline."""
    for sheet, write in sheets:
        sheet.command, sheet.profile = typed, run.options.profile
        write(sheet.begin())
    for path, found in reports:
        report = run.take(path, found)
        if bar is not None:
            bar.hide()
        for sheet, write in sheets:
            write(sheet.file(report))
    stale = run.stale()
    for sheet, write in sheets:
        write(sheet.end(run.totals))
    return stale


def _sheets(run: LintRun, stack: ExitStack) -> list[Sheet]:
    """Each format that was asked for, with what takes its text."""
    how, sheets = run.how, list[Sheet]()
    # Colours need a terminal that wants them; https://no-color.org
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for form, place in zip(run.forms, (how.output, *how.reports), strict=True):
        if place in (None, "-"):
            sheet = form(colour, how.quiet, how.threshold)
            sheet.columns = _columns()
            sheets.append((sheet, _print))
            continue
        from i2s_spec.gguf.atomic_file import OutputFile  # few runs write a file

        output = stack.enter_context(OutputFile(place, force=True))
        # A report beside the one that is quiet is for later readers, and whole.
        quiet = how.quiet and place == how.output
        sheets.append((form(False, quiet, how.threshold), partial(_write, output)))
    return sheets


def _checkpoint(path: str, options: Options) -> dict[str, Any]:
    """The report on a folder of safetensors; what it needs is imported only for one."""
    from i2s_spec.checkpoints.lint_checkpoint import lint_folder

    return lint_folder(path, options)


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(f"i2s: {sentence}", file=sys.stderr, flush=True)


def _write(output: OutputFile, text: str) -> None:
    output.write(text.encode("utf-8"))


def _print(text: str) -> None:
    """Write a piece of the report; what the stream's encoding cannot say, it says as a number."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _columns() -> int | None:
    """Columns of the terminal that reports go to; None where they go elsewhere."""
    if not sys.stdout.isatty():
        return None
    from i2s_spec.draw.terminal import columns

    return columns(sys.stdout)
