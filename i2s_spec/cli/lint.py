"""`i2s lint` (also `i2s validate`): check GGUF files. Its options are declared in `i2s_spec.linter.options`."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from i2s_spec.cli.options import INPUT, Command, call_files, limits_of, pairs_of, remote_options, report_place, words
from i2s_spec.cli.process import Bar, cleaned_up
from i2s_spec.cli.verbs import command_line
from i2s_spec.draw.text import encodable
from i2s_spec.errors import quote
from i2s_spec.gguf.source import is_address
from i2s_spec.linter.lint_run import LintRun, WrongCallError
from i2s_spec.linter.options import RESULTS, Option, OptionGroup, OptionKind, Options, RunOptions, declared
from i2s_spec.linter.paths import inputs, lint_paths
from i2s_spec.linter.report import FORMATS, Format

if TYPE_CHECKING:
    from i2s_spec.gguf.atomic_file import OutputFile

#: A report that is being written, and what takes its text: the terminal, or a file that appears when all is well.
Sheet = tuple[Format, Callable[[str], None]]


# --- the declared options, for click ----------------------------------------------------------------------------------


def files_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """Parse values of the form FORM=FILE into the form of each file."""
    files = {}
    for value in values:
        form, _, path = value.partition("=")
        if form not in FORMATS or not path:
            wanted = f"{parameter.metavar}, with one of {', '.join(sorted(FORMATS))}"
            raise click.BadParameter(f"{quote(value)} is not of the form {wanted}", ctx, parameter)
        if path in files:
            raise click.BadParameter(f"{quote(path)} is the name of two outputs; each needs its own", ctx, parameter)
        files[path] = form
    return files


def rates_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Parse values of the form HOST=REQUESTS/SECONDS into a table."""
    rates = {}
    for value in values:
        host, _, rate = value.rpartition("=")
        requests, sign, seconds = rate.partition("/")
        try:
            numbers = float(requests), float(seconds) if sign else 1.0
        except ValueError:
            numbers = math.nan, math.nan
        if not host or not all(0 < number < 1e9 for number in numbers):
            raise click.BadParameter(f"{quote(value)} is not of the form {parameter.metavar}", ctx, parameter)
        rates[host] = numbers
    return rates


#: The groups of options in the order of the help.
IN_HELP: Final = (
    OptionGroup.REPORT,
    OptionGroup.RULES,
    OptionGroup.SPEED,
    OptionGroup.CLUSTER,
    OptionGroup.COMPARISON,
    OptionGroup.VERDICT,
    OptionGroup.FILES,
)

#: What click must know about an option of each kind.
_KINDS: Final[Mapping[OptionKind, dict[str, Any]]] = {
    OptionKind.FLAG: {"is_flag": True},
    OptionKind.TEXT: {},
    OptionKind.FILE: {"type": click.Path(dir_okay=False)},
    OptionKind.INPUT: {"type": INPUT},
    OptionKind.WORDS: {"multiple": True, "callback": words},
    OptionKind.ACCEPTED: {"multiple": True, "callback": words},
    OptionKind.LEVELS: {"multiple": True, "callback": pairs_of},
    OptionKind.BOUNDS: {"multiple": True, "callback": limits_of},
    OptionKind.REPORT: {"type": click.Path(dir_okay=False)},
    OptionKind.REPORTS: {"multiple": True, "callback": files_of},
    OptionKind.RATES: {"multiple": True, "callback": rates_of},
}

#: Where values come from that whoever runs the program sets.
_ASKED: Final = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def lint_options(*classes: type) -> Callable[[Command], Command]:
    """Add the options that these classes declare to a command."""

    def decorate(command: Command) -> Command:
        options = sorted(declared(*classes).items(), key=lambda found: IN_HELP.index(found[1].group))
        for name, option in reversed(options):
            for short in reversed(option.shorts):
                command = click.option(short.flag, short.name, is_flag=True, help=short.help)(command)
            command = _click_option(name, option)(command)
        return command

    return decorate


def _click_option(name: str, option: Option) -> Callable[[Command], Command]:
    more: dict[str, Any] = {"help": option.help, "envvar": option.env, "metavar": option.metavar}
    if option.kind is OptionKind.CHOICE:
        more["type"] = click.Choice(sorted(option.choices) if option.sorted_help else option.choices)
    elif option.kind is OptionKind.COUNT:
        more |= {"type": click.IntRange(option.least), "metavar": option.metavar or "N"}
    else:
        more |= _KINDS[option.kind]
    if option.kind in (OptionKind.CHOICE, OptionKind.COUNT) and option.default is not None:
        more |= {"default": option.default, "show_default": True}
    return click.option(*option.flags, name, **more)


def asked_for(ctx: click.Context, given: dict[str, Any], *classes: type) -> set[str]:
    """Return the names of the declared options that the command line or a variable sets.

    Short flags are taken out of the values, and set the options that they stand for.

    :raises UsageError: where flags exclude each other
    """
    sources = {name: ctx.get_parameter_source(name) for name in given}
    asked = {name for name, source in sources.items() if source in _ASKED}
    for name, option in declared(*classes).items():
        flags = [short for short in option.shorts if given.pop(short.name)]
        on_line = sources[name] is ParameterSource.COMMANDLINE
        wrong = len(flags) > 1 or (flags and on_line and given[name] != flags[0].value)
        if wrong and option.exclusive:
            names = ", ".join(short.flag for short in option.shorts)
            raise click.UsageError(f"{names} and {option.flags[0]} exclude each other")
        if flags:
            given[name] = flags[0].value
            asked.add(name)
    return asked


# --- the verb --------------------------------------------------------------------------------------------------------


@click.command(
    "lint",
    epilog="Example:  i2s new tiny.gguf && i2s lint tiny.gguf",
    short_help="Check GGUF files: every finding has a code and a byte range.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
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
        _refuse_without_engine(given)
    with ExitStack() as stack:
        try:
            run = LintRun(given, asked)
            weights = stack.enter_context(run.weights())
        except WrongCallError as error:
            raise click.UsageError(str(error)) from None
        _enter_files(run, files)
        remarks = run.remarks
        if run.how.output is not None or not run.forms[0].plain_text:
            remarks = remarks + run.totals.remarks
        _say(f"configuration: {remark}" for remark in remarks)
        if run.forms[1:] or run.how.output is not None or run.how.engine is not None:
            stack.enter_context(cleaned_up())
        bar = Bar() if sys.stderr.isatty() and not run.how.quiet else None
        reports: Generator[tuple[str, dict[str, Any]], None, None]
        if run.how.engine is None:
            reports = lint_paths(files, run.options, run.jobs, bar, weights, _checkpoint)
        else:
            from i2s_spec.cli.cluster import engine_run  # few runs are on a cluster

            reports = engine_run(files, run.options, run.jobs, run.how, _checkpoint)
        stale = _write_reports(run, stack.enter_context(closing(reports)), _sheets(run, stack), command_line(ctx), bar)
    _say(run.end(stale))
    return run.totals.exit_code


def _enter_files(run: LintRun, files: Iterable[str]) -> None:
    """Say what is read and written, after the configuration had its say.

    :raises click.UsageError: for an output that is an input or another output
    """
    how, call = run.how, call_files()
    call.read(how.reference, how.expect, None if how.write_baseline else how.baseline, *run.configurations)
    for place in (how.output, *how.reports, how.baseline if how.write_baseline else None):
        call.write(place)
    if how.engine is not None:
        from i2s_spec.cli.cluster import table_of

        results = how.results or RESULTS
        call.write(table_of(results))
        call.write(results)
    if call.replaces:  # what names stand for is worth a look then
        here = [name for name in files if name != "@-" and not is_address(name)]
        call.read(*(name[1:] for name in here if name.startswith("@")), *(each.path for each in inputs(here)))


def _refuse_without_engine(given: Mapping[str, Any]) -> None:
    """Refuse options that only a run with an engine follows.

    :raises UsageError: for an option that only a run with an engine follows
    """
    for name, option in declared(RunOptions).items():
        if option.group is OptionGroup.CLUSTER and given[name]:
            raise click.UsageError(f"{option.flags[0]} applies only with --engine dask")


def _write_reports(
    run: LintRun, reports: Iterable[tuple[str, dict[str, Any]]], sheets: Iterable[Sheet], typed: str, bar: Bar | None
) -> Collection[str]:
    """Write each report in every form, and return the stale entries of the baseline."""
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
    """Return each format that was asked for, with what takes its text."""
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

        output = stack.enter_context(OutputFile(report_place(place, how.force), force=True))
        # A report beside the one that is quiet is for later readers, and whole.
        quiet = how.quiet and place == how.output
        sheets.append((form(False, quiet, how.threshold), partial(_write, output)))
    return sheets


def _checkpoint(path: str, options: Options, root: str = "") -> dict[str, Any]:
    """Return the report on a folder of safetensors; what it needs is imported only for one."""
    from i2s_spec.checkpoints.lint_checkpoint import lint_folder

    return lint_folder(path, options, root)


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(f"i2s: {sentence}", file=sys.stderr, flush=True)


def _write(output: OutputFile, text: str) -> None:
    output.write(text.encode("utf-8"))


def _print(text: str) -> None:
    """Write a piece of the report; what the stream's encoding cannot say, it says as a number."""
    sys.stdout.write(encodable(text, sys.stdout))
    sys.stdout.flush()


def _columns() -> int | None:
    """Return the columns of the terminal that reports go to; None where they go elsewhere."""
    if not sys.stdout.isatty():
        return None
    from i2s_spec.draw.terminal import columns

    return columns(sys.stdout)
