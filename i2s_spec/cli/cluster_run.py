"""This module is what `i2s lint` does with --engine: options of a run over many files, and the run itself."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from typing import Any

import click

from i2s_spec.errors import quote
from i2s_spec.linter.batch.lint_paths import Folders
from i2s_spec.linter.options import Options

#: Options that say how a cluster is used, and so need an engine.
_OF_ENGINE = {"scheduler": "--scheduler", "results": "--results", "rates": "--rate", "in_flight": "--in-flight"}

#: Where results go unless --results says otherwise.
RESULTS = "i2s-results.jsonl"


def rates_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Values of the form HOST=REQUESTS/SECONDS as a table."""
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


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a run over many files to a command."""
    options = [
        click.option(
            "--engine",
            type=click.Choice(["dask"]),
            help="Check the files on Dask and keep the results, so that a run that ended early can go on. FILE may then "
            "also be an address, a list (NAME.txt) or a manifest (NAME.jsonl). Needs the extra [dask].",
        ),
        click.option("--scheduler", metavar="ADDRESS", help="The cluster to use.  [default: --jobs processes here]"),
        click.option(
            "--results",
            metavar="FILE.jsonl",
            type=click.Path(dir_okay=False),
            help=f"File of the results; a Parquet table of them is written beside it at the end.  [default: {RESULTS}]",
        ),
        click.option(
            "--rate",
            "rates",
            multiple=True,
            metavar="HOST=REQUESTS/SECONDS",
            callback=rates_of,
            help="Limit the requests of all workers together to a host.",
        ),
        click.option(
            "--in-flight",
            type=click.IntRange(1),
            metavar="BYTES",
            help="Limit the total size of the files that workers check or have queued.  [default: 4294967296]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def refuse_without_engine(given: Mapping[str, Any]) -> None:
    """
    :raises UsageError: for an option that only a run with an engine follows
    """
    for name, option in _OF_ENGINE.items():
        if given[name]:
            raise click.UsageError(f"{option} applies only with --engine dask")


def engine_run(
    files: Iterable[str], options: Options, jobs: int, given: Mapping[str, Any], folders: Folders
) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Address and report of each file, as they are known, those of earlier runs first; with the last, a Parquet table."""
    from i2s_spec.linter.cluster.coordinator import IN_FLIGHT
    from i2s_spec.linter.cluster.host_rates import Rate
    from i2s_spec.linter.cluster.lint_manifest import lint_manifest
    from i2s_spec.linter.cluster.manifest import manifest

    results = given["results"] or RESULTS
    say = _nothing if given["quiet"] else _to_stderr
    run = lint_manifest(
        manifest(files),
        options,
        results,
        scheduler=given["scheduler"],
        workers=jobs,
        rates={host: Rate(*rate) for host, rate in given["rates"].items()},
        in_flight=given["in_flight"] or IN_FLIGHT,
        table=os.path.splitext(results)[0] + ".parquet",
        say=say,
        folders=folders,
    )
    with closing(run):
        for record in run:
            yield record["url"], record["report"]


def _to_stderr(text: str) -> None:
    click.echo(f"i2s: {text}", err=True)


def _nothing(text: str) -> None:
    """Say nothing."""
