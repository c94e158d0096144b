"""This module is what `i2s lint` does with --engine: a run over many files on a cluster."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from typing import Any

import click

from i2s_spec.linter.batch.lint_paths import Folders
from i2s_spec.linter.options import RESULTS, OptionGroup, Options, RunOptions, declared


def refuse_without_engine(given: Mapping[str, Any]) -> None:
    """
    :raises UsageError: for an option that only a run with an engine follows
    """
    for name, option in declared(RunOptions).items():
        if option.group is OptionGroup.CLUSTER and given[name]:
            raise click.UsageError(f"{option.flags[0]} applies only with --engine dask")


def engine_run(
    files: Iterable[str], options: Options, jobs: int, how: RunOptions, folders: Folders
) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Address and report of each file, as they are known, those of earlier runs first; with the last, a Parquet table."""
    from i2s_spec.linter.cluster.coordinator import IN_FLIGHT
    from i2s_spec.linter.cluster.host_rates import Rate
    from i2s_spec.linter.cluster.lint_manifest import lint_manifest
    from i2s_spec.linter.cluster.manifest import manifest

    results = how.results or RESULTS
    say = _nothing if how.quiet else _to_stderr
    run = lint_manifest(
        manifest(files),
        options,
        results,
        scheduler=how.scheduler,
        workers=jobs,
        rates={host: Rate(*rate) for host, rate in how.rates.items()},
        in_flight=how.in_flight or IN_FLIGHT,
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
