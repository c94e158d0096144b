"""Comparison with a file of the same model whose weights are known, which shows what a file alone cannot.

    ReferenceWeights  the file of known weights: GGUF of any ternary or float type, safetensors with floats or packed
                      trits
    Known             the weights of one tensor, whatever holds them, a window at a time
    compared          one tensor compared with its known weights, and the cause of a difference

`linter.analysis.against_reference` compares all tensors of a file, once for all rules. `inspect.match_dialect` tries
the dialects; `i2s identify --reference` uses it too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from math import isfinite, lcm, prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.change_groups import NotTernaryError
from i2s_spec.codec.encoding import WINDOW
from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.shape import FLOAT_WORDS, widened
from i2s_spec.compare import Reference
from i2s_spec.compare.explanation import explanation
from i2s_spec.compare.tensor_rows import (
    ROUNDING,
    SCALE,
    Rows,
    flat_rows,
    float_reader,
    rows_of,
    scaled_rows,
    value_rows,
)
from i2s_spec.errors import counted, quote
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import PathSource
from i2s_spec.inspect.match_dialect import (
    AGREES,
    COMPARED,
    ENOUGH,
    MARGIN,
    NOTHING,
    SAME,
    Match,
    matched,
    rows_compared,
)
from i2s_spec.safetensors.files import Checkpoint, Stored
from i2s_spec.safetensors.names import (
    added_gain,
    checkpoint_names,
    heads_that_move,
    tiled_places,
    to_checkpoint_rows,
    to_gguf_rows,
)
from i2s_spec.safetensors.packed import checked_convention, configured, quantizes_online, scale_of
from i2s_spec.schema.architectures import declared_architecture
from i2s_spec.schema.dialect import Dialect, parse
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor

# --- weights ---------------------------------------------------------------------------------------------------------
# The file of known weights, and the tensor in it that belongs to a tensor of another file.
#
# Two GGUF files use the same tensor names. A checkpoint uses other names; for architectures that rotate neighboring
# rows, it also has the rows of attn_q and attn_k in another order (`safetensors.names`).

_PACKED: Final = 4
_NPY: Final = b"\x93NUMPY"


class ReferenceWeights:
    """The weights that a reference holds; a context manager that closes the file.

    :raises ValueError: for a dialect that does not exist, and for an array without names (.npy)
    :raises FormatError: for a file that is neither GGUF nor safetensors, or cannot be read
    """

    def __init__(self, reference: Reference) -> None:
        reference.check()
        self.reference = reference
        self.file: File | None = None
        self._checkpoint: Checkpoint | None = None
        origin = reference.origin
        self._owned = isinstance(origin, str | os.PathLike)
        if self._owned and _is_checkpoint(origin):
            self._checkpoint = Checkpoint(origin)
        else:
            self.file = open_file(origin)

    def __enter__(self) -> ReferenceWeights:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned and self.file is not None:
            self.file.close()
        if self._checkpoint is not None:
            self._checkpoint.close()

    def changed(self) -> str | None:
        """Return why parts that were read of the reference may be from different versions of it, or None (12.4-2)."""
        sources = self._checkpoint.sources if self._checkpoint is not None else []
        sources = [self.file.source] if self.file is not None else sources
        return next((f"the reference changed: {reason}" for each in sources if (reason := each.changed())), None)

    def known(self, file: File, tensor: Tensor, name: str | None = None) -> Known:
        """Return the known weights of a tensor of a file.

        :param name: the tensor's name in the reference, if it has another name there
        :raises ValueError: if the reference has no weights for it; the text says why
        :raises FormatError: if the bytes cannot be read
        """
        known = self._of_file(tensor, name) if self.file is not None else self._of_checkpoint(file, tensor, name)
        if known.shape != tensor.shape:
            raise ValueError(f"it has the shape {list(known.shape)} in the reference, and {list(tensor.shape)} here")
        return known

    @property
    def expected(self) -> str:
        """The dialect that the linted file should have."""
        return str(parse(self.reference.expected))

    def twin(self, tensor: Tensor) -> Tensor | None:
        """Return the tensor of that name, if the reference is a GGUF file that has one."""
        return self.file.tensors.get(tensor.name) if self.file is not None else None

    def values(self, file: File, tensor: Tensor) -> Rows:
        """Return the reference's values for a tensor of a file, as rows of float32 in the order of the file: floats,
        or trits times their scales.

        :raises ValueError: if the reference has none; the text says why
        :raises FormatError: if the bytes cannot be read
        """
        if self.file is not None:
            twin = self.file.tensors.get(tensor.name)
            if twin is None:
                raise ValueError(f"the reference has no tensor {quote(tensor.name)}")
            return value_rows(self.file, twin, self.reference.dialect)
        stored = self._stored(tensor.name)
        if stored.dtype == "U8" and len(stored.shape) == 2 and min(stored.shape):
            known = _packed(stored, self._scale(stored))
            if known.scale is None:
                raise ValueError("it is packed there, and nothing says whether its weight_scale multiplies or divides")
            rows = scaled_rows(flat_rows(known.shape, known.unit, known.trits, 0.0), np.float32(known.scale))
        elif stored.dtype in FLOAT_WORDS and stored.shape and min(stored.shape):
            rows = flat_rows(stored.shape, 1, _stored_floats(stored), ROUNDING[stored.dtype])
            if self._online and len(stored.shape) == 2 and of_floats(stored.shape, _stored_floats(stored)).exact:
                known = self._of_stored(stored)  # ternary, and quantized again
                assert known.scale is not None
                rows = scaled_rows(flat_rows(known.shape, 1, known.trits, 0.0), np.float32(known.scale))
        else:
            raise ValueError(f"it is {quote(stored.dtype, bare=True)} there")
        if stored.name == tensor.name:
            return rows
        gain, read = np.float32(added_gain(file, tensor.name)), rows.read
        if gain:
            rows = rows._replace(read=lambda start, stop: read(start, stop) + gain)
        if tensor.name.endswith(".ssm_a"):
            rows = rows._replace(read=lambda start, stop: _decays(read(start, stop)))
        if (places := tiled_places(file, tensor)) is not None:
            return _placed(rows, places, tensor.name)
        heads = _heads(file, tensor.name) if len(tensor.shape) == 2 else None
        return rows if heads is None else moved_rows(rows, heads)

    def _of_file(self, tensor: Tensor, name: str | None) -> Known:
        assert self.file is not None
        twin = self.file.tensors.get(tensor.name if name is None else name)
        if twin is None:
            raise ValueError(f"the reference has no tensor {quote(tensor.name if name is None else name)}")
        return of_tensor(self.file, twin, self.reference.dialect)

    def _of_checkpoint(self, file: File, tensor: Tensor, name: str | None) -> Known:
        assert self._checkpoint is not None
        stored = self._stored(tensor.name) if name is None else self._checkpoint.get(name)
        if stored is None:
            raise ValueError(f"the reference has no tensor {quote(name or tensor.name)}")
        heads = _heads(file, tensor.name) if name is None and stored.name != tensor.name else None
        known = self._of_stored(stored)
        places = tiled_places(file, tensor) if name is None and stored.name != tensor.name else None
        if places is not None:
            rows = _placed(flat_rows(known.shape, known.unit, known.trits, 0.0), places, tensor.name)
            moved = rows.read(0, rows.rows).reshape(-1)
        elif heads is not None:
            moved = to_gguf_rows(known.whole(), heads).reshape(-1)
        else:
            return known
        return known._replace(unit=1, trits=lambda start, stop: moved[start:stop])

    def _stored(self, name: str) -> Stored:
        """Return a tensor of the checkpoint, by its name in GGUF files.

        :raises ValueError: if there is none
        """
        assert self._checkpoint is not None
        names = [name, *checkpoint_names(name)]
        for each in names:
            if each in self._checkpoint:
                return self._checkpoint[each]
        raise ValueError(f"the reference has no tensor {quote(names[-2] if len(names) > 1 else name)}")

    def _of_stored(self, stored: Stored) -> Known:
        if stored.dtype in FLOAT_WORDS and stored.shape and min(stored.shape):
            return of_floats(stored.shape, _stored_floats(stored), self._online)
        if stored.dtype == "U8" and len(stored.shape) == 2 and min(stored.shape):
            return _packed(stored, self._scale(stored))
        raise ValueError(f"it is {quote(stored.dtype, bare=True)} there; floats, or packed U8, can be compared")

    def _scale(self, stored: Stored) -> float | None:
        """Return the scale beside a packed matrix; None if nothing says whether it multiplies or divides."""
        assert self._checkpoint is not None
        beside = self._checkpoint.get(f"{stored.name}_scale")
        if beside is None or beside.dtype not in FLOAT_WORDS:
            return None
        mark = FLOAT_WORDS[beside.dtype]
        words = np.frombuffer(beside.read(), dtype="<" + mark).astype(mark, copy=False)
        if words.size != 1:
            return None
        try:
            return float(
                scale_of(np.float32(widened(words, beside.dtype)[0]), checked_convention(configured(self._path)))
            )
        except ValueError:
            return None

    @cached_property
    def _online(self) -> bool:
        """Whether the reference's floats are quantized when it runs, even ternary ones."""
        return quantizes_online(self._path)

    @property
    def _path(self) -> Any:
        return self.reference.origin


def _stored_floats(stored: Stored) -> Callable[[int, int], NDArray[np.float32]]:
    """Return the floats of a range of a stored tensor."""
    mark = FLOAT_WORDS[stored.dtype]
    width = np.dtype(mark).itemsize

    def floats(start: int, stop: int) -> NDArray[np.float32]:
        words = np.frombuffer(stored.read(width * start, width * stop), dtype="<" + mark)
        return widened(words.astype(mark, copy=False), stored.dtype)

    return floats


def _is_checkpoint(path: Any) -> bool:
    """Whether a path is a folder, or a file without GGUF's magic whose name is one that checkpoints have.

    :raises ValueError: for a .npy file
    """
    if os.path.isdir(path):
        return True
    if os.path.isfile(path):
        source = PathSource(path)
        try:
            start = source.read(0, min(source.size, len(_NPY)))
        finally:
            source.close()
        if start == _NPY:
            raise ValueError(f"{quote(os.fsdecode(path), 4096)} is a single array without a tensor name")
        return not start.startswith(b"GGUF") and os.fsdecode(path).lower().endswith(".safetensors")
    return False


def _heads(file: File, name: str) -> int | None:
    """Return the number of heads that the rows of a tensor belong to, if their order differs from that of
    checkpoints.
    """
    declared = declared_architecture(file.metadata.get("general.architecture"), file.metadata, file.tensors)
    if declared is None or declared.rope != "norm":
        return None
    return heads_that_move(file, name)


def _decays(logarithms: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return (-np.exp(logarithms.astype(np.float64))).astype(np.float32)


def _placed(rows: Rows, places: NDArray[np.intp], name: str) -> Rows:
    """Return rows of a checkpoint, for `ssm_out` its columns, in the order of a file with delta nets.

    :raises ValueError: if the checkpoint has another number of them
    """
    columns = name.endswith(".ssm_out.weight")
    if len(places) != (rows.cols if columns else rows.rows):
        raise ValueError("it has another shape there")

    def read(start: int, stop: int) -> NDArray[Any]:
        if columns or start == stop:
            return rows.read(start, stop)[:, places if columns else slice(None)]
        some = places[start:stop]
        runs = np.split(some, np.flatnonzero(np.diff(some) != 1) + 1)
        return np.concatenate([rows.read(int(run[0]), int(run[-1]) + 1) for run in runs])

    return rows._replace(read=read, swapped=None)


def moved_rows(rows: Rows, heads: int) -> Rows:
    """Return rows of a checkpoint, which rotates halves of heads, in the order of files that rotate neighbors."""
    size, odd = divmod(rows.rows, heads)
    if odd or size % 2:
        raise ValueError(
            f"its {counted(rows.rows, 'row')} there are not {counted(heads, 'head')} of an even number of rows"
        )

    def read(start: int, stop: int) -> NDArray[Any]:
        first, last = start // size, -(-stop // size)
        moved = to_gguf_rows(rows.read(first * size, last * size), last - first)
        return moved[start - first * size : stop - first * size]

    return rows._replace(read=read, swapped=None)


def _packed(stored: Stored, scale: float | None) -> Known:
    """Return a matrix that transformers packed: row r is in byte row r % (rows/4), at bit 2 * (r // (rows/4))
    (clause 5.5).
    """
    rows, cols = _PACKED * stored.shape[0], stored.shape[1]
    part = stored.shape[0] * cols  # elements that share one shift

    def trits(start: int, stop: int) -> NDArray[np.int8]:
        found = np.empty(stop - start, dtype=np.int8)
        at = start
        while at < stop:
            number = at // part
            end = min(stop, (number + 1) * part)
            data = np.frombuffer(stored.read(at - number * part, end - number * part), dtype=np.uint8)
            codes = data >> np.uint8(2 * number) & np.uint8(3)
            found[at - start : end - start] = np.where(codes == 3, np.uint8(1), codes).view(np.int8) - np.int8(1)
            at = end
        return found

    return Known((rows, cols), 1, trits, scale)


# --- known -----------------------------------------------------------------------------------------------------------
# The weights of a tensor as trits, whatever the type that stores them.
#
# Floats that are all -s, 0 or +s are exact. All others are weights before ternary quantization: they are rounded with
# their mean magnitude as scale, as the training of these models does; values near half of it may be rounded either way.


class Known(NamedTuple):
    """The weights of one tensor, in NumPy's shape.

    `trits` gives the int8 trits of a range of flat elements; its ends are multiples of `unit`, or the tensor's end.
    `scale` is the value of +1, None if it is not known; `exact` is False for weights that were rounded here. For an
    I2_S payload, `payload` gives the bytes that hold a range.
    """

    shape: tuple[int, ...]
    unit: int
    trits: Callable[[int, int], NDArray[np.int8]]
    scale: float | None
    exact: bool = True
    payload: Callable[[int, int], bytes] | None = None
    dialect: Dialect | None = None

    def whole(self) -> NDArray[np.int8]:
        """Return all trits, int8 of the tensor's shape."""
        found = np.empty(prod(self.shape), dtype=np.int8)
        step = max(WINDOW // self.unit, 1) * self.unit
        for start in range(0, found.size, step):
            found[start : start + step] = self.trits(start, min(start + step, found.size))
        return found.reshape(self.shape)

    def first_rows(self, rows: int) -> NDArray[np.int8]:
        """Return the trits of the first `rows` rows, int8 [rows, cols]."""
        cols = self.shape[-1]
        stop = min(-(-rows * cols // self.unit) * self.unit, prod(self.shape))
        return self.trits(0, stop)[: rows * cols].reshape(rows, cols)


def of_tensor(file: File, tensor: Tensor, dialect: str | Dialect = "canonical") -> Known:
    """Return the weights of a tensor of a GGUF file.

    :param dialect: the dialect of I2_S, which the file does not state; the unused code is read as 0
    :raises ValueError: for types that hold neither trits nor floats, and shapes that the type cannot hold
    :raises FormatError: if the file does not hold the whole tensor
    """
    floats = float_reader(file, tensor)
    if floats is not None:
        return of_floats(tensor.shape, floats)
    held = tensor.ternary(dialect, "zero")
    form = held.encoding

    def payload(start: int, stop: int) -> bytes:
        return held.fetch(form.byte(start), form.byte(stop))

    def trits(start: int, stop: int) -> NDArray[np.int8]:
        return form.decode(payload(start, stop), stop - start, "zero").trits

    try:
        scale: float | None = float(held.scale)
    except NotTernaryError:  # blocks with scales of their own
        scale = None
    packed = tensor.number == I2_S.number
    return Known(
        tensor.shape, form.unit, trits, scale, True, payload if packed else None, form.dialect if packed else None
    )  # fmt: skip


def of_floats(shape: tuple[int, ...], fetch: Callable[[int, int], NDArray[np.float32]], absmean: bool = False) -> Known:
    """Return floats as trits. They are read twice: first to find the scale and whether they are exact.

    :param fetch: gives the float32 of a range of flat elements
    :param absmean: whether they are rounded by their mean magnitude even where they are ternary
    :raises ValueError: for infinities and NaN
    """
    total = prod(shape)
    windows = [(start, min(start + WINDOW, total)) for start in range(0, total, WINDOW)]
    largest, added = 0.0, 0.0
    magnitude: Any = None
    for window in windows:
        magnitude = np.abs(fetch(*window))
        largest = max(largest, float(magnitude.max()))
        added += float(magnitude.sum(dtype=np.float64))
    if not isfinite(added):
        raise ValueError("it holds infinities or NaN")
    if len(windows) == 1:
        exact = not absmean and _ternary(magnitude, largest)
    else:
        exact = not absmean and all(_ternary(np.abs(fetch(*window)), largest) for window in windows)
    scale = largest if exact else added / total
    least = np.float32(0.5 * scale)

    def trits(start: int, stop: int) -> NDArray[np.int8]:
        values = fetch(start, stop)
        return np.where(np.abs(values) < least, np.int8(0), np.sign(values).astype(np.int8))

    return Known(shape, 1, trits, scale, exact)


def _ternary(magnitude: NDArray[np.float32], largest: float) -> bool:
    """Whether every magnitude is 0 or the largest, as far as 16-bit words can tell."""
    return bool(((magnitude <= NOTHING * largest) | (magnitude >= SAME * largest)).all())


# --- comparison ------------------------------------------------------------------------------------------------------
# The possible causes of a difference are tried in turn: another layout or code map, all signs inverted, the rows of
# heads in the order of checkpoints. A cause is accepted only if nine of ten weights then agree.

#: About how many weights are used to explain a difference; ten thousand would be enough.
DECIDING: Final = 1 << 18


#: How many tensors of a file are read in every dialect, how many of them are explained in words, and how many
#: comparisons with other tensors of the same shape are made for all of these together: small files hold thousands.
DIALECTS: Final = 1 << 10
EXPLAINED: Final = 64
OTHERS: Final = 1 << 13


class Budget:
    """How much work may still be done to explain the differences in a file."""

    def __init__(self) -> None:
        self._dialects, self._explained, self._others = DIALECTS, EXPLAINED, OTHERS

    def dialects(self) -> bool:
        """Whether one more tensor may be read in every dialect."""
        self._dialects -= 1
        return self._dialects >= 0

    def explained(self) -> bool:
        """Whether one more tensor may be explained."""
        self._explained -= 1
        return self._explained >= 0

    def some(self, others: Iterable[tuple[str, Rows]]) -> Iterator[tuple[str, Rows]]:
        """Yield as many of the other tensors as may still be compared."""
        if self._others <= 0:
            return
        for other in others:
            self._others -= 1
            yield other
            if self._others <= 0:
                return


class WeightDifference(NamedTuple):
    """Where two tensors differ: how many weights of how many, the first of them, the bytes that hold them all."""

    weights: int
    compared: int
    first: int
    start: int
    stop: int


class ReferenceOutcome(NamedTuple):
    """How a tensor compares with its known weights; each part is None where there is nothing to report.

    `difference` says where the weights differ, `match` is the dialect that explains it, `how` another explanation in
    words, `scale` the two scales if they differ.
    """

    difference: WeightDifference | None
    match: Match | None
    how: str
    scale: tuple[float, float] | None

    @property
    def good(self) -> bool:
        return self.difference is None and self.scale is None


class _Part(NamedTuple):
    weights: int
    first: int
    start: int
    stop: int


def compared(
    file: File,
    tensor: Tensor,
    known: Known,
    expected: Dialect,
    twin: tuple[File, Tensor] | None = None,
    others: Callable[[], Iterable[tuple[str, Rows]]] = lambda: (),
    threads: int = 1,
    whole: bool = True,
    budget: Budget | None = None,
) -> ReferenceOutcome:
    """Compare a tensor with its known weights.

    :param expected: the dialect in which the tensor should be packed
    :param twin: the tensor of the reference, where that is a GGUF file
    :param others: the reference's other tensors of this shape, with their names
    :param whole: look at all weights, not at the first `COMPARED` of them
    :param budget: the file's budget for explaining differences
    :raises ValueError: for shapes that the dialect cannot hold
    :raises FormatError: where a file does not hold its tensor
    """
    ours = of_tensor(file, tensor, expected)
    difference = _difference(ours, known, threads, whole)
    scale = _scales(ours.scale, known)
    if difference is None or (not known.exact and difference.weights <= (1 - AGREES) * difference.compared):
        return ReferenceOutcome(None, None, "", scale)
    budget = budget or Budget()
    rows = rows_compared(tensor, DECIDING)
    how = ""
    if rows * tensor.shape[-1] >= ENOUGH and budget.dialects():  # fewer weights are no evidence
        trits = known.first_rows(rows)
        best = _decided(matched(file, tensor, trits, known.scale).matches, expected)
        if best is not None:
            return ReferenceOutcome(difference, best, "", scale)
        how = order_of_rows(file, tensor, ours.first_rows(rows), trits)
        if not how and twin is not None and known.dialect is not None:
            other = _decided(matched(*twin, ours.first_rows(rows), None).matches, known.dialect)
            if other is not None:
                packed = other.dialect
                how = f"they agree if it is the reference that is packed as {packed}: --reference-dialect {packed}"
    if not how and difference.weights > (1 - AGREES) * difference.compared and budget.explained():
        right = flat_rows(known.shape, known.unit, known.trits, 0.0)
        how = explanation(rows_of(file, tensor, expected), right, lambda: budget.some(others()))
        if how:
            return ReferenceOutcome(difference, None, how, None)  # the scale belongs to that other tensor
    alien = not how and difference.weights > (1 - AGREES) * difference.compared
    return ReferenceOutcome(difference, None, how, None if alien else scale)


def _difference(ours: Known, known: Known, threads: int, whole: bool) -> WeightDifference | None:
    """Return where the trits differ, window by window; bytes that are equal are not decoded."""
    assert ours.payload is not None
    assert ours.dialect is not None
    payload, layout = ours.payload, ours.dialect.layout
    same = known.dialect is not None and (known.dialect.layout, known.dialect.code_map) == (
        layout,
        ours.dialect.code_map,
    )
    rows, cols = ours.shape[0], ours.shape[-1]
    total = rows * cols if whole else min(rows * cols, COMPARED)
    unit = lcm(ours.unit, known.unit)
    step = max(WINDOW // unit, 1) * unit
    total = rows * cols if total + unit > rows * cols else -(-total // unit) * unit

    def look(start: int) -> _Part | None:
        stop = min(start + step, total)
        if same and known.payload is not None and payload(start, stop) == known.payload(start, stop):
            return None
        odd = np.flatnonzero(ours.trits(start, stop) != known.trits(start, stop))
        if not odd.size:
            return None
        odd += start
        where = layout.byte_of(odd, rows, cols)
        return _Part(odd.size, int(odd[0]), int(where.min()), int(where.max()) + 1)

    parts = [part for part in in_order(look, range(0, total, step), threads) if part is not None]
    if not parts:
        return None
    return WeightDifference(
        sum(part.weights for part in parts), total, parts[0].first,
        min(part.start for part in parts), max(part.stop for part in parts),
    )  # fmt: skip


def _scales(stored: float | None, known: Known) -> tuple[float, float] | None:
    """Return the two scales, if they differ by more than rounding; those of rounded weights depend on the rule."""
    if stored is None or known.scale is None or not known.exact or not isfinite(stored) or not isfinite(known.scale):
        return None
    if known.scale == 0 or abs(stored - known.scale) <= SCALE * abs(known.scale):
        return None
    return stored, known.scale


def _decided(matches: tuple[Match, ...], expected: Dialect) -> Match | None:
    """Return the other dialect that explains the tensor, if one does; the expected one is never given, however well
    it agrees.
    """
    if not matches or matches[0].share < AGREES or matches[0].compared < ENOUGH:
        return None
    best = matches[0]
    meant = next((match for match in matches if _alike(match.dialect, expected)), None)
    rival = max((match.share for match in matches[1:]), default=0.0)
    if meant is not None and (meant is best or best.share - meant.share < MARGIN):
        return None
    return best if best.share - rival >= MARGIN else None


def _alike(one: Dialect, other: Dialect) -> bool:
    return (one.layout, one.code_map) == (other.layout, other.code_map)


def order_of_rows(file: File, tensor: Tensor, ours: NDArray[Any], known: NDArray[Any], tolerance: float = 0.0) -> str:
    """Whether the rows of queries and keys are in another order, or all signs inverted, in words; empty if neither.

    :param ours: the first rows of the tensor
    :param known: what they should be
    :param tolerance: how far apart, relatively, equal values may lie
    """

    def agrees(one: NDArray[Any], other: NDArray[Any]) -> bool:
        with np.errstate(invalid="ignore"):
            return one.size >= ENOUGH and bool(np.mean(np.abs(one - other) <= tolerance * np.abs(other)) >= AGREES)

    if agrees(-ours, known):
        return "all signs are inverted"
    orders: tuple[tuple[str, Callable[[NDArray[Any], int], NDArray[Any]]], ...] = (
        ("its rows are in the order of checkpoints, which rotate halves of heads", to_gguf_rows),
        ("its rows are in the order of architectures that rotate neighbors", to_checkpoint_rows),
    )
    for heads in _possible_heads(file, tensor):
        size = tensor.shape[0] // heads
        count = ours.shape[0] // size
        if count and size % 2 == 0 and tensor.shape[0] % heads == 0:
            for words, order in orders:
                if agrees(order(ours[: count * size], count), known[: count * size]):
                    return words
    return ""


def _possible_heads(file: File, tensor: Tensor) -> list[int]:
    """Return how many heads the rows of a tensor may belong to."""
    part = tensor.name.rpartition(".")[0].rpartition(".")[2]
    if part not in ("attn_q", "attn_k"):
        return []
    found = []
    for name in ("head_count", "head_count_kv"):
        value = file.metadata.get(f"{file.metadata.get('general.architecture')}.attention.{name}")
        if isinstance(value, int) and 0 < value <= tensor.shape[0]:
            found.append(value)
    return found
