"""Two files compared by meaning: metadata, inventory, trits, scales, and tails apart from all of them.

What says where things lie (order, offsets, alignment, byte order, version, dialect) and what means nothing (the 28
bytes of a tail) makes no difference; it is told all the same where it differs. Tensors are compared a window at a time.
A changed tensor is explained where it is another one, or the same in another layout or dialect.

    >>> import io
    >>> from i2s_spec.convert.new import new
    >>> from i2s_spec.gguf.reader import open
    >>> one, other = io.BytesIO(), io.BytesIO()
    >>> _ = new(one, layers=1), new(other, layers=1, byte_order="big", alignment=64)
    >>> diff(open(one), open(other)).same
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from math import lcm, prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec import quantized
from i2s_spec.codec.change_groups import BLOCK_TYPES
from i2s_spec.codec.encoding import WINDOW
from i2s_spec.compare.hash import (
    ALIGNMENT,
    as_trits,
    canonical_data,
    canonical_value,
    lengths,
    packed_codes,
    require_own_bytes,
    words_known,
)
from i2s_spec.compare.lineage import TensorLineage, ZeroRows
from i2s_spec.errors import FormatError, MissingExtra
from i2s_spec.gguf.reader import File, KeyValue, Tensor, takes_file
from i2s_spec.inspect.match_dialect import matched, rows_compared
from i2s_spec.inspect.show import beginning
from i2s_spec.schema.dialect import Dialect, parse
from i2s_spec.schema.types import BY_NAME, I2_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.codec.encoding import Trits
    from i2s_spec.compare.tensor_rows import Rows
    from i2s_spec.gguf.source import Origin

#: Called with (bytes of A compared, bytes of A to compare).
Progress = Callable[[int, int], object]

#: The share of a tensor that must differ for it to be explained, and how many tensors of a file are.
CHANGED: Final = 0.1
EXPLAINED: Final = 64

#: The name of where the data section is, among what says where things lie.
_DATA: Final = "data"

#: Elements of an array that a change of it is told with.
ELEMENTS: Final = 4


class KeyChange(NamedTuple):
    """A key that one file lacks, or whose values differ: type and beginning of each value, None where there is none."""

    key: bytes
    before: Any
    after: Any
    type_before: str | None
    type_after: str | None
    #: How many bytes of type and value differ, and the first of them, where both files have the key.
    data: tuple[int, int] | None


class TensorChange(NamedTuple):
    """What differs in one tensor; everything is None that does not.

    `what` is what the tensors were compared as: `trits`, `weights` (trits with scales that one of them has many of),
    `values` (decoded weights of two types of which one is not ternary), `bytes` of one type, or `nothing`, where types or
    shapes do not allow it. `trits`, `data` and `weights` are (how many elements, bytes or decoded weights differ, the first
    of them); `compared_shape` is A's.
    """

    name: bytes
    what: str
    compared_shape: tuple[int, ...]
    shape: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    type: tuple[str, str] | None = None
    trits: tuple[int, int] | None = None
    scale: tuple[float, float] | None = None
    data: tuple[int, int] | None = None
    #: What B's tensor is, in words, where most of it differs and something explains that; or what the comparison needs.
    how: str | None = None
    weights: tuple[int, int] | None = None

    @property
    def means(self) -> bool:
        """Whether anything differs; a type does also where trits and scale are the same in both."""
        return any(part is not None for part in self[3:8])


class TailChange(NamedTuple):
    """Tails whose 28 bytes after the scale differ: what those of each file are (`zero`, `replicated`, `stale`)."""

    name: bytes
    before: str
    after: str


class Difference(NamedTuple):
    """All that differs between two files, A and B."""

    #: What says where things lie: name, A's, B's.
    container: tuple[tuple[str, Any, Any], ...]
    keys: tuple[KeyChange, ...]
    only_a: tuple[bytes, ...]
    only_b: tuple[bytes, ...]
    tensors: tuple[TensorChange, ...]
    tails: tuple[TailChange, ...]
    #: Tensors that were compared.
    compared: int
    #: Of those that are ternary in both files, how many trits changed and which rows are all zero.
    lineage: tuple[TensorLineage, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the files mean the same, also to readers that believe their headers."""
        return not (self.keys or self.only_a or self.only_b or self.tensors or self.displaced)

    @property
    def displaced(self) -> bool:
        """Whether all tensors of one file lie elsewhere than its header puts them; they were compared where they lie."""
        return any(name == _DATA for name, *_ in self.container)


@takes_file
def diff(
    a: Origin,
    b: Origin,
    dialect_a: str | Dialect = "canonical",
    dialect_b: str | Dialect = "canonical",
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Difference:
    """Compare two files by meaning, as `i2s diff` does: keys, tensors, trits and scales, whatever the packing.

        found = i2s.diff("before.gguf", "after.gguf")
        found.same, [(change.name, change.trits) for change in found.tensors]

    :param a: a `File`, or an argument of `open`; so is `b`
    :param dialect_a: of the I2_S tensors of A, which the file does not say
    :param dialect_b: of those of B
    :param threads: how many threads decode
    :param progress: called now and then with (bytes of A compared, bytes of A to compare)
    :raises FormatError: for a file with a fault, and where one does not hold a tensor whole
    :raises ValueError: for a dialect that does not exist, or whose tail the tensors do not have; for tensors that share
        so many bytes that they are larger than the file
    """
    return _diff_with(b, a, parse(dialect_a), parse(dialect_b), threads, progress)


@takes_file
def _diff_with(
    b: Origin, a: File, dialect_a: Dialect, dialect_b: Dialect, threads: int, progress: Progress | None
) -> Difference:
    """Compare two open files, as `diff` does."""
    for file in (a, b):
        if file.fault is not None:
            raise file.fault
        require_own_bytes(file, file.tensors.rows)
    of_a, of_b = dict(a.tensors), dict(b.tensors)
    total = sum(tensor.nbytes for tensor in of_a.values())
    done = 0
    changes: list[TensorChange] = []
    tails: list[TailChange] = []
    lineage: list[TensorLineage] = []
    explained = 0
    others = OtherTensors(a, dialect_a)
    common = [(tensor, of_b[name]) for name, tensor in of_a.items() if name in of_b]
    for ours, theirs in common:
        change, trits = _compared(a, ours, dialect_a, b, theirs, dialect_b, threads)
        tail = _tails(ours, theirs)
        if trits is not None:
            lineage.append(trits)
        if change.means:
            if explained < EXPLAINED and _is_most(change, ours):
                explained += 1
                change = change._replace(how=what_it_is(others, ours, b, theirs, dialect_b) or None)
            changes.append(change)
        if tail:
            tails.append(tail)
        done += ours.nbytes
        if progress is not None:
            progress(done, total)
    return Difference(
        tuple(_container(a, b)),
        tuple(_keys(a, b)),
        tuple(tensor.raw_name for name, tensor in of_a.items() if name not in of_b),
        tuple(tensor.raw_name for name, tensor in of_b.items() if name not in of_a),
        tuple(changes),
        tuple(tails),
        len(common),
        tuple(lineage),
    )


def _container(a: File, b: File) -> Iterator[tuple[str, Any, Any]]:
    order = [name for name in a.tensors if name in b.tensors] == [name for name in b.tensors if name in a.tensors]
    keys = [key for key in a.metadata if key in b.metadata] == [key for key in b.metadata if key in a.metadata]
    for name, ours, theirs in (
        ("size", a.size, b.size),
        ("version", a.version, b.version),
        ("byte order", a.byte_order, b.byte_order),
        ("alignment", a.alignment, b.alignment),
        (_DATA, _data_place(a), _data_place(b)),
        ("order of keys", "its own", "its own" if keys else "another"),
        ("order of tensors", "its own", "its own" if order else "another"),
    ):
        if ours != theirs:
            yield name, ours, theirs


def _data_place(file: File) -> str:
    """Return where all tensors lie, in words; the file was read before."""
    shift = file.data_section.shift
    return f"everything lies {'where' if shift is None else f'{shift.words} than'} the header says"


def _keys(a: File, b: File) -> Iterator[KeyChange]:
    ours, theirs = (
        {entry.key: entry for entry in reversed(list(file.metadata.rows)) if entry.name != ALIGNMENT} for file in (a, b)
    )
    for key in sorted({*ours, *theirs}):
        one, other = ours.get(key), theirs.get(key)
        data = None
        if one is not None and other is not None:
            data = first_difference(canonical_value(a, one), canonical_value(b, other))
            if data is None:
                continue
        entry = one or other
        assert entry is not None
        yield KeyChange(
            entry.name,
            None if one is None else _beginning(a, one),
            None if other is None else _beginning(b, other),
            None if one is None else one.label,
            None if other is None else other.label,
            data,
        )


def _beginning(file: File, entry: KeyValue) -> Any:
    """Return a value, or the start of it: strings as bytes, arrays as lists that end with `...` where there is more."""
    value, whole = beginning(file, entry, ELEMENTS)
    return [*value, ...] if isinstance(value, list) and not whole else value


def _compared(
    a: File, ours: Tensor, dialect_a: str | Dialect, b: File, theirs: Tensor, dialect_b: str | Dialect, threads: int
) -> tuple[TensorChange, TensorLineage | None]:
    name = ours.raw_name
    if lengths(ours) != lengths(theirs):
        types = (ours.kind, theirs.kind)
        shapes = (ours.shape, theirs.shape)
        return TensorChange(name, "nothing", ours.shape, shapes, types if types[0] != types[1] else None), None
    type_ = (ours.kind, theirs.kind) if ours.type != theirs.type or ours.number != theirs.number else None
    # Floats of one type are compared as they are: looking whether they are ternary would cost as much.
    if type_ is not None or ours.kind in {"I2_S", "TQ1_0", "TQ2_0"}:
        one, other = as_trits(a, ours, dialect_a), as_trits(b, theirs, dialect_b)
        if one is not None and other is not None:
            trits, (rows, zero_a, zero_b, both) = _differing_trits(one, other, ours.shape, threads)
            changed = 0 if trits is None else trits[0]
            lineage = TensorLineage(name, rows, ours.elements, changed, zero_a, zero_b, both)
            scales = (float(one.scale), float(other.scale)) if one.scale.tobytes() != other.scale.tobytes() else None
            return TensorChange(name, "trits", ours.shape, None, type_, trits, scales), lineage
        if type_ is not None and (weights := _differing_weights(ours, dialect_a, theirs, dialect_b)) is not None:
            change = TensorChange(name, "weights", ours.shape, None, type_, weights.trits, weights=weights.weights)
            return change, None
        if type_ is not None:
            try:
                readers = weight_reader(a, ours, dialect_a), weight_reader(b, theirs, dialect_b)
                if readers[0] is not None and readers[1] is not None:
                    values = differing_values(readers[0], readers[1], ours.elements)
                    return TensorChange(name, "values", ours.shape, None, type_, weights=values), None
            except FormatError:
                raise
            except ValueError:  # codes and scales that stand for nothing, types that the extra does not decode
                pass
            except MissingExtra as error:
                return TensorChange(name, "nothing", ours.shape, None, type_, how=str(error)), None
    if type_ is not None or words_known(a, ours) != words_known(b, theirs):
        types = type_ or (ours.kind, f"{theirs.kind} of other byte order")
        return TensorChange(name, "nothing", ours.shape, None, types), None
    data = first_difference(canonical_data(a, ours), canonical_data(b, theirs))
    return TensorChange(name, "bytes", ours.shape, data=data), None


def _differing_weights(
    ours: Tensor, dialect_a: str | Dialect, theirs: Tensor, dialect_b: str | Dialect
) -> Differing | None:
    """Compare tensors of two types of which one has many scales; None where they cannot be compared."""

    try:
        one, other = ours.ternary(dialect_a), theirs.ternary(dialect_b)
        return differing(one, other) if comparable(one, other) else None
    except FormatError:
        raise
    except ValueError:  # no ternary type, or codes and scales that stand for nothing
        return None


def _differing_trits(
    one: Trits, other: Trits, shape: tuple[int, ...], threads: int
) -> tuple[tuple[int, int] | None, tuple[int, int, int, int]]:
    """Return how many elements have another code, and the first of them; rows, all-zero ones of A, of B, and of both."""
    cols = shape[-1] if shape else 1
    zeros = [ZeroRows(prod(shape) // max(1, cols), cols) for _ in range(2)]
    count, first, at = 0, None, 0
    for ours, theirs in paired(packed_codes(one, threads), packed_codes(other, threads)):
        for found, codes in zip(zeros, (ours, theirs), strict=True):
            found.add(codes)
        if ours != theirs:
            odd = np.frombuffer(ours, dtype=np.uint8) ^ np.frombuffer(theirs, dtype=np.uint8)
            odd = (odd | odd >> np.uint8(1)) & np.uint8(0x55)  # a bit for each code
            count += int(np.bitwise_count(odd).sum())
            if first is None:
                byte = int((odd != 0).argmax())
                code = int(odd[byte])
                first = 4 * (at + byte) + ((code & -code).bit_length() - 1) // 2
        at += len(ours)
    before, after = (found.found() for found in zeros)
    zero_a, zero_b, both = (int(np.count_nonzero(zero)) for zero in (before, after, before & after))
    return None if first is None else (count, first), (before.size, zero_a, zero_b, both)


def _is_most(change: TensorChange, tensor: Tensor) -> bool:
    """Whether so much of a tensor differs that it may be another one, or was distorted."""
    if change.trits is not None:
        return change.trits[0] > CHANGED * tensor.elements
    return change.data is not None and change.data[0] > CHANGED * tensor.nbytes


def _tails(ours: Tensor, theirs: Tensor) -> TailChange | None:
    """Return how the tails of two tensors differ after the scale; None where they do not, or where one has none."""
    if any(tensor.type is None or tensor.type.name != "I2_S" for tensor in (ours, theirs)):
        return None
    before, after = ours.tail, theirs.tail
    if before[4:] == after[4:]:
        return None
    from i2s_spec.codec.observation import classify

    kinds = classify(before), classify(after)
    return None if kinds[0] == kinds[1] == "replicated" else TailChange(ours.raw_name, *kinds)


# --- decoded weights -------------------------------------------------------------------------------------------------
# Ternary tensors that have no common scale: their trits, and the weights that these stand for.


class Differing(NamedTuple):
    """How many trits and weights differ, with the first element of each; None where all are equal."""

    trits: tuple[int, int] | None
    weights: tuple[int, int] | None


def comparable(one: Trits, other: Trits) -> bool:
    """Whether both are I2_S or a type with a scale for each group, or row; floats would have to be exactly ternary."""
    return all(each.encoding.type == "I2_S" or each.encoding.type in BLOCK_TYPES for each in (one, other))


def differing(one: Trits, other: Trits) -> Differing:
    """Compare two tensors of as many elements, a window at a time.

    :raises ValueError: where one holds a code that stands for no trit, or a scale that is not a number
    :raises FormatError: where a file does not hold its tensor
    """
    unit = lcm(one.encoding.unit, other.encoding.unit)
    step = max(WINDOW // unit, 1) * unit
    counts, firsts = [0, 0], [0, 0]
    for start in range(0, one.encoding.elements, step):
        stop = min(start + step, one.encoding.elements)
        both: Any = zip(_window(one, start, stop), _window(other, start, stop), strict=True)
        for what, (ours, theirs) in enumerate(both):
            odd = ours != theirs
            if found := int(np.count_nonzero(odd)):
                if not counts[what]:
                    firsts[what] = start + int(odd.argmax())
                counts[what] += found
    trits, weights = ((count, first) if count else None for count, first in zip(counts, firsts, strict=True))
    return Differing(trits, weights)


def _window(tensor: Trits, start: int, stop: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the trits of a window, and its weights."""
    form = tensor.encoding
    data = tensor.fetch(form.byte(start), form.byte(stop))
    trits = form.decode(data, stop - start, tensor.unused).trits
    if form.type == "I2_S":
        with np.errstate(invalid="ignore"):  # 0 times an infinite scale
            return trits, trits * tensor.scale
    from i2s_spec.codec import blocks_native

    weights = blocks_native.dequantize(data, form.matrix(stop - start), form.type, byte_order=form.byte_order)
    return trits, weights.reshape(-1)


class WeightReader(NamedTuple):
    """The weights of a tensor: `read` gives those of a range of flat elements whose ends are multiples of `unit`, or the
    end, as float32."""

    unit: int
    read: Callable[[int, int], NDArray[np.float32]]


def weight_reader(file: File, tensor: Tensor, dialect: str | Dialect) -> WeightReader | None:
    """Return the weights of a tensor of floats, of a ternary type, or of another quantized type; None for other types.

    :raises FormatError: where the file does not hold the tensor
    """
    from i2s_spec.compare.tensor_rows import float_reader

    name = tensor.kind
    if name in quantized.TYPES:
        kind, span = BY_NAME[name], tensor.span
        tensor.require(span)

        def read(start: int, stop: int) -> NDArray[np.float32]:
            first, last = (edge // kind.block * kind.bytes for edge in (start, stop))
            return quantized.dequantize(file.source.read(span.start + first, last - first), name, file.byte_order)

        return WeightReader(kind.block, read)
    floats = float_reader(file, tensor)
    if floats is not None:
        return WeightReader(1, floats)
    try:
        trits = tensor.ternary(dialect)
    except FormatError:
        raise
    except ValueError:  # no ternary type
        return None
    return WeightReader(trits.encoding.unit, lambda start, stop: _window(trits, start, stop)[1])


def differing_values(one: WeightReader, other: WeightReader, elements: int) -> tuple[int, int] | None:
    """Return how many weights of two tensors differ, and the first; None where all are equal. A NaN is equal to another.

    :raises MissingExtra: for a quantized type that is not ternary, without the extra `[gguf]`
    """
    unit = lcm(one.unit, other.unit)
    step = max(quantized.WINDOW // unit, 1) * unit
    count, first = 0, None
    for start in range(0, elements, step):
        stop = min(start + step, elements)
        ours, theirs = one.read(start, stop), other.read(start, stop)
        odd = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
        if found := int(np.count_nonzero(odd)):
            first = start + int(odd.argmax()) if first is None else first
            count += found
    return None if first is None else (count, first)


# --- byte streams ----------------------------------------------------------------------------------------------------
# Bytes that come in parts, cut differently on either side, compared without holding more than a part.


def first_difference(one: Iterable[bytes], other: Iterable[bytes]) -> tuple[int, int] | None:
    """Return how many bytes differ, and the first of them; what only one has differs too."""
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
    """Yield the parts of two streams cut where either ends, so that each pair is of one length but for the last
    ones.
    """
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


# --- other tensors ---------------------------------------------------------------------------------------------------
# The explanation of a changed tensor: it is another tensor of the file, or the same one in another layout.

#: How often, for all of these together, a tensor is compared with another one of its shape: small files hold thousands.
OTHERS: Final = 1 << 13


class OtherTensors:
    """The tensors of a file by shape, for whoever asks which of them another one is; `OTHERS` are given in all."""

    def __init__(self, file: File, dialect: str | Dialect) -> None:
        self.file = file
        self.dialect = dialect
        self._left = OTHERS

    @cached_property
    def _places(self) -> dict[tuple[int, ...], list[int]]:
        places: dict[tuple[int, ...], list[int]] = {}
        for tensor in self.file.tensors.values():
            places.setdefault(tensor.shape, []).append(tensor.index)
        return places

    def than(self, tensor: Tensor) -> Iterator[tuple[str, Rows]]:
        """Yield the tensors of a tensor's shape under other names."""
        from i2s_spec.compare.tensor_rows import rows_of

        for place in self._places.get(tensor.shape, ()):
            other = self.file.tensors.by_index(place)
            if other.name == tensor.name:
                continue
            if not self._left:
                return
            self._left -= 1
            try:
                yield other.name, rows_of(self.file, other, self.dialect)
            except (FormatError, ValueError):
                continue


def what_it_is(others: OtherTensors, ours: Tensor, b: File, theirs: Tensor, dialect_b: str | Dialect) -> str:
    """Explain how B's tensor was made from A's tensors, in words; empty where nothing explains it."""
    from i2s_spec.compare.explanation import explanation
    from i2s_spec.compare.tensor_rows import rows_of

    try:
        right, wrong = rows_of(others.file, ours, others.dialect), rows_of(b, theirs, dialect_b)
        for side, file, odd, read_as, known in (
            ("B", b, theirs, dialect_b, right),
            ("A", others.file, ours, others.dialect, wrong),
        ):
            if odd.type is I2_S and (packed := _packed_as(file, odd, parse(read_as), known)):
                return f"{side} is packed as {packed}"
        return explanation(wrong, right, lambda: others.than(ours))
    except (FormatError, ValueError):  # types that hold neither trits nor floats
        return ""


def _packed_as(file: File, tensor: Tensor, read_as: Dialect, known: Rows) -> str:
    """Return the other layout or code map in which an I2_S tensor has the trits that are known; empty where none has
    them.
    """
    if known.tolerance:  # floats
        return ""
    best = matched(file, tensor, known.read(0, rows_compared(tensor)), None).decided
    if best is None:
        return ""
    if best.dialect.layout != read_as.layout:
        return f"{best.dialect}: another layout"
    return f"{best.dialect}: another code map" if best.dialect.code_map != read_as.code_map else ""


# --- other dialect ---------------------------------------------------------------------------------------------------
# Whether two files hold the same weights once one of them is read in another dialect.
#
# No file states how its I2_S tensors are packed. Where trits differ, the first such tensor is read in every dialect; if
# one of them explains it, the files are compared once more in that dialect.


class OtherDialect(NamedTuple):
    """The file (`a` or `b`) that holds the weights of the other one in a dialect, and how many tensors differ even so."""

    side: str
    dialect: str
    left: int


def other_dialect(
    a: File,
    b: File,
    found: Difference,
    dialect_a: str | Dialect = "canonical",
    dialect_b: str | Dialect = "canonical",
    threads: int = 1,
) -> OtherDialect | None:
    """Return the dialect in which one of two files must be read for fewer trits to differ; None where none explains it.

    :param found: their difference, read in `dialect_a` and `dialect_b`
    :param threads: how many threads decode
    :raises FormatError: where a file changes meanwhile
    """
    read = {"a": (a, parse(dialect_a)), "b": (b, parse(dialect_b))}
    differ = sum(change.trits is not None for change in found.tensors)
    for change in found.tensors:
        name = change.name.decode("utf-8", "surrogateescape")
        ours, theirs = a.tensors[name], b.tensors[name]
        if change.trits is None or change.trits[0] <= CHANGED * ours.elements:
            continue
        for side, odd, right in (("b", theirs, ours), ("a", ours, theirs)):
            file, packed = read[side]
            other, known = read["a" if side == "b" else "b"]
            trits = _trits(other, right, known) if odd.type is I2_S else None
            if trits is None:
                continue
            match = matched(file, odd, trits[: rows_compared(odd)], None)
            best = match.decided
            if best is None or (best.dialect.layout, best.dialect.code_map) == (packed.layout, packed.code_map):
                continue
            wanted = Dialect(best.dialect.layout, best.dialect.code_map, packed.tail)
            dialects = {"a": dialect_a, "b": dialect_b, side: wanted}
            again = diff(a, b, dialects["a"], dialects["b"], threads=threads)
            left = sum(change.trits is not None for change in again.tensors)
            return OtherDialect(side, str(wanted), left) if left < differ else None
        return None  # the first tensor of which most differs decides
    return None


def _trits(file: File, tensor: Tensor, dialect: Dialect) -> NDArray[np.int8] | None:
    """Return the trits of a tensor as rows; None where it holds none."""
    try:
        trits = tensor.trits(dialect) if tensor.type is I2_S else None
    except (FormatError, ValueError):
        file.require_unchanged()
        return None
    return None if trits is None else trits.reshape(-1, tensor.shape[-1])
