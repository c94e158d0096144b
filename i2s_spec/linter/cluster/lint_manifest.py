"""This module defines `lint_manifest`: it checks the files of a manifest on an engine and keeps the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack

from i2s_spec.errors import counted, quote
from i2s_spec.linter.cluster.check import Record, options_key, portable
from i2s_spec.linter.cluster.manifest import Entry
from i2s_spec.linter.cluster.results import ResultsLog, ResultsTable, latest
from i2s_spec.linter.cluster.run import IN_FLIGHT, Coordinator, EarlyCluster, Rate, require_dask, run_on_dask
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import Folders


def lint_manifest(
    entries: Iterable[Entry],
    options: Options,
    results: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    workers: int = 1,
    rates: Mapping[str, Rate] | None = None,
    in_flight: int = IN_FLIGHT,
    table: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = lambda text: None,
    folders: Folders | None = None,
) -> Generator[Record, None, None]:
    """Check files on Dask; files that have results with the same rules already are not checked again.

    :param entries: what `manifest` gives
    :param results: the file that records are appended to, as JSON Lines
    :param scheduler: the address of a cluster; without it, a cluster with `workers` processes starts on this machine
    :param rates: requests by host, for all workers together
    :param in_flight: total size of the files that workers check or have queued
    :param table: path of a Parquet table, written at the end of the run: the last record of each address in the results
    :param say: called with sentences about the earlier results
    :param folders: checks folders of safetensors, such as `lint_folder` of `i2s_spec.checkpoints`
    :returns: the record of every entry, as it is known: those of earlier runs first
    :raises MissingExtra: without the extra [dask]
    :raises OSError: where results or table cannot be written
    :raises SettingError: if the results file is in use or not a results file, no scheduler answers, or workers cannot work
    :raises Unfinished: if the cluster is lost; the same call continues the run
    """
    options = portable(options)
    key = options_key(options)
    if not os.path.lexists(results):
        require_dask()  # checked before an empty file of results is made; complete results can be read without Dask
    with ExitStack() as stack:
        log = stack.enter_context(ResultsLog(results))
        if log.repaired:
            say(f"an incomplete last line of {counted(log.repaired, 'byte')} was removed from the results")
        if log.damaged:
            say(f"{counted(log.damaged, 'damaged line was', 'damaged lines were')} left out of the results")
        is_new = not len(log) and not log.damaged
        # A cluster on this machine starts while the manifest is read; in a continued run there may be nothing left to do.
        cluster = stack.enter_context(EarlyCluster(scheduler, workers, at_once=is_new))
        entries = list(entries)
        coordinator = Coordinator(entries, options, key, log, rates, in_flight)
        if coordinator.reused:
            say(f"{coordinator.reused:,} of {counted(coordinator.total, 'file')} have results from an earlier run")
        if coordinator.looked_at:
            say(
                f"the servers of {counted(coordinator.looked_at, 'file')} with earlier results are "
                f"asked whether these changed"
            )
        grows = is_new and len({entry.url for entry in entries}) == len(entries) > 0
        del entries
        rows = None if table is None or not grows else stack.enter_context(ResultsTable(table))
        for record in _records(coordinator, cluster, options, key, log, say, folders):
            if rows is not None:
                rows.add(record)
            yield record
        if table is not None and rows is None:
            rows = stack.enter_context(ResultsTable(table))
            for record in latest(results, sound=not log.damaged):
                rows.add(record)
    if rows is not None:
        names = quote(os.fspath(results), 4096, bare=True), quote(os.fspath(table or ""), 4096, bare=True)
        say(f"{counted(rows.rows, 'result is', 'results are')} in {names[0]}, a table of them in {names[1]}")


def _records(
    coordinator: Coordinator,
    cluster: EarlyCluster,
    options: Options,
    key: str,
    log: ResultsLog,
    say: Callable[[str], None],
    folders: Folders | None,
) -> Iterator[Record]:
    """Every record, the known ones first; the cluster is used only if there are others."""
    if coordinator.finished:
        yield from coordinator.records()
        return
    before = coordinator.reused
    try:
        yield from run_on_dask(cluster.client(), coordinator, options, key, log.sync, folders)
    finally:
        log.sync()
    if coordinator.looked_at:
        unchanged = coordinator.reused - before
        say(
            f"unchanged on their servers, so with their earlier results: {unchanged:,} of "
            f"{counted(coordinator.looked_at, 'file')}"
        )
