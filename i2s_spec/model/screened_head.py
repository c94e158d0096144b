"""A head that is not read whole: the rows that can decide about the next token are found first, and only they are read.

A head has one row for every token of the vocabulary, and in a small model it is half of what a token reads. Each row w has
a copy of one byte a number: w = s c + e with whole numbers c. The state x of a token is cut in the same way, x = t X + d,
with X of 16 bits. c.X is computed exactly, in integers. For the float z that kernels give for w.x,

    |z - s t (c.X)|  <=  max|e| y + ||e|| v + (||w|| + ||e||) (||d|| + gamma ||x||),

where y is the sum of what is beyond h in each |x_k|, and v the norm of what is within: |e.x| is at most max|e| y + ||e|| v
for every h >= 0 (h = 0 is the 1-norm, a large h the inequality of Cauchy and Schwarz). gamma = m u / (1 - m u), with
m = columns + 8 and u = 2^-24, covers the rounding of sums of products in any order, with or without fused operations.

The exact logit of the row with the best estimate is a threshold (for k rows: the smallest of the exact logits of the k best
estimates): a row whose bound is below it is not among them. The others are read by the kernel that reads the whole head,
which gives a row the same bits alone. So nothing that is found this way differs from the whole head's, ties included.

`copy_of`, `state_of` and `bounds_of` are the definition in NumPy; `_fast.HeadRows` computes the first and the last, with
the same integers. `ScreenedHead` decides which rows are copied, scored and read; `ScreenedLogits` is what a pass returns.
Of several sequences that run together, all are scored with a row while it is in cache, and each reads its own rows; those
that need the whole head read it together.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from threading import RLock
from time import process_time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from i2s_spec.codec.isa import KernelSet, chosen, table
from i2s_spec.gguf.source import huge_pages
from i2s_spec.model import _fast

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ids = NDArray[np.int64]

#: Least bytes of a head of which a copy is worth its memory.
LEAST: Final = 32 << 20
#: Most columns: with more, codes of a state would have too few bits.
MOST_COLUMNS: Final = 1 << 15
#: Most rows that are looked for; with more, most bounds reach the threshold.
MOST_ROWS: Final = 1024
#: Tokens, or steps of several sequences, that read the whole head before a copy is made.
TOKENS_BEFORE: Final = 4
#: How much longer a token may take that copies rows. Copying takes three times as long as reading, or thirty where the
#: system has no pages at hand, so a token copies a page of codes at a time until that much time has passed.
MORE: Final = 0.22
PAGE: Final = 2 << 20
#: Tokens, or such steps, for which the whole head is read after a screening that decided nothing; twice as many after the
#: next one.
PAUSE: Final = 8


def kernel_sets() -> tuple[KernelSet, ...]:
    """Return every set of kernels for heads that was compiled, the slowest first."""
    return table(_fast.head_sets())


# --- definition ------------------------------------------------------------------------------------------------------


class CodedRows(NamedTuple):
    """Rows of a head in 8 bits.

    :param codes: int8 [rows, columns]
    :param scale: float32 [rows]; NaN for a row that is not finite, whose codes are 0 and whose bounds are infinite
    :param most: [rows], the largest |e| of each row; not below it
    :param error: [rows], the norm of e; not below it
    :param norm: [rows], the norms of w and e together; not below them
    """

    codes: NDArray[np.int8]
    scale: Floats
    most: NDArray[np.float64]
    error: NDArray[np.float64]
    norm: NDArray[np.float64]


def copy_of(rows: NDArray[np.float16]) -> CodedRows:
    """Return the copy of rows; its scales have 16 significant bits, so that a code times a scale is a float."""
    w = rows.astype(np.float64)
    finite = np.isfinite(w).all(axis=1)
    w[~finite] = 0
    scale = (np.abs(w).max(axis=1, initial=0).astype(np.float32) / np.float32(127)).view(np.uint32)
    scale = (scale + np.uint32(0xFF) & ~np.uint32(0xFF)).view(np.float32)
    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, np.float32(1) / scale, np.float32(0))
    codes = np.rint(w * inverse[:, None].astype(np.float64))
    e = w - codes * scale[:, None].astype(np.float64)
    most, error = np.abs(e).max(axis=1, initial=0), np.sqrt((e * e).sum(axis=1))
    norm = np.sqrt((w * w).sum(axis=1)) + error
    for each in (scale, most, error, norm):
        each[~finite] = np.nan if each is scale else np.inf
    return CodedRows(codes.astype(np.int8), scale, most, error, norm)


class CodedState(NamedTuple):
    """The state of a token in 16 bits, and the factors of the bound.

    :param x: float32 [columns]
    :param codes: int16 [columns, padded with zeros]
    :param high: codes = 256 high + low, int8
    :param low: int8
    :param step: t, so that x is nearly step * codes
    :param over: y, which multiplies the largest error of a row
    :param within: v, which multiplies its norm
    :param rest: what multiplies the norms of row and error
    """

    x: Floats
    codes: NDArray[np.int16]
    high: NDArray[np.int8]
    low: NDArray[np.int8]
    step: float
    over: float
    within: float
    rest: float


def state_of(x: Floats) -> CodedState | None:
    """Return the codes of a state; None for one that is not finite, or so large that sums may overflow."""
    columns = x.size
    wide = x.astype(np.float64)
    sizes = np.abs(wide)
    squares = float(wide @ wide)
    if not squares < 1e60:
        return None
    largest = float(sizes.max(initial=0))
    padded = -(-columns // _fast.HEAD_COLUMNS) * _fast.HEAD_COLUMNS
    levels = min(32512, (2**31 - 1) // (255 * (padded // 8)))  # 127 * 256; a lane of 32 bits holds its sum of products
    step = largest / levels if largest > 0 else 1.0
    if not step > 0:  # so small that it has no step
        return None
    whole = np.rint(wide / step)
    distance = wide - step * whole
    m = (columns + 8) * 2.0**-24
    rest = (float(np.sqrt(distance @ distance)) + (m / (1 - m) + 1e-9) * float(np.sqrt(squares))) * (1 + 1e-6)
    # Of five h the best for errors that are spread evenly, where the norm is sqrt(columns / 3) of the largest.
    cut = np.minimum(sizes, largest * np.array([[1], [1 / 2], [1 / 8], [1 / 32], [0]]))
    over, within = (sizes - cut).sum(axis=1), np.sqrt((cut * cut).sum(axis=1))
    best = int(np.argmin(over + np.sqrt(columns / 3) * within))
    codes = np.zeros(padded, dtype=np.int16)
    codes[:columns] = whole
    high = (codes + np.int16(128)) >> 8
    low = codes - 256 * high
    y, v = (float(each[best]) * (1 + 1e-6) for each in (over, within))
    return CodedState(x, codes, high.astype(np.int8), low.astype(np.int8), step, y, v, rest)


def bounds_of(rows: CodedRows, state: CodedState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the estimates of the logits, and what they are off at most; -inf and inf for a row that is not finite."""
    sums = rows.codes.astype(np.int64) @ state.codes[: rows.codes.shape[1]].astype(np.int64)
    with np.errstate(invalid="ignore"):
        estimate = rows.scale.astype(np.float64) * state.step * sums
        off = rows.most * state.over + rows.error * state.within + rows.norm * state.rest + 1e-30
    unknown = np.isnan(estimate)
    return np.where(unknown, -np.inf, estimate), np.where(unknown, np.inf, off)


# --- a head ----------------------------------------------------------------------------------------------------------


@dataclass
class _Pause:
    """How many tokens read the whole head before the next screening, and after the next one that decides nothing."""

    left: int = 0
    next: int = PAUSE

    def begin(self) -> None:
        self.left, self.next = self.next, self.next * 2


#: What is asked of a head: its largest rows, or those that hold most of the probability.
Need = Literal["largest", "leading"]


@dataclass(frozen=True)
class HeadReport:
    """What a head has read.

    :param rows: of the head
    :param tokens: logits that were asked for
    :param screened: those of them for which rows were chosen, after the copy was made
    :param rows_read: the rows that these read, all together
    :param copy_bytes: memory of the copy, private to the process; 0 while there is none
    """

    rows: int
    tokens: int
    screened: int
    rows_read: int
    copy_bytes: int

    @property
    def share(self) -> float:
        """The share of the rows that was read where rows were chosen; 1 if they never were."""
        return self.rows_read / (self.rows * self.screened) if self.screened else 1.0

    def as_dict(self) -> dict[str, float]:
        """Return the numbers, and the share, by name."""
        return {**asdict(self), "share": self.share}


class ScreenedHead:
    """A head of halves, and the copy of its rows, which is made while tokens read it.

    The first tokens read the whole head; after these every token copies some of the rows while it reads them. Threads may
    share a head.

    :param weights: float16 [rows, columns], contiguous
    :param float_kernels: the row of the set of float kernels, which reads rows
    """

    def __init__(self, weights: NDArray[np.float16], float_kernels: int, threads: int) -> None:
        self.weights = weights
        self.rows, self.columns = weights.shape
        address = int(weights.__array_interface__["data"][0])
        self._native = _fast.HeadRows(
            chosen(kernel_sets()).row, float_kernels, threads, address, self.rows, self.columns
        )
        self._lock = RLock()
        self._estimate = self._upper = np.empty((0, self.rows), dtype=np.float32)
        self._copied = 0
        self._scanned: _Batch | None = None
        self._before: float = TOKENS_BEFORE
        #: Seconds of processors that reading the whole head took at least; those of the clock vary with other programs.
        self._seconds = math.inf
        self._pauses: dict[Need, _Pause] = {"largest": _Pause(), "leading": _Pause()}
        self._copy_bytes = self._tokens = self._screened = self._rows_read = 0

    @property
    def report(self) -> HeadReport:
        """What was read so far."""
        return HeadReport(self.rows, self._tokens, self._screened, self._rows_read, self._copy_bytes)

    @property
    def complete(self) -> bool:
        """Whether all rows are copied."""
        return bool(self._copied == self.rows)

    def logits(self, x: Floats) -> ScreenedLogits:
        """Return the logits of a state, to be read as far as they are needed.

        :param x: float32 [columns]; it is copied
        """
        (logits,) = self.together(x[None])
        return logits

    def together(self, states: Floats) -> list[ScreenedLogits]:
        """Return the logits of several states: rows are scored, or all of them read, for all states at once.

        :param states: float32 [tokens, columns]; they are copied
        """
        self._tokens += len(states)
        batch = _Batch(states.copy(), set(range(len(states))))
        return [ScreenedLogits(self, batch, number) for number in range(len(states))]

    def _scan(self, logits: ScreenedLogits, need: Need) -> bool:
        """Return whether there are bounds of all rows; make them unless they are there, for the whole batch."""
        batch, pause = logits.batch, self._pauses[need]
        if self._scanned is batch:
            return True
        if self._before or pause.left:
            if self._before:
                self._before -= 1
            else:
                pause.left -= 1
            return False
        states = [state_of(x) for x in batch.states]
        if None in states or not self._allocated():
            return False
        if not self.complete:
            self._copy(need)
            if need == "leading":  # bounds of some rows decide nothing
                return False
        if len(self._estimate) < len(states):
            self._estimate, self._upper = (np.empty((len(states), self.rows), dtype=np.float32) for _ in range(2))
        self._native.scan(batch.states, states, self._copied, self._estimate, self._upper)
        self._scanned = batch
        self._screened += len(states) * self.complete
        return True

    def _copy(self, need: Need) -> None:
        """Copy some rows; scoring those that are copied takes half as long as reading them, and leaves time for more."""
        saved = 0.5 * self._copied / self.rows if need == "largest" else 0.0
        rows, longest, start = max(64, PAGE // self.columns), 0.0, process_time()
        end = start + self._seconds * (MORE + saved)
        while not self.complete and (not longest or start + longest < end):
            stop = min(self.rows, self._copied + rows)
            self._native.make(self._copied, stop)
            self._copied, now = stop, process_time()
            start, longest = now, max(longest, now - start)

    def _allocated(self) -> bool:
        if self._copy_bytes:
            return True
        pitch = -(-self.columns // _fast.HEAD_COLUMNS) * _fast.HEAD_COLUMNS
        size = self.rows * pitch
        try:
            memory = np.frombuffer(huge_pages(size + self.rows * 16), dtype=np.uint8)[: size + self.rows * 16]
        except MemoryError:
            self._before = math.inf
            return False
        self._native.room(memory[:size].reshape(self.rows, pitch), memory[size:].view(np.float32).reshape(4, self.rows))
        self._copy_bytes = memory.size
        return True

    def _read(self, logits: ScreenedLogits, ids: Ids) -> Floats:
        out = np.empty(len(ids), dtype=np.float32)
        if len(ids):
            self._native.read(logits.x[None], ids, out[None])
        self._rows_read += len(ids) if self.complete else 0
        return out

    def screening_ended(self, logits: ScreenedLogits, need: Need, decided: bool) -> None:
        """Record whether a screening decided about a token: if not, the next ones read the whole head."""
        if decided:
            logits.batch.waiting.discard(logits.number)
            self._pauses[need].next = PAUSE
        else:
            self._scanned = None
            self._pauses[need].begin()

    # What `ScreenedLogits` asks for

    def whole(self, logits: ScreenedLogits) -> Floats:
        """Return all logits; they are computed for all tokens of the batch that wait."""
        with self._lock:
            batch = logits.batch
            if logits.number not in batch.known:
                numbers = sorted(batch.waiting | {logits.number})
                values, start = np.empty((len(numbers), self.rows), dtype=np.float32), process_time()
                self._native.whole(batch.states[numbers], values)
                self._seconds = min(self._seconds, process_time() - start)
                batch.known.update(zip(numbers, values, strict=True))
                batch.waiting.clear()
            return batch.known[logits.number]

    def largest(self, logits: ScreenedLogits, count: int) -> tuple[Ids | None, Floats]:
        """Do what `ScreenedLogits.largest` does."""
        with self._lock:
            if logits.known is not None or count > MOST_ROWS or count >= self.rows or not self._scan(logits, "largest"):
                return None, self.whole(logits)
            estimate, upper = self._estimate[logits.number], self._upper[logits.number]
            best = np.array([np.argmax(estimate)])
            if count > 1:
                best = np.argpartition(estimate, -count)[-count:]
            threshold = self._read(logits, best).min()
            ids = np.flatnonzero(~(upper < threshold))
            if math.isfinite(threshold) and len(ids) <= self.rows // 4:
                values = self._read(logits, ids)
                if math.isfinite(values.max()):
                    self.screening_ended(logits, "largest", True)
                    return ids, values
            self.screening_ended(logits, "largest", False)
            return None, self.whole(logits)

    def leading(self, logits: ScreenedLogits, count: int, making: bool) -> Leading | None:
        """Do what `ScreenedLogits.leading` does."""
        with self._lock:
            if logits.known is not None or count >= self.rows or not (making or self.complete):
                return None
            if not self._scan(logits, "leading"):
                return None
            upper = self._upper[logits.number]
            some = np.argpartition(upper, -count - 1)[-count - 1 :]
            beyond = upper[some].min()
            ids = np.sort(some[upper[some] > beyond])
            values = self._read(logits, ids)
            upper = upper.astype(np.float64)
            about = self._estimate[logits.number].astype(np.float64)
            lower = about - (upper - about) * (1 + 1e-6) - np.abs(about) * 1e-6  # both were rounded to float32
            upper[ids] = lower[ids] = values
            others = np.ones(self.rows, dtype=bool)
            others[ids[values > beyond]] = False
            return Leading(ids[values > beyond], values[values > beyond], lower[others], upper[others])


class Leading(NamedTuple):
    """Rows whose logits are above those of all others.

    :param ids: ascending
    :param logits: of these rows
    :param lower: bounds of the logits of the others, float64
    :param upper: the same
    """

    ids: Ids
    logits: Floats
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass
class _Batch:
    """Tokens that meet the head together.

    :param states: float32 [tokens, columns]
    :param waiting: the tokens about which no screening has decided, and whose logits were not read
    :param known: all logits of a token, once they were read
    """

    states: Floats
    waiting: set[int]
    known: dict[int, Floats] = field(default_factory=dict)


class ScreenedLogits:
    """The logits of one token, of which only those are read that are asked for.

    :param batch: the tokens that meet the head together; this is the one with the given number
    """

    def __init__(self, head: ScreenedHead, batch: _Batch, number: int) -> None:
        self.head = head
        self.batch, self.number = batch, number
        self.shape = 1, head.rows

    @property
    def x(self) -> Floats:
        """The state that meets the head, float32 [columns]."""
        x: Floats = self.batch.states[self.number]
        return x

    @property
    def known(self) -> Floats | None:
        """All logits, once they were read."""
        return self.batch.known.get(self.number)

    def whole(self) -> Floats:
        """Return all logits, float32 [vocab]."""
        return self.head.whole(self)

    def largest(self, count: int) -> tuple[Ids | None, Floats]:
        """Return logits among which the `count` largest are, and all that are equal to the least of these.

        :returns: ids in ascending order and their logits; None and all logits where the whole head was read
        """
        return self.head.largest(self, count)

    def leading(self, count: int, *, making: bool = True) -> Leading | None:
        """Return at most `count` rows above all others, with bounds of the others; None where there are no bounds.

        :param making: whether a copy is made that is not complete
        """
        return self.head.leading(self, count, making)

    def decided(self, success: bool) -> None:
        """Record whether leading rows decided about a token; if not, the whole head is read for some tokens."""
        self.head.screening_ended(self, "leading", success)
