"""This module runs a coordinator's batches on Dask: on an existing cluster, or on one of processes of this machine.

The number of batches in progress is limited, so that neither the scheduler nor this process holds more. The coordinator
handles workers that die. If the scheduler is lost, the run ends: finished records are in the results, and the same call
continues from there.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import MissingExtra, SettingError, Unfinished, counted, quote
from i2s_spec.linter.batch.lint_paths import Folders
from i2s_spec.linter.cluster.check_entry import Record, WrongVersion, check_alone, check_batch, digests, identities
from i2s_spec.linter.cluster.coordinator import Batch, Coordinator
from i2s_spec.linter.options import Options

if TYPE_CHECKING:
    from distributed import Client, Future

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


def require_dask() -> None:
    """Check that Dask can be imported.

    :raises MissingExtra: without the extra [dask]
    """
    try:
        import dask  # noqa: F401
        import distributed  # noqa: F401
    except ImportError:
        raise MissingExtra("--engine dask", "dask") from None


@contextmanager
def dask_client(scheduler: str | None, workers: int) -> Iterator[Client]:
    """A client of a cluster.

    :param scheduler: the address of a scheduler; without it, a cluster of processes on this machine, which ends with
    the run
    :param workers: how many processes that cluster has
    :raises MissingExtra: without the extra [dask]
    :raises SettingError: where no scheduler answers at the address
    """
    require_dask()
    import dask
    from distributed import Client, LocalCluster

    # The results report workers that die; Dask need not log them.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings = {
        "distributed.scheduler.allowed-failures": 0,  # the coordinator retries batches whose worker died
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
            stack.enter_context(_without_main())
            scheduler = stack.enter_context(
                LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            )
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


class EarlyCluster:
    """A client that is made on demand; a cluster on this machine starts at once, while the caller does other work.

    As a context manager it closes the client and its cluster at the end of the block.

    :param at_once: whether a cluster of this machine starts when the block begins
    """

    def __init__(self, scheduler: str | None, workers: int, at_once: bool) -> None:
        self._stack = ExitStack()
        self._connect = partial(dask_client, scheduler, workers)
        self._starter: Thread | None = None
        if at_once and scheduler is None:
            require_dask()
            self._starter = Thread(target=self._start, name="i2s cluster", daemon=True)
        self._client: Client | None = None
        self._error: BaseException | None = None

    def _start(self) -> None:
        try:
            self._client = self._stack.enter_context(self._connect())
        except BaseException as error:  # raised in the caller's thread as soon as the client is requested
            self._error = error

    def client(self) -> Client:
        """The client, as soon as it is connected.

        :raises MissingExtra: without the extra [dask]
        :raises SettingError: if no scheduler answers at the address
        """
        if self._starter is None:
            self._start()
        else:
            self._starter.join()
        if self._error is not None:
            raise self._error
        assert self._client is not None
        return self._client

    def __enter__(self) -> EarlyCluster:
        if self._starter is not None:
            self._starter.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._starter is not None:
            self._starter.join()
        self._stack.close()


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
    """Let a cluster check the coordinator's batches; gives each record as soon as it is known.

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
        self._back: SimpleQueue[Future] = SimpleQueue()
        self._out: dict[str, tuple[Future, Batch]] = {}

    def records(self) -> Iterator[Record]:
        """Every record, until there is nothing left to check."""
        coordinator = self._coordinator
        synced = heard = monotonic()
        self._workers()
        while True:
            yield from coordinator.records()
            if coordinator.finished:
                return
            self._give()
            now = monotonic()
            if now - synced > SYNC:
                self._sync()
                self._workers()
                synced = now
            waits = [PULSE]
            if (until := coordinator.wait(now)) is not None:
                waits.append(until)
            try:
                future = self._back.get(timeout=max(0.001, min(waits)))
            except Empty:
                heard = self._pulse(heard)
                continue
            heard = monotonic()
            self._take(future)

    def _give(self) -> None:
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
                future = self._client.submit(_packed, *call, pure=False)
            except Exception as error:
                raise self._lost(error) from None
            self._out[future.key] = future, batch
            future.add_done_callback(self._back.put)

    def _take(self, future: Future) -> None:
        """Handle one batch that finished."""
        from distributed.scheduler import KilledWorker

        known = self._out.pop(future.key, None)
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
        except WrongVersion as error:
            raise SettingError(str(error)) from None
        except Exception as error:
            if future.status != "error":  # the cluster was lost; the task is not to blame
                raise self._lost(error) from None
            words = f"{type(error).__name__}: {quote(str(error), bare=True)}"
            raise SettingError(f"the workers cannot run the task: {words}") from None
        else:
            self._coordinator.done(batch, pickle.loads(answer), monotonic())
        future.release()

    def _pulse(self, heard: float) -> float:
        """No result came for a while: check scheduler and workers. Gives the time at which there was last a worker.

        :raises Unfinished: if the scheduler is lost, or there was no worker for too long
        """
        if not self._out:
            return monotonic()
        if self._workers():
            return monotonic()
        if monotonic() - heard > WITHOUT_WORKERS:
            raise Unfinished(self._words(f"the cluster had no worker for {WITHOUT_WORKERS:.0f} seconds"))
        return heard

    def _workers(self) -> int:
        """The number of workers; the limit of batches in progress is adapted to it."""
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
        return (
            f"{reason} after {coordinator.recorded:,} of {counted(coordinator.total, 'file')}; the results are kept, "
            "and the same command continues from there"
        )


def _packed(work: Callable[..., Any], entries: bytes, *more: Any) -> bytes:
    """Call the function of a task with pickled entries, and pickle its answer.

    Dask would search plain tuples for its own tasks; bytes pass through its event loop unread.
    """
    return pickle.dumps(work(pickle.loads(entries), *more), pickle.HIGHEST_PROTOCOL)


def _tasks_for(threads: dict[str, int]) -> int:
    """The limit of batches in progress for workers with these numbers of threads."""
    return max(2, AHEAD * sum(threads.values()))
