"""`i2s lint` (also `i2s validate`): check GGUF files. This module declares its options; `lint_run` does the work."""

from __future__ import annotations

from typing import Any

import click

from i2s_spec.cli.cluster_run import engine_options, refuse_without_engine
from i2s_spec.cli.command_line import command_line
from i2s_spec.cli.lint_calls.lint_run import WrongCallError, lint_run
from i2s_spec.cli.remote_options import remote_options
from i2s_spec.cli.settings import files_of, limits_of, pairs_of, spared, words
from i2s_spec.linter.report import FORMATS
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.selection.profile import PROFILES, READINGS
from i2s_spec.schema.limits import NAMED


@click.command(
    "lint",
    epilog="Example:  i2s new tiny.gguf && i2s lint tiny.gguf",
    short_help="Check GGUF files: every finding has a code and a byte range.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(readable=False))
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
    help="Apply only these rules: codes, the beginnings of codes, or slugs.",
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
    help="Set the severity of a rule: error, warning or note.",
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
    help="How much of the weights is read.  [default: set by the profile, usually full]",
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
    type=click.Path(readable=False),
    help="Compare the weights with those of another file of the model: GGUF, safetensors, or a folder of these. It "
    "decides questions that one file leaves open, such as the layout of random weights.",
)
@click.option(
    "--reference-dialect", metavar="DIALECT", help="How the I2_S tensors of OTHER are packed.  [default: canonical]"
)
@click.option(
    "--expect", metavar="DIALECT", help="How the I2_S tensors of FILE should be packed.  [default: canonical]"
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), "never"]),
    default="error",
    show_default=True,
    envvar="I2S_FAIL_ON",
    help="Exit with 1 if a finding is at or above this severity. A file that cannot be read always gives 3.",
)
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False),
    envvar="I2S_BASELINE",
    help="Leave out the findings in this file; fail if one of them no longer occurs.",
)
@click.option("--write-baseline", is_flag=True, help="Write the findings of this run to the baseline.")
@click.option(
    "--skip-lfs", is_flag=True, envvar="I2S_SKIP_LFS", help="Skip Git LFS pointers instead of reporting them."
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    envvar="I2S_CONFIG",
    help="Configuration to use instead of looking for i2s.toml and pyproject.toml.",
)
@click.option("--no-config", is_flag=True, help="Look for no configuration.")
@click.option(
    "-q", "--quiet", is_flag=True, help="Only findings and verdicts: nothing about files without findings, no advice."
)
@remote_options
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], **given: Any) -> int:
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
    if given["engine"] is None:
        refuse_without_engine(given)
    sources = {name: source.name for name in given if (source := ctx.get_parameter_source(name)) is not None}
    try:
        return lint_run(files, given, sources, command_line(ctx))
    except WrongCallError as error:
        raise click.UsageError(str(error)) from None
