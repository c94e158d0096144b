"""This module works on the parts of something in several threads and gives the results in the order of the parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import chain, islice
from typing import TypeVar

from i2s_spec.errors import counted

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def in_order(
    function: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int = 1
) -> Iterator[_Result]:  # fmt: skip
    """The results of a function for each part, in order.

    Parts are taken from their iterator by the caller's thread, so that what reads them need not be safe for threads. No
    more than two for each thread are under way, whatever their number. A single part is worked on in the caller's thread:
    to start another for each of thousands of small tensors takes longer than the work.

    :param threads: how many threads work, no more than parts where those are counted; with 1 all happens in the caller's
    :raises ValueError: for fewer threads than 1; else what the function raises, at the part that it raises for
    """
    if threads < 1:
        raise ValueError(f"{counted(threads, 'thread does', 'threads do')} nothing; at least 1 is needed")
    if isinstance(parts, Sized):  # no thread is started that would have nothing to do
        threads = max(min(threads, len(parts)), 1)
    if threads == 1:
        yield from map(function, parts)
        return
    parts = iter(parts)
    first = list(islice(parts, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    under_way: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in chain(first, parts):
                under_way.append(pool.submit(function, part))
                if len(under_way) >= 2 * threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
