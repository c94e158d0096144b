"""A whole run: `lint_manifest` checks the files of a manifest on an engine and keeps the results."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import Unfinished, counted, quote
from i2s_spec.linter.cluster.check import Record, options_key, portable
from i2s_spec.linter.cluster.manifest import Entry
from i2s_spec.linter.cluster.results import ResultsLog, ResultsTable, Reuse, latest
from i2s_spec.linter.cluster.run import (
    GOES_ON,
    IN_FLIGHT,
    Coordinator,
    Rate,
    dask_client,
    require_dask,
    run_on_dask,
)
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import Folders

if TYPE_CHECKING:
    from distributed import Client

#: Errors of a disk without room: it is full, or a quota or the largest size of a file is reached.
_FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


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
    reuse: Reuse = "all",
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
    :param reuse: which records of the results count: all, those that this user's runs made, or none
    :returns: the record of every entry, as it is known: those of earlier runs first
    :raises MissingExtra: without the extra [dask]
    :raises OSError: where results or table cannot be written
    :raises SettingError: if the results file is in use or not a results file, no scheduler answers, or workers cannot work
    :raises Unfinished: if the cluster is lost or does not start, or the disk is full; the same call continues the run
    """
    options = portable(options)
    key = options_key(options)
    if not os.path.lexists(results):
        require_dask()  # checked before an empty file of results is made; complete results can be read without Dask
    with ExitStack() as stack:
        log = stack.enter_context(ResultsLog(results, reuse))
        shown = quote(os.fspath(results), 4096, bare=True)
        if log.repaired:
            say(f"an incomplete last line of {counted(log.repaired, 'byte')} was removed from the results")
        if log.damaged:
            say(f"{counted(log.damaged, 'damaged line was', 'damaged lines were')} left out of the results")
        if log.ignored:
            found = counted(log.ignored, "result of an earlier run is", "results of earlier runs are")
            say(f"{found} in {shown} and not used, because the file was found here; --results {shown} uses it")
        is_new = not len(log) and not log.damaged
        entries = list(entries)
        coordinator = Coordinator(entries, options, key, log, rates, in_flight)
        if coordinator.reused:
            of = f"{coordinator.reused:,} of {counted(coordinator.total, 'file')}"
            say(f"{of} have results from an earlier run, in {shown}")
        if coordinator.looked_at:
            say(
                f"the servers of {counted(coordinator.looked_at, 'file')} with earlier results in {shown} "
                f"are asked whether these changed"
            )
        # Of a log with records that do not count, the table has only those of this run.
        grows = (is_new or log.ignored > 0) and len({entry.url for entry in entries}) == len(entries) > 0
        del entries
        stack.enter_context(_full_disks_end_early(coordinator))
        rows = None if table is None or not grows else stack.enter_context(ResultsTable(table))
        for record in _records(coordinator, partial(dask_client, scheduler, workers), options, key, log, say, folders):
            if rows is not None:
                rows.add(record)
            yield record
        if table is not None and rows is None:
            rows = stack.enter_context(ResultsTable(table))
            for record in latest(results):
                rows.add(record)
    if rows is not None:
        named = quote(os.fspath(table or ""), 4096, bare=True)
        say(f"{counted(rows.rows, 'result is', 'results are')} in {shown}, a table of them in {named}")


@contextmanager
def _full_disks_end_early(coordinator: Coordinator) -> Iterator[None]:
    """Let a full disk end the run early: the same call continues when there is room."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        name = "" if error.filename is None else f"{quote(os.fspath(error.filename), 4096, bare=True)}: "
        raise Unfinished(
            f"{name}{error.strerror} after {coordinator.recorded:,} of {counted(coordinator.total, 'file')}; {GOES_ON}"
        ) from None


def _records(
    coordinator: Coordinator,
    connect: Callable[[], AbstractContextManager[Client]],
    options: Options,
    key: str,
    log: ResultsLog,
    say: Callable[[str], None],
    folders: Folders | None,
) -> Iterator[Record]:
    """Yield every record, the known ones first; a cluster is started only if there are others."""
    if coordinator.finished:
        yield from coordinator.records()
        return
    before = coordinator.reused
    try:
        with connect() as client:
            yield from run_on_dask(client, coordinator, options, key, log.sync, folders)
    finally:
        log.sync()
    if coordinator.looked_at:
        unchanged = coordinator.reused - before
        say(
            f"unchanged on their servers, so with their earlier results: {unchanged:,} of "
            f"{counted(coordinator.looked_at, 'file')}"
        )
