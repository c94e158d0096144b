"""`i2s lint` (also `i2s validate`): judge GGUF files."""

from __future__ import annotations

import os
import sys

import click

from i2s_spec.linter.engine import PROFILES, Report, lint
from i2s_spec.linter.report import FORMATS, make
from i2s_spec.linter.rule import Severity

#: Of several exit codes the worst counts.
_WORST = (4, 3, 1, 0)


@click.command(
    "lint",
    epilog="Example:  i2s new tiny.gguf && i2s lint tiny.gguf",
    short_help="Judge GGUF files: codes, byte ranges, one sentence each.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="Form of the report.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--profile", type=click.Choice(PROFILES), default="default", show_default=True, help="Which rules apply.")
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 where a finding is at or above this severity.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing about files without findings.")
def command(files: tuple[str, ...], form: str, as_json: bool, profile: str, fail_on: str, quiet: bool) -> int:
    """Judge GGUF files: every finding has a code, a byte range and one plain sentence.

    Exit code 0: nothing at or above --fail-on. 1: findings. 3: a file cannot be read or is not GGUF (it is reported all
    the same). Of several files the worst counts. `i2s explain CODE` says more about a finding.
    """
    # Colours need a terminal that wants them; https://no-color.org
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    report_format = make("json" if as_json else form, colour=colour, quiet=quiet)
    threshold = None if fail_on == "never" else Severity(fail_on)
    reports: list[Report] = []
    click.echo(report_format.begin(), nl=False)
    for path in files:
        report = lint(path, profile=profile)
        click.echo(report_format.file(report), nl=False, color=True)
        reports.append(report)
    click.echo(report_format.end(reports), nl=False)
    codes = {report.exit_code(threshold) for report in reports}
    return next(code for code in _WORST if code in codes)
