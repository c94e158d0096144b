"""`i2s fuzz -- COMMAND`: fuzz a decoder in any language from outside."""

from __future__ import annotations

import re
from typing import Any

import click

from i2s_spec.cli.options import form_option, usage_errors
from i2s_spec.cli.process import counting_bar
from i2s_spec.errors import EXIT_FINDINGS, quote
from i2s_spec.linter.selection import PROFILES

#: Files of a campaign that nobody bounded.
_RUNS = 1000
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(value: str) -> int:
    """Parse a number of bytes, written as `512M` or `1G`."""
    found = re.fullmatch(r"(\d{1,12})([kmg]?)(?:i?b)?", value.strip().lower())
    if found is None or not int(found[1]):
        raise click.BadParameter(f"{quote(value)} is not a size; write 512M or 1G")
    return int(found[1]) * _UNITS[found[2]]


def statuses(value: str) -> frozenset[int]:
    """Parse exit statuses, written as `0` or `1,2,64-78`."""
    found: set[int] = set()
    for part in value.split(","):
        ends = re.fullmatch(r"\s*(\d{1,3})(?:-(\d{1,3}))?\s*", part)
        if ends is None or int(ends[2] or ends[1]) > 255:
            raise click.BadParameter(f"{quote(value)} are not exit statuses; write 1 or 1,2,64-78")
        found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return frozenset(found)


@click.command(
    short_help="Fuzz a decoder in any language from outside.",
    epilog="Example:  i2s fuzz --runs 200 -- i2s lint -q",
)
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--stdin", is_flag=True, help="Give the file through the standard input.")
@click.option("--runs", type=click.IntRange(1), metavar="N", help=f"Files to try. [default: {_RUNS}, unless --seconds]")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Stop after this time.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="Random seed.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N", help="Runs at a time.")
@click.option("--corpus", type=click.Path(readable=False), metavar="DIR",
              help="Keep finds and progress in DIR, and go on from there the next time.")  # fmt: skip
@click.option("--seeds", multiple=True, type=click.Path(exists=True), metavar="PATH",
              help="More files, or folders of files, to begin with.")  # fmt: skip
@click.option("--replay", multiple=True, type=click.Path(exists=True), metavar="PATH",
              help="Try only these files, or those in these folders.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, metavar="S",
              help="Time limit for one file.")  # fmt: skip
@click.option(
    "--memory",
    type=size,
    metavar="SIZE",
    default="512M",
    show_default=True,
    help="Limit of resident memory for one file.",
)
@click.option("--max-size", type=size, metavar="SIZE", default="256K", show_default=True, help="Largest file to try.")
@click.option(
    "--accept", type=statuses, metavar="LIST", default="0", show_default=True, help="Exit statuses that accept a file."
)
@click.option(
    "--reject",
    type=statuses,
    metavar="LIST",
    help="Those that reject it; others are then crashes. [default: all others]",
)
@click.option("--reads", type=click.Choice(["header", "tensors", "model"]), default="tensors", show_default=True,
              help="How far the decoder reads: metadata and table, the tensors' bytes too, or a whole model.")  # fmt: skip
@click.option("--supports", default="i2s,alignment", show_default=True, metavar="LIST",
              help="What it supports, of: i2s, alignment, version-2, big-endian, every-type, empty; or none.")  # fmt: skip
@click.option("--must-reject", multiple=True, metavar="CODE", help="A rule whose violations it must also reject.")
@click.option("--may-accept", multiple=True, metavar="CODE", help="A rule whose violations it may accept.")
@click.option("--profile", type=click.Choice(list(PROFILES)), default="default", show_default=True,
              help="Linter profile that decides which files must be accepted.")  # fmt: skip
@click.option("--effort", type=click.IntRange(0), default=300, show_default=True, metavar="N",
              help="Limit the runs that reduce one find to a small file.")  # fmt: skip
@form_option(["text", "json", "junit"])
@click.option("--list-duties", is_flag=True, is_eager=True, expose_value=False, callback=lambda c, p, on: _duties(c, on),
              help="List the rules whose violations a decoder must reject, and why.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def fuzz_command(
    words: tuple[str, ...],
    stdin: bool,
    runs: int | None,
    seconds: float | None,
    corpus: str | None,
    seeds: tuple[str, ...],
    replay: tuple[str, ...],
    form: str,
    quiet: bool,
    **options: Any,
) -> int:
    """Run COMMAND on one file at a time, and check how it ends.

    The file's name replaces {} in COMMAND, or is added at its end. COMMAND accepts a file by exit status 0, and rejects
    it by any other. The files are sound files, the malformed catalogue, every number at its limits, and random changes.
    The report lists crashes (signals), hangs, memory above the limit, sound files that it rejects, and files that it
    accepts although no reader can reach their bytes; each is reduced to a small file, and named with the rule and its
    clause. The same seed gives the same files.

    Exit status: 0 nothing found, 1 findings, 2 usage.
    """
    from i2s_spec.fuzzing.bounded_process import Command
    from i2s_spec.fuzzing.campaign import Campaign
    from i2s_spec.fuzzing.inputs import files_under
    from i2s_spec.fuzzing.report import json_report, junit_report, text_report

    if replay and (runs is not None or seconds is not None or corpus is not None):
        raise click.UsageError(
            "--replay tries the given files once; it cannot be combined with --runs, --seconds or --corpus"
        )
    with usage_errors(ValueError):
        given = [data for _, data in files_under(seeds)]
        files = list(files_under(replay))
        campaign = Campaign(Command(words, stdin), _settings(**options), corpus, given)
    with campaign:
        total: int | None
        if replay:
            total, steps = len(files), campaign.replay(files)
        else:
            total = _RUNS if runs is None and seconds is None else runs
            steps = campaign.run(total, seconds)
        with counting_bar("fuzzing", total, quiet, forks=True) as bar:
            for done in steps:
                if bar is not None:
                    bar(done, remark=f"{len(campaign.findings)} found")
    if form == "text":
        click.echo(text_report(campaign, corpus), nl=False)
    else:
        click.echo(json_report(campaign) if form == "json" else junit_report(campaign), nl=False)
    return EXIT_FINDINGS if campaign.findings else 0


def _settings(
    *,
    seed: int,
    jobs: int,
    timeout: float,
    memory: int,
    max_size: int,
    accept: frozenset[int],
    reject: frozenset[int] | None,
    reads: str,
    supports: str,
    must_reject: tuple[str, ...],
    may_accept: tuple[str, ...],
    profile: str,
    effort: int,
) -> Any:
    """Return the settings of a campaign from its options.

    :raises ValueError: for what does not go together
    """
    from i2s_spec.fuzzing.bounded_process import Bounds
    from i2s_spec.fuzzing.campaign import CampaignSettings
    from i2s_spec.fuzzing.expectations import DecoderPolicy, ReadDepth
    from i2s_spec.fuzzing.expectations import Statuses as Meanings

    named = frozenset(name.strip() for name in supports.split(",") if name.strip() not in ("", "none"))
    policy = DecoderPolicy(
        ReadDepth(reads),
        named,
        profile,
        frozenset(code.upper() for code in must_reject),
        frozenset(code.upper() for code in may_accept),
    )
    return CampaignSettings(seed, Bounds(timeout, memory), Meanings(accept, reject), policy, max_size, jobs, effort)


def _duties(ctx: click.Context, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from i2s_spec.fuzzing.expectations import OF_HEADER, OF_TENSORS
    from i2s_spec.linter.rules import REGISTRY

    for title, owed in (("every decoder", OF_HEADER), ("a decoder that reads tensors", OF_TENSORS)):
        click.echo(f"{title} must reject:")
        for code, obligation in owed.items():
            click.echo(f"  {code}  {REGISTRY[code].slug:<24}  {obligation.reason}")
    ctx.exit()
