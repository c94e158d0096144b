"""Runs over many files: `i2s lint --engine` on a cluster, and `i2s census` over the results."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import Any

import click

from i2s_spec.cli.options import INPUT, OUTPUT, form_option, report_place, shown, write_answer
from i2s_spec.errors import SettingError, counted
from i2s_spec.linter.cluster.results import (
    MEANINGS,
    VERDICTS,
    Census,
    Reuse,
    by_count,
    census_of,
    census_page,
    latest,
    ordered,
)
from i2s_spec.linter.options import RESULTS, Options, RunOptions
from i2s_spec.linter.paths import Folders


def engine_run(
    files: Iterable[str], options: Options, jobs: int, how: RunOptions, folders: Folders
) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Yield address and report of each file, those of earlier runs first, and write a Parquet table at the end."""
    from i2s_spec.linter.cluster.lint_manifest import lint_manifest
    from i2s_spec.linter.cluster.manifest import manifest
    from i2s_spec.linter.cluster.run import IN_FLIGHT, Rate

    results = how.results or RESULTS
    reuse: Reuse = "all"
    if how.results is None:  # whoever made this folder may have put a file of that name into it
        reuse = "none" if options.profile == "security" else "own"
        if os.path.islink(results):
            raise SettingError(f"{results} is a link; name the file of the results with --results")
    say = _nothing if how.quiet else _to_stderr
    run = lint_manifest(
        manifest(files),
        options,
        results,
        scheduler=how.scheduler,
        workers=jobs,
        rates={host: Rate(*rate) for host, rate in how.rates.items()},
        in_flight=how.in_flight or IN_FLIGHT,
        table=table_of(results),
        say=say,
        folders=folders,
        reuse=reuse,
    )
    with closing(run):
        for record in run:
            yield record["url"], record["report"]


def table_of(results: str) -> str:
    """Return the name of the table of some results.

    :raises click.UsageError: where it would be theirs, or another file has it that is no such table
    """
    from i2s_spec.linter.cluster.results import is_table

    beginning, ending = os.path.splitext(results)
    if ending != ".jsonl":
        raise click.UsageError(
            f"{shown(results)} must end in .jsonl; the table of the results has the same name in .parquet"
        )
    if os.path.islink(results) and not os.path.exists(results):
        raise click.UsageError(f"{shown(results)} is a link to nothing")
    table = f"{beginning}.parquet"
    if os.path.lexists(table) and not is_table(table):
        raise click.UsageError(f"{shown(table)} is no table of results; the run would replace it: name other --results")
    return table


def _to_stderr(text: str) -> None:
    click.echo(f"i2s: {text}", err=True)


def _nothing(text: str) -> None:
    """Say nothing."""


# --- census ----------------------------------------------------------------------------------------------------------
# What the files of a run over many have in common.

#: Rows of a table of text.
ROWS = 20


@click.command(
    "census",
    epilog="Example:  i2s new tiny.gguf && i2s lint --engine dask tiny.gguf && i2s census i2s-results.jsonl -o census.html",
    short_help="Count the results of a run over many files.",
)
@click.argument("results", type=INPUT)
@form_option(
    ["text", "json", "html"], default=None, help="Form of the counts.  [default: html for -o NAME.html, else text]"
)
@click.option("-o", "--output", type=OUTPUT, help="Write to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Replace a file that is no report.")
def census_command(results: str, form: str | None, output: str | None, force: bool) -> None:
    """Count findings by code, and files by producer, layout, architecture and runtime.

    RESULTS is the file that `i2s lint --engine` writes, or records of the Python function `check`, one JSON object a
    line. If an address has several records, the last one counts.
    """
    if form is None:
        form = "html" if output is not None and output.endswith((".html", ".htm")) else "text"
    if output is not None:
        report_place(output, force)
    census = census_of(latest(results))
    if form == "html":
        page = census_page(census, results)
    elif form == "json":
        page = json.dumps(census.as_dict(), indent=2) + "\n"
    else:
        page = "".join(f"{line}\n" for line in _text(census))
    write_answer((page,), output, force=True)


def _text(census: Census) -> Iterator[str]:
    """Yield the counts as tables."""
    from i2s_spec.draw.terminal import Column, plain, table

    yield f"{counted(census.files, 'file')}, {counted(census.findings, 'finding')}"
    for verdict in VERDICTS:
        if census.verdicts[verdict]:
            yield f"  {census.verdicts[verdict]:>9,}  {MEANINGS[verdict]}"
    codes = by_count(census.code_files)
    if codes:
        yield ""
        columns = [Column("code"), Column("slug"), Column("severity"), Column("files", right=True)]
        rows = [(code, *census.about.get(code, ("", "")), f"{count:,}") for code, count in codes[:ROWS]]
        yield from map(plain, table(columns, rows))
    for kind, names in census.by.items():
        yield ""
        columns = [Column(kind), Column("files", right=True), *(Column(verdict, right=True) for verdict in VERDICTS)]
        cells = [(name, f"{counts.total():,}", *_cells(counts)) for name, counts in ordered(names)[:ROWS]]
        yield from map(plain, table(columns, cells))


def _cells(counts: Counter[str]) -> Iterator[str]:
    return (f"{counts[verdict]:,}" if counts[verdict] else "" for verdict in VERDICTS)
