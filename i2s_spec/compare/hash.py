r"""The identity of files, metadata and weights: a SHA-256 of what they mean, in a form that anyone can make.

`uN` is an unsigned little-endian integer of N bits, `text` a u64 count of bytes and the bytes. What is hashed:

    metadata  "i2s-metadata-1\n", u64 number of keys, then the keys sorted by their bytes: text key, u32 type, value, as
              in a little-endian GGUF file (clauses 2.4, 2.5). `general.alignment` is left out: it says where tensors
              lie, not what they are.
    tensor    "i2s-tensor-1\n", text name, u32 number of dimensions, u64 each of them in ggml's order (ne0 first;
              lengths of 1 at the end left out, but not the last that is left), text kind, then by kind:
              "ternary"  the codes, four to a byte: trit + 1 of flat element k in bits 2*(k % 4) of byte k // 4, 3 for
                         the unused code; then the float32 scale, 4 bytes
              TYPE       the data as in a little-endian file, where TYPE is the name of its type (a big-endian file's
                         Q5_0, Q5_1, Q3_K and IQ types are hashed as they are, with " big-endian" after TYPE)
    weights   "i2s-weights-1\n", u64 number of tensors, then the tensors sorted by the bytes of their names: the 32
              bytes of each one's digest

A tensor is "ternary" if it is I2_S, or if it has two dimensions or more and is TQ1_0, TQ2_0, F32, F16 or BF16 with
weights -s, 0 and +s only. So layout, code map, tail, byte order, order of tensors, padding and metadata do not count,
and neither does the type, as long as it holds the same scale. An I2_S tensor of slices, or with an incomplete last
block, is of kind TYPE: nobody can say which trits it holds.

Of a split model, `hash` gives the identities that the whole model has as one file.

`canonical_value` and `canonical_data` give the form that is hashed, `read_fingerprint` the all-zero rows that were kept
of a file.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

import numpy as np

from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.native import pack_trits, recode
from i2s_spec.compare.lineage import ZeroRows, rows_of_runs, runs
from i2s_spec.errors import FormatError, SettingError, counted, quote
from i2s_spec.gguf import byte_order
from i2s_spec.gguf.reader import File, KeyValue, Tensor, takes_file
from i2s_spec.gguf.source import chunks, require_written
from i2s_spec.gguf.split_set import TYPES, SplitSet, split_set
from i2s_spec.schema.dialect import Dialect, parse
from i2s_spec.schema.types import ValueType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.codec.encoding import Trits
    from i2s_spec.compare.lineage import Fingerprint
    from i2s_spec.gguf.source import Origin

#: The key that says where tensors lie, not what they are.
ALIGNMENT: Final = b"general.alignment"

#: Key-values of no more bytes are read at once.
MOST_AT_ONCE: Final = 1 << 24

#: Called with (bytes looked at, bytes to look at).
Progress = Callable[[int, int], object]


class TensorIdentity(NamedTuple):
    """One tensor: its name, its shape in NumPy's order, `ternary` or its type, its digest, its scale if it is ternary.

    `zero_rows` says of each row of a ternary tensor whether it is all zero, where that was asked for.
    """

    name: bytes
    shape: tuple[int, ...]
    kind: str
    digest: str
    scale: float | None
    zero_rows: NDArray[np.bool_] | None = None


class Identity(NamedTuple):
    """The identities of a file, as hexadecimal SHA-256."""

    file: str
    metadata: str
    weights: str
    tensors: tuple[TensorIdentity, ...]
    #: Of the first part of a split model: the identities of the files of all parts, in order.
    parts: tuple[str, ...] = ()

    @property
    def zero_rows(self) -> Fingerprint:
        """The all-zero rows of the ternary tensors, where they were asked for."""
        return {each.name: each.zero_rows for each in self.tensors if each.zero_rows is not None}


@takes_file
def hash(
    file: Origin,
    dialect: str | Dialect = "canonical",
    *,
    threads: int = 1,
    progress: Progress | None = None,
    lineage: bool = False,
) -> Identity:
    """Return the identities of a file, of its metadata and of its weights, as `i2s hash` prints them: hexadecimal
    SHA-256.

        found = i2s.hash("model.gguf")
        found.weights == i2s.hash("copy.gguf").weights  # the same trits and scales, however they are packed

    The first part of a split model, with the others beside it, stands for the whole model.

    :param file: a `File`, or an argument of `open`
    :param dialect: of the I2_S tensors, which the file does not say
    :param threads: how many threads decode
    :param progress: called now and then with (bytes looked at, bytes to look at)
    :param lineage: note the all-zero rows of ternary tensors, too
    :raises FormatError: for a file with a fault, and where it does not hold a tensor whole
    :raises ValueError: for a dialect that does not exist, or whose tail the tensors do not have; for tensors that share
        so many bytes that they are larger than the file
    """
    whole = split_set(file)
    if whole is not None and whole.is_whole:
        return _of_set(whole, dialect, threads, progress, lineage)
    return _of_file(file, dialect, threads, progress, lineage)


def _of_file(file: File, dialect: str | Dialect, threads: int, progress: Progress | None, lineage: bool) -> Identity:
    """Return the identities of one file alone, with the parameters and errors of `hash`."""
    tensors, size = _sorted(file)
    reported = _counter(progress, file.size + size)
    whole = hashlib.sha256()
    for chunk in chunks(file.source, 0, file.size):
        whole.update(chunk)
        reported(len(chunk))
    found = tuple(_each(file, tensors, dialect, threads, reported, lineage))
    return Identity(whole.hexdigest(), metadata_digest(file), _combined(len(found), found), found)


def _of_set(
    whole: SplitSet, dialect: str | Dialect, threads: int, progress: Progress | None, lineage: bool
) -> Identity:
    """Return the identities of a split model that `is_whole`, with the parameters and errors of `hash`: metadata and
    weights are those of the file that its parts would make together.

    The keys about splitting are left out of the metadata, and only the first part has others. `file` is of the first
    part, `parts` of each.
    """
    each = [_of_file(file, dialect, threads, progress, lineage) for file in whole.files()]
    tensors = tuple(sorted((tensor for part in each for tensor in part.tensors), key=lambda tensor: tensor.name))
    metadata = metadata_digest(whole.file, frozenset((ALIGNMENT, *TYPES)))
    weights = _combined(len(tensors), tensors)
    return Identity(each[0].file, metadata, weights, tensors, tuple(part.file for part in each))


def weights_digest(
    file: File, dialect: str | Dialect = "canonical", threads: int = 1, progress: Progress | None = None
) -> str:
    """Return the identity of the weights alone, with the parameters and errors of `hash`: only the tensors are read."""
    tensors, size = _sorted(file)
    return _combined(len(tensors), _each(file, tensors, dialect, threads, _counter(progress, size), lineage=False))


def _sorted(file: File) -> tuple[list[Tensor], int]:
    """Return the tensors by name, those of one name in the order of the table; and the bytes of all of them."""
    if file.fault is not None:
        raise file.fault
    tensors = sorted(file.tensors.rows, key=lambda tensor: tensor.raw_name)
    return tensors, require_own_bytes(file, tensors)


def _counter(progress: Progress | None, total: int) -> Callable[[int], object]:
    """Return a function that adds up the numbers of bytes that were read, and reports their sum."""
    done = 0

    def reported(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    return reported


def _each(
    file: File,
    tensors: list[Tensor],
    dialect: str | Dialect,
    threads: int,
    reported: Callable[[int], object],
    lineage: bool,
) -> Iterator[TensorIdentity]:
    dialect = parse(dialect)  # once, and not for each of many tensors
    return (tensor_identity(file, tensor, dialect, threads, reported, lineage) for tensor in tensors)


def _combined(count: int, tensors: Iterable[TensorIdentity]) -> str:
    """Return the identity of all tensors, from their own."""
    weights = hashlib.sha256(b"i2s-weights-1\n" + _u64(count))
    for each in tensors:
        weights.update(bytes.fromhex(each.digest))
    return weights.hexdigest()


def metadata_digest(file: File, left_out: Collection[bytes] = (ALIGNMENT,)) -> str:
    """Return the identity of the keys and values of a file.

    :param left_out: keys that do not count
    """
    entries = [entry for entry in file.metadata.rows if entry.name not in left_out]
    digest = hashlib.sha256(b"i2s-metadata-1\n" + _u64(len(entries)))
    end = max((entry.stop for entry in entries), default=0)
    header = file.source.read(0, end) if file.byte_order == "little" and end <= MOST_AT_ONCE else b""
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.index)):
        digest.update(_text(entry.name))
        # A read for each of many keys would take longer than the rest.
        if header and ValueType.BOOL not in (entry.type, entry.element):
            digest.update(header[entry.type_span.start : entry.stop])
            continue
        for part in canonical_value(file, entry):
            digest.update(part)
    return digest.hexdigest()


def tensor_identity(
    file: File,
    tensor: Tensor,
    dialect: str | Dialect = "canonical",
    threads: int = 1,
    reported: Callable[[int], object] = lambda count: None,
    lineage: bool = False,
) -> TensorIdentity:
    """Return the identity of one tensor.

    :param reported: called with numbers of bytes that were looked at
    :param lineage: note the all-zero rows of a ternary tensor, too
    """
    digest = hashlib.sha256(_head(tensor))
    trits = as_trits(file, tensor, dialect)
    if trits is None:
        kind = tensor.kind + ("" if words_known(file, tensor) else " big-endian")
        digest.update(_text(kind.encode()))
        for part in canonical_data(file, tensor):
            digest.update(part)
            reported(len(part))
        return TensorIdentity(tensor.raw_name, tensor.shape, kind, digest.hexdigest(), None)
    digest.update(_TERNARY)
    rows = _empty_rows(tensor) if lineage else None
    for codes in packed_codes(trits, threads):
        digest.update(codes)
        if rows is not None:
            rows.add(codes)
        reported(min(4 * len(codes), tensor.elements) * tensor.nbytes // tensor.elements)
    digest.update(trits.scale.tobytes() if sys.byteorder == "little" else trits.scale.tobytes()[::-1])
    zero_rows = None if rows is None else rows.found()
    return TensorIdentity(tensor.raw_name, tensor.shape, "ternary", digest.hexdigest(), float(trits.scale), zero_rows)


def _head(tensor: Tensor) -> bytes:
    """Return the bytes that are hashed before the kind of a tensor: its name and its dimensions."""
    ne = lengths(tensor)
    return b"i2s-tensor-1\n" + _text(tensor.raw_name) + struct.pack(f"<I{len(ne)}Q", len(ne), *ne)


def _empty_rows(tensor: Tensor) -> ZeroRows:
    """Return the collector of a tensor's all-zero rows."""
    cols = tensor.shape[-1] if tensor.shape else 1
    return ZeroRows(tensor.elements // max(1, cols), cols)


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _text(data: bytes) -> bytes:
    return _u64(len(data)) + data


_TERNARY: Final = _text(b"ternary")


# --- canonical -------------------------------------------------------------------------------------------------------
# Keys and tensors in one form, whatever the file's byte order, layout and types: for hashes and diffs.
#
# Values and data come as a little-endian file has them. A ternary tensor comes as codes, as above.

#: The form of ternary tensors, as a layout.
LAYOUT: Final = "sequential-lsb"
_CODES: Final = parse(LAYOUT)

#: Types other than I2_S that a matrix may be ternary in.
_PERHAPS_TERNARY: Final = ("I2_SR", "TQ1_0", "TQ2_0", "F32", "F16", "BF16")


#: A bool is true whatever its byte is, unless that is 0.
_TRUTH: Final = bytes([0, *[1] * 255])


def canonical_value(file: File, entry: KeyValue) -> Iterator[bytes]:
    """Yield the type and value of a key: u32 type, then the value with lengths and element types (clause 2.5)."""
    if file.byte_order == "little":
        data = chunks(file.source, entry.type_span.start, entry.stop)
    else:
        data = byte_order.swapped_value(file.source, entry, file.byte_order)
    if ValueType.BOOL not in (entry.type, entry.element):
        yield from data
        return
    head = 4 if entry.type == ValueType.BOOL else 16  # type; and of an array also the elements' type and number
    for part in data:
        yield bytes(part[:head]) + bytes(part[head:]).translate(_TRUTH)
        head = max(0, head - len(part))


def as_trits(file: File, tensor: Tensor, dialect: str | Dialect = "canonical") -> Trits | None:
    """Return a tensor as trits: I2_S, and a matrix of another type that is exactly ternary; None for all others.

    :param dialect: of I2_S
    :raises ValueError: for a dialect that does not exist, or whose tail the tensor does not have
    :raises FormatError: where the file does not hold the tensor
    """
    if isinstance(dialect, str):
        dialect = parse(dialect)
    name = tensor.type.name if tensor.type is not None else None
    if name != "I2_S" and (name not in _PERHAPS_TERNARY or len(lengths(tensor)) < 2):
        return None
    try:
        trits = tensor.ternary(dialect)
        if not trits.has_one_scale():
            return None
    except FormatError:
        raise
    except ValueError:
        return None
    return trits


def packed_codes(trits: Trits, threads: int = 1) -> Iterator[bytes]:
    """Return the codes of a ternary tensor in the one form; what does not fill the last byte is 0."""
    form = trits.encoding
    if form.type == "I2_S":

        def recoded(data: bytes) -> bytes:
            result: bytes = recode(data, form.matrix(4 * len(data)), form.dialect, _CODES)
            return result

        return in_order(recoded, trits.payload(4), threads)

    def packed(part: Any) -> bytes:
        filled = np.concatenate([part, np.full(-part.size % 4, -1, dtype=np.int8)]) if part.size % 4 else part
        result: bytes = pack_trits(filled.reshape(1, -1), _CODES)
        return result

    return trits.mapped(packed, threads, 4)


def canonical_data(file: File, tensor: Tensor) -> Iterator[bytes]:
    """Return the data of a tensor as a little-endian file has it; as it is, where `words_known` says no."""
    span = tensor.span
    tensor.require(span)
    if file.byte_order == "little" or not words_known(file, tensor):
        return chunks(file.source, span.start, span.stop)
    return byte_order.swapped_data(file.source, tensor)()


def words_known(file: File, tensor: Tensor) -> bool:
    """Whether `canonical_data` can be given: not for a big-endian file's types whose words nobody has written down."""
    return file.byte_order == "little" or byte_order.words_known(tensor.type)


def require_own_bytes(file: File, tensors: Iterable[Tensor]) -> int:
    """Refuse a file that cannot be read whole in reasonable time: one of holes, or whose tensors are larger than it is,
    which only bytes of several tensors make possible.

    Whoever reads each tensor whole would need time that grows with the square of the file's size.

    :param tensors: all tensors of the file
    :returns: bytes of all tensors
    :raises FormatError: for a tensor that the file does not hold whole, or whose size is not known
    :raises SettingError: for such a file
    """
    require_written(file.source)
    total = 0
    for tensor in tensors:
        span = tensor.span
        tensor.require(span)
        total += span.stop - span.start
    if total > file.size:
        raise SettingError(
            f"tensors share bytes (G404): they have {counted(total, 'byte')}, and the file has {file.size:,}"
        )
    return total


def lengths(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape in ggml's order without lengths of 1 at its end, which writers may leave out; at least one."""
    ne = tensor.ne
    while len(ne) > 1 and ne[-1] == 1:
        ne = ne[:-1]
    return ne


# --- fingerprint -----------------------------------------------------------------------------------------------------
# The all-zero rows of a file as JSON: what `i2s hash --lineage --json` prints, and reads back.
#
# Of that document a reader needs `tensors`, a list of objects with `name`, `rows` and `zero_rows`: runs of all-zero
# rows, each the first and the first behind it. All else in it is left alone.

#: Bytes of a document that are read, and rows of all its tensors: 27B models have 3 million rows.
MOST_BYTES: Final = 64 << 20
MOST_ROWS: Final = 1 << 28


def zero_row_data(tensor: TensorIdentity) -> dict[str, Any]:
    """Return the all-zero rows of a tensor as plain data; empty for one that is not ternary."""
    if tensor.zero_rows is None:
        return {}
    return {"rows": tensor.zero_rows.size, "zero_rows": runs(tensor.zero_rows)}


def read_fingerprint(data: bytes) -> Fingerprint:
    """Return the all-zero rows that a document holds.

    :raises ValueError: for what no `i2s hash --lineage --json` has printed
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    tensors = document.get("tensors") if isinstance(document, dict) else None
    if not isinstance(tensors, list):
        raise ValueError("it has no list of tensors")
    found: Fingerprint = {}
    left = MOST_ROWS
    for each in tensors:
        if not isinstance(each, dict) or "zero_rows" not in each:
            continue
        name, rows, zero = name_bytes(each.get("name")), each.get("rows"), each["zero_rows"]
        if name is None or not _is_count(rows) or not isinstance(zero, list):
            raise ValueError("a tensor lacks its name, its rows or the runs of all-zero rows")
        left -= rows
        if left < 0:
            raise ValueError(f"its tensors have more than {MOST_ROWS:,} rows")
        at = 0
        for run in zero:
            if not (
                isinstance(run, list) and len(run) == 2 and all(map(_is_count, run)) and at <= run[0] < run[1] <= rows
            ):
                raise ValueError(f"the runs of all-zero rows of {quote(name)} do not follow each other")
            at = run[1]
        found[name] = rows_of_runs(rows, zero)
    if not found:
        raise ValueError("it has no all-zero rows of any tensor: made without --lineage?")
    return found


def name_bytes(value: object) -> bytes | None:
    """Return the bytes of a name as `json_string` writes it: text, or hexadecimal digits where they are not UTF-8."""
    try:
        if isinstance(value, dict):
            return bytes.fromhex(value["hex"])
        return value.encode("utf-8") if isinstance(value, str) else None
    except (KeyError, TypeError, ValueError):
        return None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
