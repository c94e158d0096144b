"""The work for a file grows with the number of its tensors, and little is done for each: of hash, diff, convert, and of
lint with a reference."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec import pack
from i2s_spec.codec import _codec
from i2s_spec.compare.diff import diff
from i2s_spec.compare.hash import hash as identity
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.gguf.writer import Writer

VERBS: dict[str, Callable[[Path], object]] = {
    "hash": lambda path: identity(path, lineage=True),
    "diff": lambda path: diff(path, path),
    "convert to another dialect": lambda path: convert_file(path, io.BytesIO(), to="interleave-64"),
    "convert to another type": lambda path: convert_file(path, io.BytesIO(), to="Q2_0"),
    "lint --reference": lambda path: i2s.lint(path, reference=path),
}

#: Most calls for each more tensor of 256 trits: a fifth above what a verb makes, so that no layer comes back unseen.
MOST_CALLS: Final = {"hash": 185, "diff": 440, "convert to another dialect": 520, "convert to another type": 600}


def calls(verb: Callable[[Path], object], path: Path) -> int:
    """How many functions a verb calls, those in C among them."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        verb(path)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("verb", VERBS)
def test_twice_as_many_tensors_take_twice_as_many_calls(verb: str, tmp_path: Path) -> None:
    counts = []
    for number in (60, 60, 120, 240):  # the first call also imports
        path = tmp_path / f"{number}.gguf"
        with Writer(path, force=True) as writer:
            for place in range(number):
                data = pack(np.ones((1, 256), dtype=np.int8), np.float32(0.5))
                writer.add_tensor(f"blk.{place}.attn_q.weight", (1, 256), "I2_S", data)
        counts.append(calls(VERBS[verb], path))
    first, second = counts[2] - counts[1], counts[3] - counts[2]
    assert second < 2.3 * first
    if verb in MOST_CALLS and not _codec.__file__.endswith(".py"):  # without a compiler kernels call, too
        assert second <= 120 * MOST_CALLS[verb]
