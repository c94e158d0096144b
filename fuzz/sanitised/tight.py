"""Buffers that end where their memory ends, because AddressSanitizer checks allocations, not parts of them.

A payload is part of a file, so a kernel that reads past its end reads the tail; a bytes object is followed by a zero.
`fitted` gives the extensions copies with their own memory, with the same length and alignment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np

#: Addresses keep their value modulo this: the size of the widest vector.
STEP: Final = 64
#: Every allocation is a multiple of this.
LEAST: Final = 16

#: Arguments that are buffers of the caller, by function; not those that several threads write to.
ARGUMENTS: Final[dict[str, dict[str, tuple[int, ...]]]] = {
    "codec._codec": {
        "unpack": (1, 6), "pack": (1, 6), "floats": (1, 7), "blocks": (1, 5, 6), "to_rows": (1, 8), "of_rows": (1, 8),
        "scan": (1,), "histogram": (1,),
    },
    "model._matmul": {"product": (1, 3, 4), "quantize": (1, 2, 3, 4)},
    "model._reduce": {"products": (1,), "lanes": (1,), "squares": (0,), "sums": (0,)},
    "model._fast": {"dots": (5, 6), "activate": (2, 3), "norm": (1, 3), "halve": (1, 2)},
    "gguf._strings": {"first_outside": (0,)},
    "gguf._scanner": {"strings": (0,)},
}  # fmt: skip


def tight(data: Any) -> Any:
    """A copy of a buffer whose last byte is the last of an allocation, at the same address modulo 64."""
    given = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else np.asarray(data)
    if given.nbytes == 0:
        return data
    wanted = given.__array_interface__["data"][0] % STEP
    for spare in range(wanted % LEAST, 2 * STEP, LEAST):
        raw = np.empty(given.nbytes + spare, dtype=np.uint8)
        if (raw.__array_interface__["data"][0] + spare) % STEP == wanted:
            break
    made = raw[spare:].view(given.dtype).reshape(given.shape)
    made[...] = given
    made.flags.writeable = given.flags.writeable
    return made


def fitted(function: Callable[..., Any], places: tuple[int, ...]) -> Callable[..., Any]:
    """A function that is called with tight copies of some of its buffers; output buffers are copied back."""

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        given = list(args)
        here = [place for place in places if place < len(args)]
        for place in here:
            given[place] = tight(args[place])
        result = function(*given, **options)
        for place in here:
            if given[place] is not args[place] and given[place].flags.writeable:
                np.asarray(args[place])[...] = given[place]
        return result

    return called


def fit(modules: dict[str, Any]) -> None:
    """Put tight copies between the package and its extensions, which are given by name.

    Call this before any import of a function or class from them.
    """
    for name, functions in ARGUMENTS.items():
        for function, places in functions.items():
            setattr(modules[name], function, fitted(getattr(modules[name], function), places))

    class Parts(modules["codec._survey"].Parts):  # type: ignore[misc]
        def feed(self, number: int, data: Any, tail: Any) -> None:
            super().feed(number, tight(data), tight(tail))

        def of_memory(self, data: Any) -> None:
            super().of_memory(tight(data))

    class Walk:
        def __init__(self, *args: Any) -> None:
            self._walk = walk(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._walk, name)

        def feed(self, part: Any, most: int) -> Any:
            return self._walk.feed(tight(part), most)

    walk = modules["gguf._strings"].Walk
    modules["gguf._strings"].Walk, modules["codec._survey"].Parts = Walk, Parts

    from i2s_spec.gguf.source import BufferSource

    before = BufferSource.__init__

    def init(self: BufferSource, data: Any, *args: Any) -> None:
        before(self, tight(data) if isinstance(data, bytes) else data, *args)

    BufferSource.__init__ = init  # type: ignore[method-assign, assignment]
