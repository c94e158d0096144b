"""This module writes and reads the file of llama-perplexity's `--kl-divergence-base`: the log-probabilities of a text.

The stock tool compares any build with it (`--kl-divergence`). The file holds `_logits_`, the size of a chunk (u32), of the
vocabulary and the number of chunks (i32), the tokens of all chunks (i32), then for each chunk the rows of the tokens that
it scores: a float32 step, a float32 least log-probability, and for each token of the vocabulary a u16. Little-endian. A row
is an even number of u16. The first token of a chunk is the vocabulary's first token where models want one: the tool puts it
there when it evaluates a chunk, and stores what the text has; here it is stored as it was evaluated.

Source: `llama-perplexity` (examples/perplexity), its functions `process_logits` and `log_softmax`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from i2s_spec.errors import SettingError, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC: Final = b"_logits_"

#: Log-probabilities that are further below the largest are taken for this far below it.
DEEPEST: Final = 24.0

STEPS: Final = 65535


class Output(Protocol):
    """What bytes are written to: a file, or one that gets its name when it is complete."""

    def write(self, data: bytes, /) -> Any:
        """Append bytes."""


class KlBase(NamedTuple):
    """What such a file says.

    :param tokens: int32 [chunks, n_ctx]
    :param first: of each chunk, the position that the first row predicts from: n_ctx // 2
    :param log_probabilities: float32 [chunks, rows, vocab], as exact as 16 bits tell
    """

    tokens: NDArray[np.int32]
    first: int
    log_probabilities: NDArray[np.float32]


def rows_of(n_ctx: int) -> int:
    """Scored tokens of a chunk: those after its first half, without the last."""
    return n_ctx - 1 - n_ctx // 2


def packed_row(logits: NDArray[np.float32]) -> bytes:
    """One row of the file from the logits of one position.

    :param logits: float32 [vocab]
    """
    vocab = len(logits)
    top = np.float32(logits.max())
    least = np.float32(max(float(logits.min()), float(top) - DEEPEST))
    wide = np.exp((logits - top).astype(np.float64))
    log_sum = float(np.log(wide.sum()))
    least_log = np.float32(float(least) - float(top) - log_sum)
    step = np.float32((float(top) - float(least)) / STEPS)
    row = np.zeros(2 * ((vocab + 1) // 2) + 4, dtype="<u2")
    row[:4] = np.array([step, least_log], dtype="<f4").view("<u2")
    if step > 0:
        codes = np.rint((np.maximum(logits, least) - least) / step)
        row[4 : 4 + vocab] = np.minimum(codes, STEPS).astype("<u2")
    return row.tobytes()


class BaseWriter:
    """Writes a base row by row, so that no more than a few rows are in memory.

    :param tokens: the ids of each chunk, all of one length
    :raises SettingError: for chunks of different lengths, or of fewer than four tokens
    """

    def __init__(self, file: Output, tokens: Sequence[Sequence[int]], vocab: int) -> None:
        if not tokens or len({len(chunk) for chunk in tokens}) != 1 or len(tokens[0]) < 4:
            raise SettingError("a base needs chunks of one length, of four tokens at least")
        ids = np.array(tokens, dtype="<i4")
        chunks, n_ctx = ids.shape
        self.vocab, self.left, self._file = vocab, chunks * rows_of(n_ctx), file
        file.write(MAGIC + np.array([n_ctx, vocab, chunks], dtype="<i4").tobytes() + ids.tobytes())

    def add(self, logits: NDArray[np.float32]) -> None:
        """The next rows: float32 [rows, vocab].

        :raises ValueError: for rows of another width, or more than the chunks have
        """
        if logits.ndim != 2 or logits.shape[1] != self.vocab or len(logits) > self.left:
            raise ValueError(
                f"rows of shape {list(logits.shape)}; {counted(self.left, 'row')} of {self.vocab:,} are wanted"
            )
        for row in logits:
            self._file.write(packed_row(row))
        self.left -= len(logits)


def read_base(data: bytes) -> KlBase:
    """A base from the bytes of its file.

    :raises SettingError: for bytes that are no such file, or are cut
    """
    if data[:8] != MAGIC or len(data) < 20:
        raise SettingError("this is no --kl-divergence-base file: it does not begin with _logits_")
    n_ctx, vocab, chunks = (int(size) for size in np.frombuffer(data, "<i4", 3, 8))
    if n_ctx < 4 or vocab < 1 or chunks < 0:
        raise SettingError(
            f"the base declares {counted(chunks, 'chunk')} of {counted(n_ctx, 'token')} over {counted(vocab, 'word')}"
        )
    rows, width = rows_of(n_ctx), 2 * ((vocab + 1) // 2) + 4
    start = 20 + 4 * n_ctx * chunks
    if len(data) != start + 2 * rows * width * chunks:
        raise SettingError(
            f"the base has {counted(len(data), 'byte')}; {start + 2 * rows * width * chunks:,} are wanted"
        )
    tokens = np.frombuffer(data, "<i4", n_ctx * chunks, 20).reshape(chunks, n_ctx)
    table = np.frombuffer(data, "<u2", rows * width * chunks, start).reshape(chunks, rows, width)
    pair = np.ascontiguousarray(table[..., :4]).view("<f4")
    values = pair[..., 1:] + pair[..., :1] * table[..., 4 : 4 + vocab].astype(np.float32)
    return KlBase(tokens.astype(np.int32), n_ctx // 2, values.astype(np.float32))
