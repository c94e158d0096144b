"""Files made by tests of the writer, and the content read back from them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import container as schema

ORDERS = ["little", "big"]
INTEGERS = {
    "u8": (0, 2**8 - 1), "i8": (-(2**7), 2**7 - 1), "u16": (0, 2**16 - 1), "i16": (-(2**15), 2**15 - 1),
    "u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1), "u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1),
}  # fmt: skip


def written(fill: Callable[[Writer], Any], **options: Any) -> bytes:
    """The bytes of a file, which the schema parses and builds again."""
    out = io.BytesIO()
    with Writer(out, **options) as writer:
        fill(writer)
        size = writer.size
    data = out.getvalue()
    assert len(data) == size
    assert schema.build(schema.parse(data)) == data
    return data


def one_key(value: Any, *types: Any, **options: Any) -> tuple[str, Any]:
    """Label and value of a key as the reader gives them back."""
    file = open_file(written(lambda writer: writer.add("k", value, *types), **options))
    found = file.metadata["k"]
    return file.metadata.entry("k").label, found.tolist() if isinstance(found, np.ndarray) else found
