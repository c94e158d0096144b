"""This module gives files, metadata and weights an identity: a SHA-256 of what they mean, in a form that anyone can make.

`uN` is an unsigned little-endian integer of N bits, `text` a u64 count of bytes and the bytes. What is hashed:

    metadata  "i2s-metadata-1\\n", u64 number of keys, then the keys sorted by their bytes: text key, u32 type, value, as in
              a little-endian GGUF file (clauses 2.4, 2.5). `general.alignment` is left out: it says where tensors lie,
              not what they are.
    tensor    "i2s-tensor-1\\n", text name, u32 number of dimensions, u64 each of them in ggml's order (ne0 first; lengths
              of 1 at the end left out, but not the last that is left), text kind, then by kind:
              "ternary"  the codes, four to a byte: trit + 1 of flat element k in bits 2*(k % 4) of byte k // 4, 3 for
                         the unused code; then the float32 scale, 4 bytes
              TYPE       the data as in a little-endian file, where TYPE is the name of its type (a big-endian file's
                         Q5_0, Q5_1, Q3_K and IQ types are hashed as they are, with " big-endian" after TYPE)
    weights   "i2s-weights-1\\n", u64 number of tensors, then the tensors sorted by the bytes of their names: the 32 bytes
              of each one's digest

A tensor is "ternary" if it is I2_S, or if it has two dimensions or more and is TQ1_0, TQ2_0, F32, F16 or BF16 with weights
-s, 0 and +s only. So layout, code map, tail, byte order, order of tensors, padding and metadata do not count, and neither
does the type, as long as it holds the same scale. An I2_S tensor of slices, or with an incomplete last block, is of kind
TYPE: nobody can say which trits it holds.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.gguf.ranges import chunks
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.inspect.compare.canonical import (
    as_trits,
    canonical_data,
    canonical_value,
    lengths,
    packed_codes,
    require_own_bytes,
    type_name,
    words_known,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.inspect.compare.lineage import Fingerprint, ZeroRows
    from i2s_spec.inspect.compare.small_tensors import SmallTensor
    from i2s_spec.schema.dialect import Dialect

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

    @property
    def zero_rows(self) -> Fingerprint:
        """The all-zero rows of the ternary tensors, where they were asked for."""
        return {each.name: each.zero_rows for each in self.tensors if each.zero_rows is not None}


def identity(
    file: File,
    dialect: str | Dialect = "canonical",
    threads: int = 1,
    progress: Progress | None = None,
    lineage: bool = False,
) -> Identity:
    """The identities of a file, of its metadata and of its weights.

    :param dialect: of the I2_S tensors, which the file does not say
    :param threads: how many threads decode
    :param progress: called now and then with (bytes looked at, bytes to look at)
    :param lineage: note the all-zero rows of ternary tensors, too
    :raises FormatError: for a file with a fault, and where it does not hold a tensor whole
    :raises ValueError: for a dialect that does not exist, or whose tail the tensors do not have; for tensors that share
        so many bytes that they are larger than the file
    """
    tensors, size = _sorted(file)
    reported = _counter(progress, file.size + size)
    whole = hashlib.sha256()
    for chunk in chunks(file.source, 0, file.size):
        whole.update(chunk)
        reported(len(chunk))
    found = tuple(_each(file, tensors, dialect, threads, reported, lineage))
    return Identity(whole.hexdigest(), metadata_digest(file), _combined(len(found), found), found)


def weights_digest(
    file: File, dialect: str | Dialect = "canonical", threads: int = 1, progress: Progress | None = None
) -> str:
    """The identity of the weights alone, with the parameters and errors of `identity`: only the tensors are read."""
    tensors, size = _sorted(file)
    return _combined(len(tensors), _each(file, tensors, dialect, threads, _counter(progress, size), lineage=False))


def _sorted(file: File) -> tuple[list[Tensor], int]:
    """The tensors by name, those of one name in the order of the table; and the bytes of all of them."""
    if file.fault is not None:
        raise file.fault
    tensors = sorted(file.tensors.rows, key=lambda tensor: tensor.raw_name)
    return tensors, require_own_bytes(file, tensors)


def _counter(progress: Progress | None, total: int) -> Callable[[int], object]:
    """What adds up numbers of bytes that were looked at, and says how many they are."""
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
    from i2s_spec.inspect.compare.small_tensors import parts, small_tensors
    from i2s_spec.schema.dialect import parse

    dialect = parse(dialect)  # once, and not for each of many tensors
    for part in parts(tensors):
        for tensor, small in zip(part, small_tensors(file, part, dialect, floats=True), strict=True):
            if small is None:
                yield tensor_identity(file, tensor, dialect, threads, reported, lineage)
            else:
                yield _small_identity(tensor, small, lineage)
                reported(tensor.nbytes)


def _small_identity(tensor: Tensor, small: SmallTensor, lineage: bool) -> TensorIdentity:
    """What `tensor_identity` says, of a tensor whose codes were read with those of others."""
    digest = hashlib.sha256(b"".join((_head(tensor), _TERNARY, small.codes, small.scale))).hexdigest()
    zero_rows = None
    if lineage:
        rows = _empty_rows(tensor)
        rows.add(small.codes)
        zero_rows = rows.found()
    return TensorIdentity(tensor.raw_name, tensor.shape, "ternary", digest, small.number, zero_rows)


def _combined(count: int, tensors: Iterable[TensorIdentity]) -> str:
    """The identity of all tensors, from their own."""
    weights = hashlib.sha256(b"i2s-weights-1\n" + _u64(count))
    for each in tensors:
        weights.update(bytes.fromhex(each.digest))
    return weights.hexdigest()


def metadata_digest(file: File) -> str:
    """The identity of the keys and values of a file."""
    entries = [entry for entry in file.metadata.rows if entry.name != ALIGNMENT]
    digest = hashlib.sha256(b"i2s-metadata-1\n" + _u64(len(entries)))
    end = max((entry.stop for entry in entries), default=0)
    header = file.source.read(0, end) if file.byte_order == "little" and end <= MOST_AT_ONCE else b""
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.index)):
        digest.update(_text(entry.name))
        if header:  # a read for each of many keys would take longer than the rest
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
    """The identity of one tensor.

    :param reported: called with numbers of bytes that were looked at
    :param lineage: note the all-zero rows of a ternary tensor, too
    """
    digest = hashlib.sha256(_head(tensor))
    trits = as_trits(file, tensor, dialect)
    if trits is None:
        kind = type_name(tensor) + ("" if words_known(file, tensor) else " big-endian")
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
    digest.update(trits.scale.reshape(1).astype("<f4").tobytes())  # a scalar would stay in the machine's byte order
    zero_rows = None if rows is None else rows.found()
    return TensorIdentity(tensor.raw_name, tensor.shape, "ternary", digest.hexdigest(), float(trits.scale), zero_rows)


def _head(tensor: Tensor) -> bytes:
    """What is hashed before the kind of a tensor: its name and its dimensions."""
    ne = lengths(tensor)
    return b"i2s-tensor-1\n" + _text(tensor.raw_name) + struct.pack(f"<I{len(ne)}Q", len(ne), *ne)


def _empty_rows(tensor: Tensor) -> ZeroRows:
    """What notes the all-zero rows of a tensor."""
    from i2s_spec.inspect.compare.lineage import ZeroRows

    cols = tensor.shape[-1] if tensor.shape else 1
    return ZeroRows(tensor.elements // max(1, cols), cols)


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _text(data: bytes) -> bytes:
    return _u64(len(data)) + data


_TERNARY: Final = _text(b"ternary")
