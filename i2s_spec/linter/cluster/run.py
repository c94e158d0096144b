"""The course of a run: which batch of files is next, what becomes of it, and the engine that carries it out.

`Coordinator` decides, and handles batches that succeeded or failed. It is independent of engine and clock: its caller
asks for batches, reports the result of each, and gets the records. Dask itself runs a batch again whose worker died;
one at which workers die repeatedly is checked in a separate process beside a worker. If that process dies, this is the
result of the file that it was checking. So one bad file costs neither the others nor the run.

If a manifest does not give the etag of an address, a record of an earlier run is valid as long as the server still
gives the etag in the record.

`run_on_dask` runs the batches on Dask; `HostRates` limits the requests to each host.

    >>> rates = HostRates({"hub.example": Rate(10, 5.0)})
    >>> rates.take("hub.example", 10, now=0.0), rates.take("hub.example", 1, now=0.0)
    (True, False)
    >>> rates.wait("hub.example", 1, now=0.0), rates.take("elsewhere", 1000, now=0.0)
    (0.5, True)
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from i2s_spec.errors import MissingExtra, SettingError, Unfinished, counted, quote
from i2s_spec.linter.cluster.check import (
    Record,
    SameContent,
    WrongVersion,
    check_alone,
    check_batch,
    died,
    digests,
    identities,
    is_short,
    wait_asked,
)
from i2s_spec.linter.cluster.manifest import Entry
from i2s_spec.linter.cluster.results import ResultsLog, key_of
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import Folders
from i2s_spec.linter.report_data import uri_of
from i2s_spec.remote.policy import Policy
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from distributed import Client, Future

#: Files and bytes of a batch: enough that an engine's overhead for a task, some milliseconds, does not matter. Servers
#: answer more slowly than disks, and a digest takes a hundredth of the time of a check.
BATCH_FILES: Final = 512
BATCH_ADDRESSES: Final = 64
BATCH_DIGESTS: Final = 4096
BATCH_BYTES: Final = 32 << 20

#: Assumed bytes of a file of unknown size.
UNKNOWN_SIZE: Final = 64 << 20

#: Default limit of the bytes of files that workers are checking or have queued.
IN_FLIGHT: Final = 4 << 30

#: How often a file waits for a server that asks for it.
WAITS: Final = 6

#: Findings that are not about the file: its server did not give it, or gave parts of several versions.
_NOT_GIVEN: Final = faults.REMOTE | {faults.CHANGED.code}

Kind = Literal["check", "ends", "whole", "alone", "look"]


class Batch(NamedTuple):
    """The files of one task: to check, to digest (ends or all bytes), to check in a separate process beside the worker,
    or to ask their servers whether the content is unchanged."""

    kind: Kind
    entries: tuple[Entry, ...]
    size: int


class Coordinator:
    """The state of a run.

    :param entries: the entries to check; entries with a record in the log are not checked again
    :param log: the log that holds earlier records and gets new ones
    :param rates: requests by host
    :param in_flight: most bytes in progress at a time; one batch is always allowed
    :param tasks: most batches in progress at a time
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        options: Options,
        key: str,
        log: ResultsLog,
        rates: Mapping[str, Rate] | None = None,
        in_flight: int = IN_FLIGHT,
        tasks: int = 8,
    ) -> None:
        self._options, self._key, self._log = options, key, log
        self._rates = HostRates(rates or {})
        self._most_bytes, self.tasks = in_flight, tasks
        self._out: dict[Batch, None] = {}
        self._bytes_out = 0
        self._waiting: dict[tuple[Kind, str], deque[Entry]] = {}
        self._retries: deque[Batch] = deque()
        #: How often a file waited because its server answered that it gets too many requests.
        self._waits: dict[str, int] = {}
        self._followers: dict[str, list[Entry]] = {}
        #: Checked files whose digest is known, by address: further files with the same content get a copy of the record.
        self._done: dict[str, bytes] = {}
        #: Records that are known and not yet returned; those of earlier runs by their keys.
        self._ready: deque[Record | bytes] = deque()
        self.total = self.reused = 0
        #: The record that is valid if the server still gives its etag, by address.
        self._remembered: dict[str, bytes] = {}
        known = []
        for entry in entries:
            self.total += 1
            place = key_of(entry.url, entry.etag, key)
            if entry.has_no_identity:
                newest = log.newest(entry.url, key)
                if newest is None or not _holds(log[newest], entry):
                    known.append(entry)
                else:
                    self._remembered[entry.url] = newest
                    self._queue("look", entry)
                continue
            if not _may_be_reused(entry) or place not in log or not _holds(log[place], entry):
                known.append(entry)
                continue
            self.reused += 1
            self._ready.append(place)
            record = log[place]
            if isinstance(record.get("sha256"), str):
                known.append(entry._replace(sha256=record["sha256"]))
                self._done[entry.url] = key_of(entry.url, entry.etag, self._key)
        self.recorded, self.looked_at = self.reused, len(self._remembered)
        self._same = SameContent(known, self._check, self._digest, self._follow, self._context)

    # --- entries ------------------------------------------------------------------------------------------------------

    def _context(self, entry: Entry) -> str:
        """Return the suppressions for a name, also those that are bound to a content."""
        return repr([each for each in self._options.suppressions if each.covers(entry.url)])

    def _check(self, entry: Entry) -> None:
        if entry.url not in self._done:
            self._queue("check", entry)

    def _digest(self, entry: Entry, whole: bool) -> None:
        self._queue("whole" if whole else "ends", entry)

    def _queue(self, kind: Kind, entry: Entry) -> None:
        self._waiting.setdefault((kind, entry.host), deque()).append(entry)

    def _follow(self, entry: Entry, first: str) -> None:
        if entry.url in self._done:
            return
        place = self._done.get(first)
        if place is None:
            self._followers.setdefault(first, []).append(entry)
        else:
            self._store([_copied(self._log[place], entry)])

    # --- batches ------------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every entry has its record."""
        return not self._out and not self._retries and not any(self._waiting.values())

    def records(self) -> Iterator[Record]:
        """Yield the records that are known and were not yet returned."""
        while self._ready:
            following = self._ready.popleft()
            yield self._log[following] if isinstance(following, bytes) else following

    def next(self, now: float) -> Batch | None:
        """Return the next batch; None if none may start now.

        :param now: seconds of a clock that only goes forward
        """
        if len(self._out) >= self.tasks:
            return None
        if self._retries:
            return self._start(self._retries.popleft()) if self._has_room(self._retries[0].size) else None
        left = sum(map(len, self._waiting.values()))
        share = max(1, left // (2 * self.tasks))
        # Digests come first: files of equal size wait for them.
        for kind, host in sorted(self._waiting, key=lambda place: place[0] == "check"):
            queue = self._waiting[kind, host]
            most = BATCH_DIGESTS if kind in ("ends", "whole") else BATCH_ADDRESSES if host else BATCH_FILES
            if queue and (batch := self._batch(kind, host, queue, min(most, share), now)) is not None:
                return batch
        return None

    def _batch(self, kind: Kind, host: str, queue: deque[Entry], files: int, now: float) -> Batch | None:
        most = self._rates.available(host, now)
        entries: list[Entry] = []
        size = requests = 0.0
        for entry in queue:
            more = _weight(kind, entry)
            cost = _requests(kind, entry)
            too_many = most is not None and requests + cost > most
            if entries and (len(entries) == files or size + more > BATCH_BYTES or too_many):
                break
            entries.append(entry)
            size, requests = size + more, requests + cost
        if not self._has_room(int(size)) or not self._rates.take(host, requests, now):
            return None
        for _ in entries:
            queue.popleft()
        if not queue:
            del self._waiting[kind, host]
        return self._start(Batch(kind, tuple(entries), int(size)))

    def _has_room(self, size: int) -> bool:
        return not self._out or self._bytes_out + size <= self._most_bytes

    def _start(self, batch: Batch) -> Batch:
        self._out[batch] = None
        self._bytes_out += batch.size
        return batch

    @property
    def bytes_out(self) -> int:
        """The bytes of the files in progress."""
        return self._bytes_out

    def wait(self, now: float) -> float | None:
        """Return the seconds until a host may be asked again; None if nothing waits for that."""
        times = [
            self._rates.wait(host, _requests(kind, queue[0]), now)
            for (kind, host), queue in self._waiting.items()
            if queue
        ]
        return min((time for time in times if time > 0), default=None)

    def done(self, batch: Batch, answer: Any, now: float = 0.0) -> None:
        """Take the result of a task: records, one record, digests, or identities.

        :param now: seconds of the clock of `next`
        """
        self._end(batch)
        if batch.kind == "look":
            for entry, found in zip(batch.entries, answer, strict=True):
                self._compare_identity(entry, found)
            return
        if batch.kind in ("ends", "whole"):
            for entry, digest in zip(batch.entries, answer, strict=True):
                self._same.digested(entry, digest, batch.kind == "whole")
            return
        self._store_with_copies(
            [
                each
                for each in map(partial(self._unless_asked_to_wait, now=now), batch.entries, answer)
                if each is not None
            ]
        )

    def _unless_asked_to_wait(self, entry: Entry, record: Record | None, now: float) -> Record | None:
        """Take a record; None if the server asked to wait: then no worker asks it before that time, and the file waits."""
        seconds = 0.0 if record is None else wait_asked(record)
        if seconds is None:
            return record
        if record is not None:
            waits = self._waits[entry.url] = self._waits.get(entry.url, 0) + 1
            most = (self._options.remote or Policy()).wait
            if waits > WAITS or seconds > most:
                return record
            self._rates.pause(entry.host, now + max(seconds, 2.0 ** (waits - 1)))
        self._queue("check", entry)
        return None

    def died(self, batch: Batch, words: str) -> None:
        """Take note that workers died during this batch, or during others that they had, as often as Dask allows."""
        self._end(batch)
        if batch.kind == "look":
            for entry in batch.entries:
                self._compare_identity(entry, None)
        elif batch.kind in ("ends", "whole"):
            for entry in batch.entries:
                self._same.digested(entry, None, batch.kind == "whole")
        elif batch.kind == "check":
            self._retries.append(batch._replace(kind="alone"))
        elif len(batch.entries) > 1:
            for entry in batch.entries:
                self._retries.append(Batch("alone", (entry,), _weight("alone", entry)))
        else:
            self._store_with_copies([died(batch.entries[0], self._key, f"worker died: {quote(words, bare=True)}")])

    def _compare_identity(self, entry: Entry, found: tuple[str, int | None] | None) -> None:
        """Take the etag that a server gives now: the earlier record is valid, or the file is checked."""
        place = self._remembered.pop(entry.url)
        record = self._log[place]
        if found is None or found[0] != record["etag"] or found[1] not in (None, record["size"]):
            self._check(entry)
            return
        self.reused += 1
        self.recorded += 1
        self._ready.append(place)

    def _end(self, batch: Batch) -> None:
        del self._out[batch]
        self._bytes_out -= batch.size

    def _store_with_copies(self, records: list[Record]) -> None:
        """Store records, and the records of files with equal content."""
        known: list[Record] = []
        for record in records:
            known.append(record)
            for follower in self._followers.pop(record["url"], ()):
                if len(known) >= BATCH_FILES:  # any number of files may have the same content
                    self._store(known)
                    known = []
                known.append(_copied(record, follower))
        self._store(known)

    def _store(self, records: list[Record]) -> None:
        self._log.append(records)
        self._ready.extend(records)
        self.recorded += len(records)
        for record in records:
            if record["sha256"] is not None:
                self._done[record["url"]] = key_of(record["url"], record["etag"], self._key)


def _may_be_reused(entry: Entry) -> bool:
    """Whether a record of the same key is valid: a path without an etag could not be read, and is checked again."""
    return not entry.problem and not (entry.etag is None and entry.is_local)


def _holds(record: Record, entry: Entry) -> bool:
    """Whether a record is about this content of the file, and not about a server that did not give it."""
    if any(finding["code"] in _NOT_GIVEN for finding in record["report"]["findings"]):
        return False
    if entry.has_no_identity:
        return record["etag"] is not None
    return entry.is_local or entry.sha256 is None or record["sha256"] in (None, entry.sha256)


def _requests(kind: Kind, entry: Entry) -> float:
    """Return the requests that a task makes to the host of a file."""
    return 1 if kind == "look" else entry.requests


def _weight(kind: Kind, entry: Entry) -> int:
    """Return the most bytes that a task reads of a file."""
    if kind == "look":
        return 1
    size = UNKNOWN_SIZE if entry.size is None else entry.size
    return 1 << 17 if kind == "ends" and not is_short(size) else size


def _copied(record: Record, entry: Entry) -> Record:
    """Return the record of a file with the same content as another one."""
    path = quote(entry.url, limit=4096, bare=True)
    report = {**record["report"], "path": path, "uri": uri_of(entry.url)}
    own = {"url": entry.url, "etag": entry.etag, "size": entry.size, "sha256": entry.sha256, "seconds": 0.0}
    return {**record, **own, "same_as": record["url"], "report": report}


# --- Dask ------------------------------------------------------------------------------------------------------------
# The batches run on an existing cluster, or on one of processes of this machine. The number of batches in progress is
# limited, so that neither the scheduler nor this process holds more. If the scheduler is lost, the run ends: finished
# records are in the results, and the same call continues from there.

#: Most batches in progress for each worker thread: its current one, and others so that it never waits.
AHEAD: Final = 3

#: Longest time, in seconds, without any worker before the run ends.
WITHOUT_WORKERS: Final = 60.0

#: Timeout of connecting, in seconds.
CONNECTING: Final = 10.0

#: Seconds without a result after which scheduler and workers are checked.
PULSE: Final = 2.0

#: Seconds between two syncs of the results to disk.
SYNC: Final = 5.0

#: What holds for every run that ends early.
GOES_ON: Final = "the results are kept, and the same command continues from there"


def require_dask() -> None:
    """Check that Dask can be imported.

    :raises MissingExtra: without the extra [dask]
    """
    try:
        import cryptography  # noqa: F401
        import dask  # noqa: F401
        import distributed  # noqa: F401
    except ImportError as error:
        raise MissingExtra("--engine dask", "dask", error.name) from None


@contextmanager
def dask_client(scheduler: str | None, workers: int) -> Iterator[Client]:
    """Provide a client of a cluster.

    :param scheduler: the address of a scheduler; without it, a cluster of processes on this machine, which ends with
    the run
    :param workers: how many processes that cluster has
    :raises MissingExtra: without the extra [dask]
    :raises SettingError: where no scheduler answers at the address
    :raises Unfinished: where the cluster on this machine does not start
    """
    require_dask()
    import dask
    from distributed import Client

    # The results report workers that die; Dask need not log them.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings = {
        "distributed.scheduler.allowed-failures": 1,  # then a batch is checked in a process beside the worker
        "distributed.worker.memory.terminate": False,  # files are read in windows; a restart would lose a whole batch
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.target": False,  # answers are small, so memory need not be checked ten times a second
        "distributed.worker.memory.spill": False,
        "distributed.scheduler.active-memory-manager.start": False,
        # Returning freed memory at once costs a quarter of the time of a file; keep this much.
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 27,
        "distributed.worker.profile.enabled": False,  # nobody uses the profile samples that it takes every 10 ms
        "distributed.admin.system-monitor.interval": "5s",
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.tick.limit": "1h",
        "distributed.comm.timeouts.connect": CONNECTING,
        "logging.distributed": "critical",
    }
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        is_local = scheduler is None
        if scheduler is None:
            from i2s_spec.linter.cluster.local import local_cluster

            stack.enter_context(_without_main())
            try:
                scheduler = stack.enter_context(local_cluster(workers))
            except Exception as error:  # workers were killed, there is no room for their folders, ...
                ended = "a worker ended while it started"
                words = (
                    ended if isinstance(error, RuntimeError) else quote(str(error) or type(error).__name__, bare=True)
                )
                raise Unfinished(f"the cluster on this machine did not start: {words}; {GOES_ON}") from None
        try:
            # Workers of this machine can be reached directly: their answers need not pass through the scheduler.
            direct = True if is_local else None
            client = stack.enter_context(
                Client(scheduler, timeout=CONNECTING, set_as_default=False, direct_to_workers=direct)
            )
        except (OSError, ValueError) as error:
            name = quote(str(scheduler), 4096, bare=True)
            raise SettingError(f"--scheduler {name}: no scheduler answers: {quote(str(error), bare=True)}") from None
        yield client


@contextmanager
def _without_main() -> Iterator[None]:
    """Let new processes import this package and what tasks need, never the caller's main module.

    Python runs the main module again in each process that it spawns; a program that does not expect that would start
    everything again. Workers that die are replaced at any time, so this applies as long as the cluster exists.
    """
    main = sys.modules.get("__main__")
    before = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        for name in before:
            setattr(main, name, None)
        yield
    finally:
        for name, value in before.items():
            setattr(main, name, value)


def run_on_dask(
    client: Client,
    coordinator: Coordinator,
    options: Options,
    key: str,
    sync: Callable[[], None],
    folders: Folders | None = None,
) -> Iterator[Record]:
    """Let a cluster check the coordinator's batches, and yield each record as soon as it is known.

    :param sync: called now and then to write results to disk
    :param folders: checks folders of safetensors on the workers
    :raises Unfinished: if the scheduler is lost, or no worker is left
    :raises SettingError: if the workers cannot run the task
    """
    return _Run(client, coordinator, pickle.dumps(options, pickle.HIGHEST_PROTOCOL), key, sync, folders).records()


class _Run:
    """The batches in progress, and the queue of their results."""

    def __init__(
        self,
        client: Client,
        coordinator: Coordinator,
        options: bytes,
        key: str,
        sync: Callable[[], None],
        folders: Folders | None,
    ) -> None:
        self._client, self._coordinator = client, coordinator
        self._options, self._key, self._sync, self._folders = options, key, sync, folders
        self._finished: SimpleQueue[Future] = SimpleQueue()
        self._running: dict[str, tuple[Future, Batch]] = {}

    def records(self) -> Iterator[Record]:
        """Yield every record, until there is nothing left to check."""
        coordinator = self._coordinator
        synced = heard = monotonic()
        self._workers()
        while True:
            yield from coordinator.records()
            if coordinator.finished:
                return
            self._submit()
            now = monotonic()
            if now - synced > SYNC:
                self._sync()
                self._workers()
                synced = now
            waits = [PULSE]
            if (until := coordinator.wait(now)) is not None:
                waits.append(until)
            try:
                future = self._finished.get(timeout=max(0.001, min(waits)))
            except Empty:
                heard = self._check_cluster(heard)
                continue
            heard = monotonic()
            self._finish(future)

    def _submit(self) -> None:
        """Submit all batches that may start now."""
        while (batch := self._coordinator.next(monotonic())) is not None:
            entries = pickle.dumps(batch.entries, pickle.HIGHEST_PROTOCOL)
            if batch.kind in ("ends", "whole"):
                call: tuple[Any, ...] = (digests, entries, batch.kind == "whole")
            else:
                work = {"alone": check_alone, "look": identities}.get(batch.kind, check_batch)
                call = work, entries, self._options, self._key
                if batch.kind != "look" and any(entry.checkpoint for entry in batch.entries):
                    call = *call, self._folders
            try:
                future = self._client.submit(_called, *call, pure=False)
            except Exception as error:
                raise self._lost(error) from None
            self._running[future.key] = future, batch
            future.add_done_callback(self._finished.put)

    def _finish(self, future: Future) -> None:
        """Handle one batch that finished."""
        from distributed.scheduler import KilledWorker

        known = self._running.pop(future.key, None)
        if known is None:
            return
        future, batch = known
        try:
            if future.status == "cancelled":
                raise self._lost(None)
            answer = future.result()
        except KilledWorker:
            self._coordinator.died(batch, "the worker that checked this file ended")
        except (Unfinished, KeyboardInterrupt):
            raise
        except Exception as error:
            if future.status != "error":  # the cluster was lost; the task is not to blame
                raise self._lost(error) from None
            text = quote(str(error), bare=True)
            words = text if isinstance(error, WrongVersion) else f"{type(error).__name__}: {text}"
            if isinstance(error, MemoryError | OSError):  # a shortage of the worker, no fault of the files
                raise Unfinished(self._words(words)) from None
            raise SettingError(f"the workers cannot run the task: {words}") from None
        else:
            self._coordinator.done(batch, answer, monotonic())
        future.release()

    def _check_cluster(self, heard: float) -> float:
        """Check scheduler and workers after a while without results; gives the time at which there was last a worker.

        :raises Unfinished: if the scheduler is lost, or there was no worker for too long
        """
        if not self._running:
            return monotonic()
        if self._workers():
            return monotonic()
        if monotonic() - heard > WITHOUT_WORKERS:
            raise Unfinished(self._words(f"the cluster had no worker for {WITHOUT_WORKERS:.0f} seconds"))
        return heard

    def _workers(self) -> int:
        """Return the number of workers; the limit of batches in progress is adapted to it."""
        try:
            threads: dict[str, int] = self._client.nthreads()
        except Exception as error:
            raise self._lost(error) from None
        if self._client.status != "running":
            raise self._lost(None)
        self._coordinator.tasks = _tasks_for(threads)
        return len(threads)

    def _lost(self, error: Exception | None) -> Unfinished:
        reason = "" if error is None else f" ({type(error).__name__})"
        return Unfinished(self._words(f"the scheduler was lost{reason}"))

    def _words(self, reason: str) -> str:
        coordinator = self._coordinator
        return f"{reason} after {coordinator.recorded:,} of {counted(coordinator.total, 'file')}; {GOES_ON}"


def _called(work: Callable[..., Any], entries: bytes, *more: Any) -> Any:
    """Call the function of a task with pickled entries: in plain tuples, Dask would search for its own tasks."""
    return work(pickle.loads(entries), *more)


def _tasks_for(threads: dict[str, int]) -> int:
    """Return the limit of batches in progress for workers with these numbers of threads."""
    return max(2, AHEAD * sum(threads.values()))


# --- rates of requests -----------------------------------------------------------------------------------------------
# One token bucket for each host, filled at a steady rate. The buckets are in the coordinator, so the limit holds for all
# workers together.


class Rate(NamedTuple):
    """A number of requests in a number of seconds."""

    requests: float
    seconds: float


class HostRates:
    """A bucket of requests for each host that has a rate; other hosts are not limited."""

    def __init__(self, rates: Mapping[str, Rate]) -> None:
        self._rates = {host.lower(): rate for host, rate in rates.items()}
        self._left = {host: rate.requests for host, rate in self._rates.items()}
        self._at: dict[str, float] = {}
        #: When a host that asked to wait may be asked again.
        self._until: dict[str, float] = {}

    def pause(self, host: str, until: float) -> None:
        """Send a host no request before a time, because it answered that it gets too many requests."""
        self._until[host] = max(until, self._until.get(host, until))

    def available(self, host: str, now: float) -> float | None:
        """Return the requests in the bucket; None for a host without a rate."""
        self.wait(host, 0, now)
        return self._left.get(host)

    def take(self, host: str, requests: float, now: float) -> bool:
        """Take requests from the bucket, if it holds enough; a request for more than its capacity is granted when it is
        full."""
        if self.wait(host, requests, now) > 0:
            return False
        if host in self._rates:
            self._left[host] -= requests
        return True

    def wait(self, host: str, requests: float, now: float) -> float:
        """Return the seconds until the bucket holds enough requests and the host may be asked."""
        pause = max(0.0, self._until.get(host, now) - now)
        rate = self._rates.get(host)
        if rate is None:
            return pause
        per_second = rate.requests / rate.seconds
        left = min(rate.requests, self._left[host] + (now - self._at.get(host, now)) * per_second)
        self._left[host], self._at[host] = left, now
        return max(pause, (min(requests, rate.requests) - left) / per_second)
