"""A pool of processes of this machine: a function over many items, with the results in the order of the items.

It differs from the pools of the standard library because a linter of untrusted files needs more. If a worker dies (out
of memory, a signal), that is noticed at once: its item gets a result that says so, and another worker replaces it.
Workers never outlive the caller: they end when their pipe is closed, and are killed when the caller is interrupted. The
number of items ahead of the oldest unfinished one is limited, so memory stays bounded. Workers import this package and
what the function needs, never the caller's main module.

`in_order` is the caller's side; `main` is what a worker runs: it answers each item with the result of the function.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")

#: Items that are queued for a worker besides its current one, so that it never waits for the next.
AHEAD = 3

#: Most results that may wait for an older one, for each worker.
WAITING = 64

#: The program of a worker; it gets the import path of its parent, which may have been started in any way.
_PROGRAM = """
import pickle, sys
sys.path[:] = pickle.loads(bytes.fromhex(sys.argv[1]))
from i2s_spec.linter.process_pool import main
main()
"""


class Died(NamedTuple):
    """The result for an item whose worker died; the exit status is negative for a signal."""

    status: int

    def __str__(self) -> str:
        if self.status >= 0:
            return f"the process that checked this file ended with status {self.status}"
        try:
            name = signal.Signals(-self.status).name
        except ValueError:
            name = str(-self.status)
        return f"the process that checked this file was killed by {name}"


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Block SIGINT for a process that is started here until it ignores it: otherwise Ctrl-C could end it with a
    traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker(Generic[Item]):
    """A process, its pipes, and its unanswered items, the oldest first."""

    def __init__(self, function: Callable[[Item], Any]) -> None:
        path = pickle.dumps([entry or os.getcwd() for entry in sys.path]).hex()
        with _interrupts_wait():
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _PROGRAM, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.given: deque[tuple[int, Item]] = deque()
        self._post(function)

    def fileno(self) -> int:
        """Return the pipe for answers."""
        return self._output.fileno()

    def give(self, number: int, item: Item) -> None:
        self.given.append((number, item))
        self._post(item)

    def _post(self, value: Any) -> None:
        with suppress(BrokenPipeError):  # it died; the other pipe shows that, too
            send(self._input.fileno(), value)

    def answer(self) -> Any:
        """Wait for the next answer. `EOFError` if the process died."""
        return receive(self.fileno())

    def end(self, kill: bool = True) -> int:
        """End the process (kill it if asked), and give its status."""
        if kill:
            self._process.kill()
        self._input.close()
        self._output.close()
        return self._process.wait()


class _Pool(Generic[Item]):
    """The workers and their items."""

    def __init__(self, function: Callable[[Item], Any], jobs: int) -> None:
        self._function = function
        self._jobs = jobs
        self._workers: list[_Worker[Item]] = []
        self._selector = selectors.DefaultSelector()

    @property
    def pending(self) -> int:
        """The number of unanswered items."""
        return sum(len(worker.given) for worker in self._workers)

    def _hire(self) -> _Worker[Item]:
        worker: _Worker[Item] = _Worker(self._function)
        self._workers.append(worker)
        self._selector.register(worker, selectors.EVENT_READ)
        return worker

    def free(self) -> _Worker[Item] | None:
        """Return the worker with the fewest items, if it can take another; a new worker while there are too few."""
        idlest = min(self._workers, key=lambda worker: len(worker.given), default=None)
        if len(self._workers) < self._jobs and (idlest is None or idlest.given):
            return self._hire()
        return idlest if idlest is not None and len(idlest.given) <= AHEAD else None

    def answers(self) -> Iterator[tuple[int, Item, Any]]:
        """Wait for results, and yield number, item and result of each."""
        for key, _ in self._selector.select():
            worker: Any = key.fileobj
            try:
                result = worker.answer()
            except EOFError:
                yield from self._bury(worker)
            else:
                yield (*worker.given.popleft(), result)

    def _bury(self, worker: _Worker[Item]) -> Iterator[tuple[int, Item, Any]]:
        """Remove a worker that died: its oldest item gets the blame, the others go to a new worker."""
        self._selector.unregister(worker)
        self._workers.remove(worker)
        status = worker.end()
        if worker.given:
            yield (*worker.given.popleft(), Died(status))
        if worker.given:
            heir = self._hire()
            for item in worker.given:
                heir.give(*item)

    def close(self, kill: bool) -> None:
        self._selector.close()
        while self._workers:
            self._workers.pop().end(kill)


def in_order(function: Callable[[Item], Any], items: Iterable[Item], jobs: int) -> Iterator[tuple[Item, Any]]:
    """Yield each item with the result of the function, in the order of the items, computed by several processes at once.

    :param function: a picklable function: a module-level one, or `functools.partial` of one. An exception in it ends
    its worker
    :param items: any iterable; items are taken only as they are needed
    :returns: item and result; the result is `Died` if the process ended before it answered
    """
    source = enumerate(items)
    done: dict[int, tuple[Item, Any]] = {}
    following, exhausted, finished = 0, False, False
    pool: _Pool[Item] = _Pool(function, jobs)
    try:
        while True:
            while not exhausted and pool.pending + len(done) < WAITING * jobs and (worker := pool.free()) is not None:
                number_and_item = next(source, None)
                if number_and_item is None:
                    exhausted = True
                else:
                    worker.give(*number_and_item)
            while following in done:
                yield done.pop(following)
                following += 1
            if exhausted and not pool.pending:
                finished = True
                return
            for number, item, result in pool.answers():
                done[number] = item, result
    finally:
        pool.close(kill=not finished)


# --- the worker ------------------------------------------------------------------------------------------------------
# Messages are pickles with their length before them; they pass only between a process and its own children.

_LENGTH = struct.Struct("<Q")


def send(pipe: int, value: Any) -> None:
    """Write one message."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        left = left[os.write(pipe, left) :]


def receive(pipe: int) -> Any:
    """Read one message and not a byte more: the parent waits for the next message on the pipe itself.

    :raises EOFError: if the other side has ended
    """
    return pickle.loads(_exactly(pipe, _LENGTH.unpack(_exactly(pipe, _LENGTH.size))[0]))


def _exactly(pipe: int, length: int) -> bytearray:
    data = bytearray()
    while len(data) < length:
        more = os.read(pipe, min(length - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return data


def main() -> None:
    """Answer items until the pipe is closed. Printed output goes to stderr, so that it does not mix with the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
    # Set before NumPy is imported: threads of matrix products in several workers would compete for the processors.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    items, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        function = receive(items)
        while True:
            send(answers, function(receive(items)))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent has ended, or needs no more answers
