"""`i2s lint` (also `i2s validate`): check GGUF files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.cluster_run import engine_options, engine_run, refuse_without_engine
from i2s_spec.cli.command_line import command_line
from i2s_spec.cli.progress import Bar
from i2s_spec.cli.remote_options import remote_options
from i2s_spec.cli.settings import GIVEN, Settings, files_of, limits_of, options_of, pairs_of, spared, words
from i2s_spec.cli.termination import cleaned_up
from i2s_spec.errors import EXIT_FINDINGS, FormatError, quote
from i2s_spec.linter.batch.lint_paths import lint_paths
from i2s_spec.linter.engine import open_reference
from i2s_spec.linter.options import Options
from i2s_spec.linter.reference import Reference
from i2s_spec.linter.report import FORMATS, Format, details_of, kind
from i2s_spec.linter.report_data import Totals
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.selection.config import Config, found
from i2s_spec.linter.selection.profile import PROFILES, READINGS
from i2s_spec.linter.selection.suppressions import Suppression, used
from i2s_spec.schema.limits import NAMED

if TYPE_CHECKING:
    from i2s_spec.gguf.atomic_file import OutputFile
    from i2s_spec.linter.reference.weights import Weights
    from i2s_spec.linter.selection.baseline import Baseline


@click.command(
    "lint",
    epilog="Example:  i2s new tiny.gguf && i2s lint tiny.gguf",
    short_help="Check GGUF files: codes, byte ranges, one sentence each.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--format",
    "--output-format",
    "form",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    envvar="I2S_FORMAT",
    help="Form of the report.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    callback=spared,
    help="Write the report to this file instead of standard output (-).",
)
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FORM=FILE",
    callback=files_of,
    help="Write the report to a file as well, in this form.",
)
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="default",
    show_default=True,
    envvar="I2S_PROFILE",
    help="Which rules apply; `i2s rules --profile NAME` lists them.",
)
@click.option(
    "--select",
    multiple=True,
    metavar="CODE,...",
    callback=words,
    envvar="I2S_SELECT",
    help="Apply these rules instead: codes, the beginnings of codes, or slugs.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODE,...",
    callback=words,
    envvar="I2S_IGNORE",
    help="Do not apply these rules.",
)
@click.option(
    "--severity",
    multiple=True,
    metavar="CODE=LEVEL",
    callback=pairs_of,
    envvar="I2S_SEVERITY",
    help="Make findings errors, warnings or notes.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    callback=limits_of,
    envvar="I2S_LIMIT",
    help=f"Set a bound: {', '.join(NAMED)}.",
)
@click.option(
    "--payload",
    type=click.Choice(READINGS),
    envvar="I2S_PAYLOAD",
    help="How much of the weights is read.  [default: as the profile says, mostly full]",
)
@click.option("--header-only", is_flag=True, help="The same as --payload none.")
@click.option("--sample", is_flag=True, help="The same as --payload sample: a bounded part of each tensor.")
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    envvar="I2S_THREADS",
    help="Threads that read the weights of one file.",
)
@click.option(
    "--jobs",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    envvar="I2S_JOBS",
    help="Processes that check files; 0 for one on each processor.",
)
@engine_options
@click.option("--runtimes", is_flag=True, envvar="I2S_RUNTIMES", help="Say which runtimes load and compute each file.")
@click.option(
    "--reference",
    metavar="OTHER",
    type=click.Path(),
    help="Compare the weights with those of another file of the model: GGUF, safetensors, or a folder of these. It decides "
    "what a file does not tell, such as the layout of random weights.",
)
@click.option(
    "--reference-dialect", metavar="DIALECT", help="How the I2_S tensors of OTHER are packed.  [default: canonical]"
)
@click.option(
    "--expect", metavar="DIALECT", help="How the I2_S tensors of FILE are meant to be packed.  [default: canonical]"
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), "never"]),
    default="error",
    show_default=True,
    envvar="I2S_FAIL_ON",
    help="Exit with 1 where a finding is at or above this severity.",
)
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False),
    envvar="I2S_BASELINE",
    help="Leave out the findings in this file; fail where one of them no longer occurs.",
)
@click.option("--write-baseline", is_flag=True, help="Write the findings of this run to the baseline.")
@click.option(
    "--skip-lfs", is_flag=True, envvar="I2S_SKIP_LFS", help="Skip Git LFS pointers instead of reporting them."
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    envvar="I2S_CONFIG",
    help="Configuration to take instead of looking for i2s.toml and pyproject.toml.",
)
@click.option("--no-config", is_flag=True, help="Look for no configuration.")
@click.option(
    "-q", "--quiet", is_flag=True, help="Only findings and verdicts: nothing about files without findings, no advice."
)
@remote_options
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], **given: Any) -> int:
    """Check GGUF files: every finding has a code, a byte range and one plain sentence.

    FILE is a file, a folder (every *.gguf below it), a quoted glob, or @LIST, a file of names (@- for standard input). A
    folder of safetensors is checked as a checkpoint, by the rules of the letter H. With the extra [remote] it may be an
    address: hf://ORG/REPO[@REVISION][/PATH], a page of the hub, https://, s3://. Of a server, `i2s lint --payload sample
    hf://ORG/REPO` fetches headers, all scales and a part of each tensor.

    Exit code 0: nothing at or above --fail-on. 1: findings. 3: a file cannot be read or is not GGUF (it is reported all
    the same). 4: a bug in i2s-spec. 5: a server did not give a file. With several files, the worst code is returned. 75: a
    run with --engine ended early; the same command goes on. `i2s explain CODE` says more about a finding.

    Options can be set in i2s.toml, in [tool.i2s] of pyproject.toml, or in variables such as I2S_PROFILE; the command line
    comes first, then variables, then the files. Reports say which file changes what is found. With --profile security
    a file that was found, and not named with --config, changes nothing of that.
    """  # fmt: skip
    # Read when NumPy is first imported. Its products here are small, and processes and threads are the linter's own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    config = Config() if given["no_config"] else found(explicit=given["config"])
    if config.was_found and given["profile"] == "security" and ctx.get_parameter_source("profile") in GIVEN:
        _say_ignored(config)
        config = config.without_verdict_keys()
    setting = Settings(ctx, given, config)
    forms = [kind(name) for name in (setting.form, *given["reports"].values())]
    details = details_of(forms)
    reference = _reference(given["reference"], given["reference_dialect"], given["expect"])
    options = options_of(setting, config, details, reference)
    threshold = None if (fail_on := setting["fail_on"]) == "never" else Severity(fail_on)
    write = given["write_baseline"]
    baseline = _baseline(setting, options, write)
    jobs = setting["jobs"] or _processors()
    if given["engine"] is None:
        refuse_without_engine(given)
    elif config.get("jobs", None) is None and ctx.get_parameter_source("jobs") not in GIVEN:
        jobs = _processors()

    # Colours need a terminal that wants them; https://no-color.org
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    totals = Totals(None if write else threshold, config.affecting_findings())
    if forms[0].__module__ != "i2s_spec.linter.report.text" or given["output"] is not None:
        for remark in totals.remarks:
            click.echo(f"i2s: configuration: {remark}", err=True)
    idle = set(options.suppressions)
    bar = Bar() if sys.stderr.isatty() and not given["quiet"] else None
    with ExitStack() as stack:
        if forms[1:] or given["output"] is not None:
            stack.enter_context(cleaned_up())
        weights = stack.enter_context(_opened(options))
        sheets: list[tuple[Format, Callable[[str], None]]] = []
        if forms[1:] or given["output"] is not None:
            from i2s_spec.gguf.atomic_file import OutputFile
        for form, place in zip(forms, (given["output"], *given["reports"]), strict=True):
            if place in (None, "-"):
                sheet = form(colour, given["quiet"], threshold)
                sheet.columns = _columns()
                sheets.append((sheet, _print))
                continue
            output = stack.enter_context(OutputFile(place, force=True))
            sheets.append((form(False, given["quiet"], threshold), partial(_write, output)))
        for sheet, say in sheets:
            sheet.command = command_line(ctx)
            say(sheet.begin())
        run = stack.enter_context(closing(
            lint_paths(files, options, jobs, bar, weights, _checkpoint) if given["engine"] is None
            else engine_run(files, options, jobs, given)
        ))  # fmt: skip
        for path, found_there in run:
            file_report = found_there if baseline is None else baseline.apply(path, found_there, write)
            if bar is not None:
                bar.hide()
            if idle and file_report["excused"]:
                idle -= used(idle, path, file_report)
            totals.add(file_report)
            for sheet, say in sheets:
                say(sheet.file(file_report))
        gone = [] if baseline is None or write else list(baseline.stale())
        if gone:
            totals.fail(EXIT_FINDINGS)
        for sheet, say in sheets:
            say(sheet.end(totals))
    _afterwards(
        baseline,
        write,
        gone,
        [suppression for suppression in options.suppressions if suppression in idle and not given["quiet"]],
    )
    return totals.exit_code


def _checkpoint(path: str, options: Options) -> dict[str, Any]:
    """The report on a folder of safetensors; what it needs is imported only for one."""
    from i2s_spec.checkpoints.findings.lint_checkpoint import lint_folder

    return lint_folder(path, options)


def _say_ignored(config: Config) -> None:
    """Say what a configuration that was found would have changed, had the profile security not been asked for."""
    for place, keys in config.affecting_findings():
        what = f"{', '.join(keys)} of {place} do not count under --profile security; --config {place} makes them count"
        click.echo(f"i2s: configuration: {what}", err=True)


def _reference(path: str | None, dialect: str | None, expected: str | None) -> Reference | None:
    """What the files are compared with, if that was asked for."""
    if path is None:
        if dialect is not None or expected is not None:
            raise click.UsageError("--reference-dialect and --expect say how tensors are compared: with --reference")
        return None
    return Reference(path, dialect or "canonical", expected or "canonical")


def _opened(options: Options) -> AbstractContextManager[Weights | None]:
    """The weights of the reference, opened once for the run.

    :raises UsageError: where it cannot be read
    """
    try:
        return open_reference(options)
    except FormatError as error:
        from i2s_spec.draw.text import fault_words

        reason = fault_words(error)
    except ValueError as error:
        raise click.UsageError(f"--reference: {error}") from None
    except OSError as error:
        reason = str(error.strerror or error)
    assert options.reference is not None
    raise click.UsageError(f"--reference {quote(str(options.reference.origin), 4096, bare=True)}: {reason}") from None


def _write(output: OutputFile, text: str) -> None:
    output.write(text.encode("utf-8"))


def _print(text: str) -> None:
    """Write a piece of the report; what the stream's encoding cannot say, it says as a number."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False, color=True)


def _baseline(setting: Settings, options: Options, write: bool) -> Baseline | None:
    path = setting["baseline"]
    if path is None:
        if write:
            raise click.UsageError("--write-baseline needs --baseline FILE, the file to write")
        return None
    from i2s_spec.linter.selection.baseline import Baseline

    if write and not os.path.lexists(path):
        return Baseline(path, options.levels)
    return Baseline.read(path, options.levels)


def _afterwards(baseline: Baseline | None, write: bool, gone: list[str], idle: Iterable[Suppression]) -> None:
    """Print what concerns the run as a whole, to stderr."""
    if baseline is not None and write:
        count = baseline.write()
        click.echo(
            f"i2s: {count:,} {'entry' if count == 1 else 'entries'} in {quote(baseline.path, bare=True)}", err=True
        )
    for sentence in gone:
        click.echo(f"i2s: baseline: {sentence}", err=True)
    if gone and baseline is not None:
        click.echo(f"i2s: take them out with --baseline {quote(baseline.path, bare=True)} --write-baseline", err=True)
    for suppression in idle:
        codes, files = (quote(text, bare=True) for text in (", ".join(suppression.codes), suppression.files))
        click.echo(f"i2s: note: the suppression of {codes} in {files} covered nothing", err=True)


def _columns() -> int | None:
    """Columns of the terminal that reports go to; None where they go elsewhere."""
    if not sys.stdout.isatty():
        return None
    from i2s_spec.draw.terminal import columns

    return columns(sys.stdout)


def _processors() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
