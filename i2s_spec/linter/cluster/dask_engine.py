"""This module runs a coordinator's batches on Dask: a cluster that is there, or one of processes of this machine.

Only so many batches are out at a time, so that neither the scheduler nor this process holds more than these. A worker that
dies is the coordinator's matter. A scheduler that is lost ends the run: what came back is in the results, and the same
call goes on from there.
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

#: Batches for each worker thread that may be out: one that it is at, and others so that it never waits.
AHEAD: Final = 3

#: Seconds that a cluster may be without any worker before the run ends.
WITHOUT_WORKERS: Final = 60.0

#: Seconds that connecting may take.
CONNECTING: Final = 10.0

#: Seconds after which it is asked whether scheduler and workers are still there.
PULSE: Final = 2.0

#: Seconds between two syncs of the results to the disk.
SYNC: Final = 5.0


def require_dask() -> None:
    """Do nothing where Dask can be imported.

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

    :param scheduler: the address of a scheduler; without, a cluster of processes on this machine, which ends with the run
    :param workers: how many processes that cluster has
    :raises MissingExtra: without the extra [dask]
    :raises SettingError: where no scheduler answers at the address
    """
    require_dask()
    import dask
    from distributed import Client, LocalCluster

    # What Dask logs of workers that die is said by the results.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings = {
        "distributed.scheduler.allowed-failures": 0,  # the coordinator repeats what a worker died at
        "distributed.worker.memory.terminate": False,  # files are read in windows; a restart would lose a whole batch
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.target": False,  # answers are small: nothing looks ten times a second whether they are
        "distributed.worker.memory.spill": False,
        "distributed.scheduler.active-memory-manager.start": False,
        # Freed memory that goes back at once costs a quarter of a file's time; so much may stay.
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 27,
        "distributed.worker.profile.enabled": False,  # nobody looks at the samples that it takes every 10 ms
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
            # Workers of this machine can be reached: what they answer needs no way through the scheduler.
            direct = True if is_local else None
            client = stack.enter_context(
                Client(scheduler, timeout=CONNECTING, set_as_default=False, direct_to_workers=direct)
            )
        except (OSError, ValueError) as error:
            name = quote(str(scheduler), 4096, bare=True)
            raise SettingError(f"--scheduler {name}: no scheduler answers: {quote(str(error), bare=True)}") from None
        yield client


class EarlyCluster:
    """A client that is made when it is asked for; of a cluster of this machine, at once, while the caller does other work.

    As a context manager it ends, with its cluster, where the block does.

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
        except BaseException as error:  # the caller's, as soon as he asks for the client
            self._error = error

    def client(self) -> Client:
        """The client, as soon as it is there.

        :raises MissingExtra: without the extra [dask]
        :raises SettingError: where no scheduler answers at the address
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
    """Have new processes import this package and what tasks need, never the caller's main module.

    Python runs a main module once more in each process that it spawns; a program that does not expect that would start
    everything again. Workers that die are replaced at any time, so this holds as long as the cluster does.
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
    """Have a cluster check what the coordinator gives; each record as it is known.

    :param sync: called now and then to bring results to the disk
    :param folders: checks folders of safetensors on the workers
    :raises Unfinished: where the scheduler is lost, or no worker is left
    :raises SettingError: where the workers cannot run the task
    """
    return _Run(client, coordinator, pickle.dumps(options, pickle.HIGHEST_PROTOCOL), key, sync, folders).records()


class _Run:
    """The batches that are out, and the queue that they come back by."""

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
        """Every record, until there is nothing more to check."""
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
        """Give out what may be given out."""
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
        """Take one batch that came back."""
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
            self._coordinator.died(batch, "the worker that was at this file ended")
        except (Unfinished, KeyboardInterrupt):
            raise
        except WrongVersion as error:
            raise SettingError(str(error)) from None
        except Exception as error:
            if future.status != "error":  # the cluster is gone, not the task
                raise self._lost(error) from None
            words = f"{type(error).__name__}: {quote(str(error), bare=True)}"
            raise SettingError(f"the workers cannot run the task: {words}") from None
        else:
            self._coordinator.done(batch, pickle.loads(answer), monotonic())
        future.release()

    def _pulse(self, heard: float) -> float:
        """Nothing came back for a while: is anybody there? Gives the time at which somebody last was.

        :raises Unfinished: where nobody is
        """
        if not self._out:
            return monotonic()
        if self._workers():
            return monotonic()
        if monotonic() - heard > WITHOUT_WORKERS:
            raise Unfinished(self._words(f"the cluster had no worker for {WITHOUT_WORKERS:.0f} seconds"))
        return heard

    def _workers(self) -> int:
        """How many workers there are; with their number changes how many batches may be out."""
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
            "and the same command goes on from there"
        )


def _packed(work: Callable[..., Any], entries: bytes, *more: Any) -> bytes:
    """Call the function of a task with entries that came pickled, and pickle its answer.

    In plain tuples Dask would look for its own tasks; answers that are bytes pass its loop unread.
    """
    return pickle.dumps(work(pickle.loads(entries), *more), pickle.HIGHEST_PROTOCOL)


def _tasks_for(threads: dict[str, int]) -> int:
    """How many batches may be out on workers with so many threads each."""
    return max(2, AHEAD * sum(threads.values()))
