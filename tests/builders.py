"""Files built in memory, for tests in several folders."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

from i2s_spec.convert.new import new
from i2s_spec.gguf.writer import Writer
from i2s_spec.testing.sample import Draft, tensor_info


@cache
def model_bytes(architecture: str = "bitnet-b1.58", **options: Any) -> bytes:
    """What `new` writes; `functools.partial` gives a module its own sizes."""
    out = io.BytesIO()
    new(out, architecture, **options)
    return out.getvalue()


def written(fill: Callable[[Writer], Any], **options: Any) -> bytes:
    """The file of a writer that `fill` adds keys and tensors to."""
    out = io.BytesIO()
    with Writer(out, **options) as writer:
        fill(writer)
    return out.getvalue()


def sample_with(infos: list[tuple[bytes, tuple[int, ...], int, int]], data: bytes, order: Any = "little") -> bytes:
    """The sample with other tensors: name, ne, type number, offset."""
    draft = Draft(order)
    file = draft.records()
    file.tensor_infos = [tensor_info(*info) for info in infos]
    file.data = data
    return draft.built(file)
