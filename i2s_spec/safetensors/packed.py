"""The packed weights of Hugging Face's BitNet checkpoints, read and written: uint8 matrices and their scales.

A linear module `m` with N rows and K columns has two tensors (layout `row-blocks-4`, clause 5.5):

    m.weight        uint8 [N/4, K]: bits 2i and 2i+1 of byte (r, c) are the trit of row r + i*N/4, column c, plus 1
    m.weight_scale  one number: transformers' AutoBitLinear multiplies by it, its BitLinear divides

So the scale of I2_S is `weight_scale` or its reciprocal, and only the checkpoint's config.json says which:
`linear_class: autobitlinear` multiplies (BitNet b1.58 2B-4T), anything else divides (Llama3-8B-1.58, Falcon3). A wrong
choice gives the same trits with the wrong gain (clause 6.2).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from i2s_spec.codec.encoding import WINDOW, ProofError, Rounding, rounding
from i2s_spec.codec.native import pack_trits, unpack_trits
from i2s_spec.codec.shape import widened
from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.gguf.source import read_below
from i2s_spec.safetensors.files import Checkpoint, NewTensor, Stored
from i2s_spec.schema import faults
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS, Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The relation of `weight_scale` to the scale of I2_S: equal, or its reciprocal.
Convention = Literal["multiply", "divide"]

_DIALECT: Final = Dialect(LAYOUTS["row-blocks-4"], CANONICAL.code_map, CANONICAL.tail)
_PER_BYTE: Final = 4
_WEIGHT, _SCALE = ".weight", ".weight_scale"

#: Largest config.json, in bytes.
_MOST_CONFIG: Final = 1 << 20


class PackedMatrix(NamedTuple):
    """One packed module of a checkpoint."""

    module: str
    weight: Stored
    weight_scale: np.float32
    convention: Convention

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return _PER_BYTE * self.weight.shape[0], self.weight.shape[1]

    @property
    def scale(self) -> np.float32:
        """The value of +1, float32; a reciprocal is rounded once."""
        return scale_of(self.weight_scale, self.convention)

    def trits(self) -> NDArray[np.int8]:
        """Return all trits, int8 [rows, cols].

        :raises UnusedCodeError: if the code 3 occurs
        """
        rows, cols = self.shape
        trits = np.empty((_PER_BYTE, rows // _PER_BYTE, cols), dtype=np.int8)
        for start, stop in _byte_rows(rows, cols):
            data = self.weight.read(start * cols, stop * cols)
            part = unpack_trits(data, (_PER_BYTE * (stop - start), cols), _DIALECT)
            trits[:, start:stop] = part.reshape(_PER_BYTE, stop - start, cols)
        return trits.reshape(rows, cols)


class PackedWeights(Mapping[str, "tuple[NDArray[np.int8], np.float32]"]):
    """The packed modules of a checkpoint: trits and scale by the name of the module, unpacked on access.

    The checkpoint's files stay open for this; as a context manager it closes them.
    """

    def __init__(self, checkpoint: Checkpoint, convention: Convention) -> None:
        self.checkpoint = checkpoint
        self.matrices = {matrix.module: matrix for matrix in _matrices(checkpoint, convention)}

    def __getitem__(self, module: str) -> tuple[NDArray[np.int8], np.float32]:
        matrix = self.matrices[module]
        return matrix.trits(), matrix.scale

    def __iter__(self) -> Iterator[str]:
        return iter(self.matrices)

    def __len__(self) -> int:
        return len(self.matrices)

    def __enter__(self) -> PackedWeights:
        return self

    def __exit__(self, *exc: object) -> None:
        self.checkpoint.close()


class StoredScale(NamedTuple):
    """A stored `weight_scale`, and the scale of I2_S before and after."""

    value: np.float32
    rounding: Rounding


def stored_scale(scale: float | np.float32, convention: Convention, scale_type: str) -> StoredScale:
    """Return the value to store as `weight_scale`, and the scale that results from it.

    :raises ValueError: for a scale that cannot be stored
    """
    if scale_type not in {"F32", "BF16"}:
        raise ValueError(f"weight_scale can be stored as F32 or BF16, not as {quote(scale_type)}")
    value = scale_of(np.float32(scale), checked_convention(convention))  # its own inverse, except for rounding
    stored = np.float32(rounding(value, scale_type).stored)
    if scale_type == "F32":  # of the neighbors, one may have exactly this reciprocal
        near = (stored, np.nextafter(stored, np.float32(0)), np.nextafter(stored, np.float32(np.inf)))
        stored = next((each for each in near if scale_of(each, convention) == np.float32(scale)), stored)
    return StoredScale(stored, Rounding(float(np.float32(scale)), float(scale_of(stored, convention))))


def packed_tensors(
    module: str, shape: tuple[int, ...], trits: Any, scale: StoredScale, scale_type: str
) -> tuple[NewTensor, NewTensor]:
    """Return the two tensors of a module.

    :param trits: a function that gives int8 trits [rows, cols] when they are written
    :raises ValueError: for a shape that cannot be packed
    """
    if len(shape) != 2 or shape[0] % _PER_BYTE:
        raise ValueError(f"{quote(module)}: a packed matrix needs a multiple of 4 rows, not the shape {list(shape)}")
    rows, cols = shape
    bits = np.array([scale.value], dtype=np.float32).view(np.uint32)
    word = bits.astype("<u4") if scale_type == "F32" else (bits >> np.uint32(16)).astype("<u2")
    return (
        NewTensor(module + _WEIGHT, "U8", (rows // _PER_BYTE, cols), lambda: packed_rows(trits())),
        NewTensor(module + _SCALE, scale_type, (1,), lambda: [word.tobytes()]),
    )


def packed_rows(trits: NDArray[np.int8]) -> Iterator[bytes]:
    """Yield the bytes of a packed matrix, some rows at a time; each part is unpacked again and compared."""
    rows, cols = trits.shape
    blocks = trits.reshape(_PER_BYTE, rows // _PER_BYTE, cols)
    for start, stop in _byte_rows(rows, cols):
        part = np.ascontiguousarray(blocks[:, start:stop]).reshape(-1, cols)
        data = pack_trits(part, _DIALECT)
        if not np.array_equal(unpack_trits(data, part.shape, _DIALECT), part):
            raise ProofError("a packed matrix does not give back the trits that were written")
        yield data


def scale_of(weight_scale: np.float32, convention: Convention) -> np.float32:
    """Return the scale of I2_S for a `weight_scale`.

    :raises ValueError: for 0, NaN and infinities that divide
    """
    if convention == "multiply":
        return weight_scale
    if not np.isfinite(weight_scale) or weight_scale == 0:
        raise ValueError(f"a scale of {weight_scale} has no reciprocal")
    with np.errstate(over="ignore"):  # callers refuse infinities
        return np.float32(1 / float(weight_scale))


def checked_convention(weight_scale: str) -> Convention:
    """Return one of the two conventions; ValueError for another word."""
    if weight_scale not in {"multiply", "divide"}:
        raise ValueError(f"weight_scale must be 'multiply' or 'divide', not {quote(weight_scale)}")
    return "multiply" if weight_scale == "multiply" else "divide"


def configured(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Convention:
    """Return the convention in the config.json beside a checkpoint.

    :raises ValueError: if there is none, or it says nothing about BitNet
    """
    about = _quantization(path)
    method, linear = about.get("quant_method"), about.get("linear_class", "bitlinear")
    if method != "bitnet" or linear not in ("bitlinear", "autobitlinear"):
        raise ValueError(
            "there is no config.json beside the checkpoint that says whether weight_scale multiplies or divides: it "
            "multiplies in BitNet b1.58 2B-4T, and divides in Llama3-8B-1.58 and Falcon3"
        )
    return "multiply" if linear == "autobitlinear" else "divide"


def quantizes_online(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> bool:
    """Whether config.json beside a checkpoint says that floats are quantized by their mean magnitude in every pass."""
    about = _quantization(path)
    return about.get("quant_method") == "bitnet" and about.get("quantization_mode") == "online"


def _quantization(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> dict[str, Any]:
    """Return `quantization_config` in the config.json beside a checkpoint; empty if there is none."""
    first = path if isinstance(path, str | os.PathLike) else next(iter(path), "")
    folder = first if os.path.isdir(first) else os.path.dirname(os.fspath(first))
    try:
        config = json.loads(read_below(os.fsdecode(folder) or os.curdir, "config.json", _MOST_CONFIG))
        about = config["quantization_config"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _matrices(checkpoint: Checkpoint, convention: Convention) -> Iterator[PackedMatrix]:
    """Yield every uint8 matrix with a `weight_scale`; each is checked."""
    for name, stored in checkpoint.items():
        if stored.dtype != "U8" or not name.endswith(_WEIGHT):
            continue
        module = name.removesuffix(_WEIGHT)
        scale = checkpoint.get(module + _SCALE)
        if scale is None:
            raise _refused(stored, f"is packed, and there is no {quote(module + _SCALE)}")
        if len(stored.shape) != 2 or not all(stored.shape):
            raise _refused(stored, f"has the shape {list(stored.shape)}, and a packed matrix has rows and columns")
        yield PackedMatrix(module, stored, _one_float(scale), convention)


def _one_float(stored: Stored) -> np.float32:
    types = {"F32": "<u4", "F16": "<u2", "BF16": "<u2"}
    if stored.dtype not in types or stored.nbytes != np.dtype(types[stored.dtype]).itemsize:
        raise _refused(stored, f"is {quote(stored.dtype)} of shape {list(stored.shape)}; one float is expected")
    bits = np.frombuffer(stored.read(), dtype=types[stored.dtype])
    return np.float32(widened(bits.astype(bits.dtype.newbyteorder("=")), stored.dtype)[0])


def _refused(stored: Stored, reason: str) -> FormatError:
    return FormatError(
        faults.CHECKPOINT_TENSOR_MALFORMED,
        Span(stored.start, stored.stop),
        name=stored.name,
        reason=TrustedText(reason),
    )


def _byte_rows(rows: int, cols: int) -> Iterable[tuple[int, int]]:
    """Return ranges of packed rows of about a million elements."""
    step = max(WINDOW // (_PER_BYTE * cols), 1)
    packed = rows // _PER_BYTE
    return ((start, min(start + step, packed)) for start in range(0, packed, step))
