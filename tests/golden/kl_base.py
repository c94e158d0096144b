"""A reader of the base of `llama-perplexity --kl-divergence`, to look at what is written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from i2s_spec.golden.llama_cpp import MAGIC, rows_of


class KlBase(NamedTuple):
    """The contents of such a file.

    :param tokens: int32 [chunks, n_ctx]
    :param first: of each chunk, the position that the first row predicts from: n_ctx // 2
    :param log_probabilities: float32 [chunks, rows, vocab], as exact as 16 bits tell
    """

    tokens: NDArray[np.int32]
    first: int
    log_probabilities: NDArray[np.float32]


def read_base(data: bytes) -> KlBase:
    """Return a base from the bytes of its file."""
    assert data[:8] == MAGIC
    n_ctx, vocab, chunks = (int(size) for size in np.frombuffer(data, "<i4", 3, 8))
    rows, width = rows_of(n_ctx), 2 * ((vocab + 1) // 2) + 4
    start = 20 + 4 * n_ctx * chunks
    assert len(data) == start + 2 * rows * width * chunks
    tokens = np.frombuffer(data, "<i4", n_ctx * chunks, 20).reshape(chunks, n_ctx)
    table = np.frombuffer(data, "<u2", rows * width * chunks, start).reshape(chunks, rows, width)
    pair = np.ascontiguousarray(table[..., :4]).view("<f4")
    values = pair[..., 1:] + pair[..., :1] * table[..., 4 : 4 + vocab].astype(np.float32)
    return KlBase(tokens.astype(np.int32), n_ctx // 2, values.astype(np.float32))
