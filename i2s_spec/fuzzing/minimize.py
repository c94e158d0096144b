"""Make a find small: whole records go first, then stretches of bytes, then what bytes can be zero.

The result is a file on which the same thing still happens; it is tried anew after each step, under bounds of runs and
time. Record by record keeps a sound file sound, so that also a rejected sound file becomes small.

    >>> from i2s_spec.testing.sample import Draft
    >>> data = minimised(Draft().data, lambda data: b"sample.eps" in data, runs=400, seconds=60)
    >>> len(data) < 60, b"sample.eps" in data
    (True, True)
"""

from __future__ import annotations

import time
from collections.abc import Callable

from i2s_spec.errors import FormatError
from i2s_spec.testing.anatomy import COUNTED_BY, dissect
from i2s_spec.testing.mutations import contents_of, laid_out


class _Budget:
    """How much may still be tried, and the best file so far."""

    def __init__(self, data: bytes, happens: Callable[[bytes], bool], runs: int, seconds: float) -> None:
        self.best = data
        self._happens = happens
        self._runs = runs
        self._until = time.monotonic() + seconds
        self._tried = {data}

    @property
    def spent(self) -> bool:
        return self._runs <= 0 or time.monotonic() >= self._until

    def better(self, data: bytes) -> bool:
        """Try a file; keep it where the same thing happens."""
        if self.spent or data in self._tried:
            return False
        self._tried.add(data)
        self._runs -= 1
        if not self._happens(data):
            return False
        self.best = data
        return True


def minimised(data: bytes, happens: Callable[[bytes], bool], runs: int = 300, seconds: float = 60.0) -> bytes:
    """Return a smaller file on which the same thing happens; `data` itself where none is found.

    :param happens: whether it happens on a file; not called on `data`
    :param runs: how many files are tried at most
    :param seconds: how long at most
    """
    budget = _Budget(data, happens, runs, seconds)
    before = None
    while before != budget.best and not budget.spent:
        before = budget.best
        _fewer_records(budget)
        _shorter(budget)
        _fewer_bytes(budget)
    _zeros(budget)
    return budget.best


def _fewer_records(budget: _Budget) -> None:
    """Leave out records: half of a section, a quarter, and so on."""
    for section in COUNTED_BY:
        step = max(1, len(dissect(budget.best).records[section]) // 2)
        while step and not budget.spent:
            start = 0
            while start < len(dissect(budget.best).records[section]) and not budget.spent:
                shorter = _without(budget.best, section, start, start + step)
                if shorter is None or not budget.better(shorter):
                    start += step
            step //= 2


def _without(data: bytes, section: str, start: int, stop: int) -> bytes | None:
    """Return a file without some records; the data of tensors that are left out go too, where the file can be laid
    out anew.
    """
    anatomy = dissect(data)
    records = anatomy.records[section][start:stop]
    if not records:
        return None
    if anatomy.sound and section == "tensor_infos":
        from i2s_spec.gguf.reader import File
        from i2s_spec.gguf.source import BufferSource
        from i2s_spec.schema import container

        try:
            file, contents = container.parse(data), contents_of(File(BufferSource(data)))
        except FormatError:
            return None
        del file.tensor_infos[start:stop]
        del contents[start:stop]
        made = laid_out(file, contents, anatomy.alignment or 32)
        if len(made) < len(data):
            return made
    shorter = anatomy.replaced(records[0].start, records[-1].stop, b"")
    return anatomy.counted(shorter, section, -len(records))


def _shorter(budget: _Budget) -> None:
    """Cut the file at a boundary: the first at which it still happens, looked for by halves."""
    places = dissect(budget.best).boundaries
    low, high = 0, len(places)
    while low < high and not budget.spent:
        middle = (low + high) // 2
        if len(budget.best[: places[middle]]) < len(budget.best) and budget.better(budget.best[: places[middle]]):
            high = middle
        else:
            low = middle + 1


def _fewer_bytes(budget: _Budget) -> None:
    """Leave out stretches of bytes, from half of the file down to 4."""
    step = len(budget.best) // 2
    while step >= 4 and not budget.spent:
        at = len(budget.best) - step
        while at >= 0 and not budget.spent:
            budget.better(budget.best[:at] + budget.best[at + step :])
            at -= step
        step //= 2


def _zeros(budget: _Budget) -> None:
    """Make stretches of bytes zero, so that those that matter stand out."""
    step = max(1, len(budget.best) // 2)
    while step >= 4 and not budget.spent:
        for at in range(0, len(budget.best), step):
            part = budget.best[at : at + step]
            if any(part):
                budget.better(budget.best[:at] + bytes(len(part)) + budget.best[at + step :])
        step //= 2
