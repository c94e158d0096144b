"""This module compares bytes that come in parts, cut differently on either side, without holding more than a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def first_difference(one: Iterable[bytes], other: Iterable[bytes]) -> tuple[int, int] | None:
    """How many bytes differ, and the first of them; what only one has differs too."""
    import numpy as np

    count, first, at = 0, None, 0
    for ours, theirs in paired(one, other):
        if ours != theirs:
            both = min(len(ours), len(theirs))
            odd = np.frombuffer(ours[:both], dtype=np.uint8) != np.frombuffer(theirs[:both], dtype=np.uint8)
            count += int(np.count_nonzero(odd)) + max(len(ours), len(theirs)) - both
            if first is None:
                first = at + (int(odd.argmax()) if odd.any() else both)
        at += max(len(ours), len(theirs))
    return None if first is None else (count, first)


def paired(one: Iterable[bytes], other: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The parts of two streams cut where either ends, so that each pair is of one length but for the last ones."""
    ours, theirs = iter(one), iter(other)
    left = right = b""
    while True:
        left, right = left or next(ours, b""), right or next(theirs, b"")
        if not left or not right:
            break
        both = min(len(left), len(right))
        yield left[:both], right[:both]
        left, right = left[both:], right[both:]
    while left or right:
        yield left, right
        left, right = next(ours, b""), next(theirs, b"")
