"""The two forms of llama.cpp, written and read: the text of eval-callback, and the base of --kl-divergence.

The text has for each node its sources, a corner of its values, and a sum. A line names a node, then come its numbers
with four decimals, of each dimension the first three and the last three where there are more than six, then a sum. What
the sum is of depends on the version: of the fork of 2025 the numbers that are shown, elsewhere of all. Shapes are in
ggml's order, four numbers always. A name that a graph gives twice is printed twice. `GGML_OPS` has what ggml calls the
operations of our graphs.

The base is the file of llama-perplexity's `--kl-divergence-base`: the log-probabilities of a text, with which the stock
tool compares any build.

Source: `ggml_debug` and `ggml_print_tensor` in examples/eval-callback, `common_debug_cb_eval` in common/debug.cpp.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import numpy as np

from i2s_spec.errors import SettingError, counted
from i2s_spec.golden.store import CORNER, Tap

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Numbers have four decimals.
RESOLUTION: Final = 0.5e-4

Sum = Literal["all", "shown"]

_INDENT: Final = " " * 37

#: The line of a node: its name, ` = (`, its type, what made it, its sources, `}) = {`, its shape.
_IS, _OF = " = (", "}) = {"
_MADE: Final = re.compile(r"[\w.]+\)\s+(?P<op>\S+)\(")
_SHAPE: Final = re.compile(r"(?P<ne>\d{1,19}(?:, \d{1,19}){3})\}\s*$")
_SUM: Final = re.compile(r"^\s*sum\s*=\s*(\S+)\s*$")
_NUMBERS: Final = re.compile(r"[^\s,\[\]]+")

#: Most elements of a tensor that a text may speak of.
MOST_ELEMENTS: Final = 1 << 40

#: Longer lines are no part of such a text.
LONGEST_LINE: Final = 1024

#: Most numbers that one node may show: four dimensions with six of each.
MOST_NUMBERS: Final = 6**4


def node_text(
    name: str, op: str, sources: Sequence[tuple[str, tuple[int, ...]]], value: NDArray[Any], sum_of: Sum = "all"
) -> Iterator[str]:
    """Yield the lines of one node, without line ends.

    :param op: as ggml names it
    :param sources: names and shapes (NumPy's order) of what goes in, two at most
    :param value: float32 or integers
    :param sum_of: what the sum at the end adds up: `all` elements in float64, or the `shown` ones in float32
    """
    four = value.reshape((1,) * (4 - value.ndim) + value.shape)
    first, *rest = [f"{source}{{{_ne(shape)}}}" for source, shape in sources] or ["{}"]
    listed = f"{first}, {rest[0] if rest else ''}}}"
    yield f"ggml_debug: {name:>24} = (f32) {op:>10}({listed}) = {{{_ne(four.shape)}}}"
    shown = np.float32(0)
    for cube in four:
        yield f"{_INDENT}["
        for plane in _corner(cube, f"{_INDENT} ..., "):
            if isinstance(plane, str):
                yield plane
                continue
            yield f"{_INDENT} ["
            for row in _corner(plane, f"{_INDENT}  ..., "):
                if isinstance(row, str):
                    yield row
                    continue
                cells = list(_corner(row, "..."))
                shown = _added(shown, [cell for cell in cells if not isinstance(cell, str)])
                yield f"{_INDENT}  [" + ", ".join(c if isinstance(c, str) else f"{c:12.4f}" for c in cells) + "],"
            yield f"{_INDENT} ],"
        yield f"{_INDENT}]"
        total = float(shown) if sum_of == "shown" else float(np.sum(value, dtype=np.float64))
        yield f"{_INDENT}sum = {total:f}"


def _ne(shape: tuple[int, ...]) -> str:
    return ", ".join(str(size) for size in (*reversed(shape), 1, 1, 1)[:4])


def _corner(values: NDArray[Any], gap: str) -> Iterator[Any]:
    if len(values) <= 2 * CORNER:
        yield from values
        return
    yield from values[:CORNER]
    yield gap
    yield from values[-CORNER:]


def _added(total: np.float32, cells: list[Any]) -> np.float32:
    with np.errstate(all="ignore"):
        for cell in cells:
            total = np.float32(total + np.float32(cell))
    return total


def read_callback_text(lines: Iterable[str]) -> Iterator[Tap]:
    """Yield every node of a text as a corner, in order; the second of a name gets `#1`.

    Lines that belong to no node are passed over. A node whose numbers do not fit its shape is one without numbers.

    :raises SettingError: for a shape that no computer holds
    """
    times: Counter[str] = Counter()
    found: _Node | None = None
    numbers: list[str] = []
    total: float | None = None
    for line in lines:
        node = node_of(line) if _IS in line and len(line) <= LONGEST_LINE else None
        if node is None:
            if found is None:
                continue
            if (end := _SUM.match(line)) is not None:
                total = _number(end[1])
            elif line.lstrip().startswith(("[", "...")) and len(numbers) <= 2 * MOST_NUMBERS:
                numbers += _NUMBERS.findall(line)
            continue
        if found is not None:
            yield _tap(found, numbers, total, times)
        found, numbers, total = node, [], None
    if found is not None:
        yield _tap(found, numbers, total, times)


class _Node(NamedTuple):
    """The line of a node."""

    name: str
    op: str
    sources: tuple[str, ...]
    ne: tuple[int, ...]


def node_of(line: str) -> _Node | None:
    """Parse the line of a node, in linear time; what logs put before it (time, level, function) does not matter.

    Names may hold blanks. A log's words end with a colon and a blank.
    """
    end = line.rfind(_OF)
    shape = _SHAPE.match(line, end + len(_OF)) if end >= 0 else None
    if shape is None:
        return None
    at = line.find(_IS, 1)
    while 0 < at < end:
        made = _MADE.match(line, at + len(_IS), end)
        if made is not None and not line[at - 1].isspace():
            before = line[:at]
            name = before.partition(": ")[2].strip() or before.strip()
            sources = _sources(line[made.end() : end])
            return _Node(name, made["op"], sources, tuple(int(size) for size in shape["ne"].split(", ")))
        at = line.find(_IS, at + 1)
    return None


def _sources(text: str) -> tuple[str, ...]:
    """Return the names of sources; each is followed by its shape in braces."""
    found = []
    for piece in text.split("}"):
        name, brace, shape = piece.removeprefix(",").partition("{")
        if brace and name.strip() and not shape.strip("0123456789, "):
            found.append(name.strip())
    return tuple(found)


def _tap(node: _Node, cells: list[str], total: float | None, times: Counter[str]) -> Tap:
    name, ne = node.name, node.ne
    count, times[name] = times[name], times[name] + 1
    if ne[0] * ne[1] * ne[2] * ne[3] > MOST_ELEMENTS:
        raise SettingError(f"the text lists a tensor of {list(ne)}; at most {MOST_ELEMENTS:,} elements are possible")
    shape = tuple(reversed(ne))
    lead = next((axis for axis in range(2) if shape[axis] != 1), 2)  # ggml's shapes end in ones
    whole = shape[lead:]
    shown = tuple(min(size, 2 * CORNER) for size in whole)
    numbers = [_number(cell) for cell in cells if cell != "..."]
    if len(numbers) == prod(shown) and None not in numbers:
        value = np.array(numbers, dtype=np.float32).reshape(shown)
    else:
        value = np.full(shown, np.nan, dtype=np.float32)
        total = None
    return Tap(f"{name}#{count}" if count else name, value, whole, RESOLUTION, total, node.op, node.sources)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# --- ggml ops --------------------------------------------------------------------------------------------------------
# With these names, texts of either program can be held together.


class GgmlOp(NamedTuple):
    """An operation as ggml's `ggml_op_desc` names it, and whether its tensor comes before its input among the sources."""

    name: str
    weights_first: bool = False


#: By the operation of our graphs. What is missing has no node of its own in ggml's graph, or one without data.
GGML_OPS: Final[Mapping[str, GgmlOp]] = {
    "embed": GgmlOp("GET_ROWS", weights_first=True),
    "norm": GgmlOp("RMS_NORM"),
    "norm_weight": GgmlOp("MUL"),
    "bias": GgmlOp("ADD"),
    "scale": GgmlOp("MUL"),
    "multiply_by": GgmlOp("SCALE"),
    "add": GgmlOp("ADD"),
    "multiply": GgmlOp("MUL"),
    "heads": GgmlOp("RESHAPE"),
    "linear": GgmlOp("MUL_MAT", weights_first=True),
    "head": GgmlOp("MUL_MAT", weights_first=True),
    "rope": GgmlOp("ROPE"),
    "scores": GgmlOp("MUL_MAT"),
    "soft_max": GgmlOp("SOFT_MAX"),
    "weighted_values": GgmlOp("CONT"),
    "relu": GgmlOp("RELU"),
    "square": GgmlOp("SQR"),
    "silu": GgmlOp("SILU"),
    "gelu": GgmlOp("GELU"),
    "convolve": GgmlOp("SSM_CONV"),
    "sigmoid": GgmlOp("SIGMOID"),
    "softplus": GgmlOp("SOFTPLUS"),
    "decay": GgmlOp("MUL"),
    "unit": GgmlOp("L2_NORM"),
    "merge": GgmlOp("RESHAPE"),
}


# --- the base of --kl-divergence -------------------------------------------------------------------------------------
# The file holds `_logits_`, the size of a chunk (u32), of the vocabulary and the number of chunks (i32), the tokens of
# all chunks (i32), then for each chunk the rows of the tokens that it scores: a float32 step, a float32 least
# log-probability, and for each token of the vocabulary a u16. Little-endian. A row is an even number of u16. The first
# token of a chunk is the vocabulary's first token where models want one: the tool puts it there when it evaluates a
# chunk, and stores what the text has; here it is stored as it was evaluated.
#
# Source: `llama-perplexity` (examples/perplexity), its functions `process_logits` and `log_softmax`.

MAGIC: Final = b"_logits_"

#: Log-probabilities that are further below the largest are taken for this far below it.
DEEPEST: Final = 24.0

STEPS: Final = 65535


class Output(Protocol):
    """What bytes are written to: a file, or one that gets its name when it is complete."""

    def write(self, data: bytes, /) -> Any:
        """Append bytes."""


def rows_of(n_ctx: int) -> int:
    """Return the scored tokens of a chunk: those after its first half, without the last."""
    return n_ctx - 1 - n_ctx // 2


def packed_row(logits: NDArray[np.float32]) -> bytes:
    """Return one row of the file from the logits of one position.

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
        """Append the next rows: float32 [rows, vocab].

        :raises ValueError: for rows of another width, or more than the chunks have
        """
        if logits.ndim != 2 or logits.shape[1] != self.vocab or len(logits) > self.left:
            raise ValueError(
                f"rows of shape {list(logits.shape)}; {counted(self.left, 'row')} of {self.vocab:,} are wanted"
            )
        for row in logits:
            self._file.write(packed_row(row))
        self.left -= len(logits)
