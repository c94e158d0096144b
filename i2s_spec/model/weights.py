"""The weights of a model, read from its file when they are first needed, and cached in the form of the file.

They need no more memory than in the file: payloads stay packed (other dialects are transcoded to the canonical layout),
float16 stay float16, quantized tables stay blocks. `ModelWeights` gives a matrix as `Ternary` (packed codes with one
scale), as `Grouped` (a scale for each group of weights), or as floats.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from i2s_spec.codec import kernels
from i2s_spec.errors import SettingError, quote
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, Dialect
from i2s_spec.schema.faults import order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor

T = TypeVar("T")

#: Types with a scale for each group: `Ternary` if all groups of a tensor have the same scale, else `Grouped`.
TERNARY_BLOCKS: Final = tuple(BLOCK_LAYOUTS)
DENSE: Final = {"F32": "f4", "F16": "f2", "BF16": "u2"}
#: The types that each operation with tensors supports.
TYPES: Final = {
    "embed": (*DENSE, "Q8_0", "Q6_K", "I2_S", *TERNARY_BLOCKS),
    "head": (*DENSE, "Q8_0", "Q6_K", "I2_S", *TERNARY_BLOCKS),
    "linear": ("I2_S", *GROUP_LAYOUTS, *DENSE),
    "expert_linear": (*GROUP_LAYOUTS, *DENSE),
    "norm_weight": tuple(DENSE),
}


class Ternary(NamedTuple):
    """A ternary matrix.

    :param payload: the codes in the canonical dialect, uint8 [rows * columns / 4]
    :param scale: float32, the value of +1
    """

    payload: NDArray[np.uint8]
    rows: int
    columns: int
    scale: np.float32


class ModelWeights:
    """The tensors of a file in the form that operations need.

    :param dialect: the dialect in which I2_S tensors are read; the file does not state it (clause 5.5)
    :param change: changes each ternary matrix, by name, after it is read, to emulate a mistake
    """

    def __init__(
        self, file: File, dialect: Dialect = CANONICAL, change: Callable[[str, Ternary], Ternary] | None = None
    ) -> None:
        self.file = file
        self.dialect = dialect
        self.change = change
        #: Bytes of tensors that are in memory already, by name.
        self.preloaded: dict[str, NDArray[np.uint8]] = {}
        self._loaded: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self.file.tensors

    def tensor(self, name: str) -> Tensor:
        """Return the tensor with this name.

        :raises SettingError: if the file has none
        """
        try:
            return self.file.tensors[name]
        except KeyError:
            raise SettingError(f"the file has no tensor {quote(name)}, which the graph needs") from None

    def tensor_type(self, name: str) -> str:
        """Return the name of a tensor's type."""
        return self.tensor(name).kind

    def vector(self, name: str) -> NDArray[np.float32]:
        """Return gains, biases or factors: float32 [n], exactly as stored."""
        return self._once(name, self._vector)

    def matrix(self, name: str) -> Matrix:
        """Return a projection: `Ternary`, `Grouped`, or an array [rows, columns] of float32, float16, or uint16:
        bfloat16.
        """
        return self._once(name, self._matrix)

    def experts(self, name: str) -> tuple[Matrix, ...]:
        """Return the matrices of all experts, as `matrix` gives one."""
        return self._once(name, self._experts)

    def data(self, name: str) -> NDArray[np.uint8]:
        """Return all bytes of a tensor, as they are in the file."""
        return self._bytes(self.tensor(name))

    def blocks(self, name: str) -> NDArray[np.uint8]:
        """Return the bytes of a quantized table by row, uint8 [rows, bytes of a row]."""
        return self._once(name, self._blocks)

    def _once(self, name: str, read: Callable[[Tensor], T]) -> T:
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = read(self.tensor(name))
            found: T = self._loaded[name]
            return found

    def _vector(self, tensor: Tensor) -> NDArray[np.float32]:
        kind = tensor.kind
        if kind not in DENSE:
            raise SettingError(f"tensor {quote(tensor.name)} is {kind}; {', '.join(DENSE)} are read here")
        array = tensor.array().reshape(-1)
        return array.astype(np.float32)

    def _matrix(self, tensor: Tensor) -> Matrix:
        if len(tensor.shape) != 2:
            raise SettingError(f"tensor {quote(tensor.name)} has the shape {list(tensor.shape)}; a matrix is needed")
        return self._matrix_of(tensor, self._bytes(tensor), "linear")

    def _experts(self, tensor: Tensor) -> tuple[Matrix, ...]:
        if len(tensor.shape) != 3:
            raise SettingError(f"tensor {quote(tensor.name)} has the shape {list(tensor.shape)}; matrices are needed")
        parts = self._bytes(tensor).reshape(tensor.shape[0], -1)
        return tuple(self._matrix_of(tensor, part, "expert_linear") for part in parts)

    def _matrix_of(self, tensor: Tensor, data: NDArray[np.uint8], op: str) -> Matrix:
        """Return a matrix from its bytes; its shape is that of the last two sides of the tensor."""
        kind = tensor.kind
        if kind not in TYPES[op]:
            others = ", ".join(TYPES[op])
            raise SettingError(f"tensor {quote(tensor.name)} is {kind}; matrices of {others} can be multiplied here")
        if kind in DENSE:
            return self._dense(tensor, data)
        rows, columns = tensor.shape[-2:]
        matrix = self._ternary(data, rows, columns) if kind == "I2_S" else self._repacked(tensor, data, rows, columns)
        if self.change is None or isinstance(matrix, Grouped):
            return matrix
        return self.change(tensor.name, matrix)

    def _ternary(self, whole: NDArray[np.uint8], rows: int, columns: int) -> Ternary:
        from i2s_spec.codec import native
        from i2s_spec.codec.observation import read_tail

        payload_bytes = rows * columns // 4
        scale = read_tail(whole[payload_bytes:].tobytes(), self.dialect.tail, self.file.byte_order)
        payload = whole[:payload_bytes]
        if (self.dialect.layout, self.dialect.code_map) != (CANONICAL.layout, CANONICAL.code_map):
            plain = Dialect(self.dialect.layout, self.dialect.code_map, CANONICAL.tail)
            done = native.transcode(
                np.concatenate([payload, np.zeros(32, np.uint8)]), (rows, columns), source=plain, target=CANONICAL
            )
            payload = np.frombuffer(done, dtype=np.uint8)[:payload_bytes]
        return Ternary(payload, rows, columns, np.float32(scale))

    def _repacked(self, tensor: Tensor, data: NDArray[np.uint8], rows: int, columns: int) -> Ternary | Grouped:
        """Return a matrix of a block type: `Ternary` if all groups that hold a weight have the same scale, else
        `Grouped`.
        """
        from i2s_spec.codec import blocks_native, native

        kind = tensor.kind
        try:
            values, scales = blocks_native.unpack(data, (rows, columns), kind, byte_order=self.file.byte_order)
        except ValueError as error:
            raise SettingError(f"tensor {quote(tensor.name)}: {error}") from None
        used = values.reshape(len(scales), -1).any(axis=1)
        found = scales[used] if used.any() else np.zeros(1, dtype=np.float32)
        if np.isfinite(scales).all() and (found == found[0]).all() and values.max() <= 1:
            packed = np.frombuffer(native.pack(values, found[0]), dtype=np.uint8)
            return Ternary(packed[: rows * columns // 4], rows, columns, np.float32(found[0]))
        return grouped(values, scales.reshape(rows, -1))

    def _dense(self, tensor: Tensor, data: NDArray[np.uint8]) -> NDArray[Any]:
        kind = DENSE[tensor.kind]
        order = order_prefix(self.file.byte_order)
        array = data.view(np.dtype(f"{order}{kind}")).reshape(tensor.shape[-2:])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def _blocks(self, tensor: Tensor) -> NDArray[np.uint8]:
        return self._bytes(tensor).reshape(tensor.shape[0], -1)

    def _bytes(self, tensor: Tensor) -> NDArray[np.uint8]:
        """Return all bytes of a tensor: a view if the source is in memory, else they are read once."""
        if tensor.name in self.preloaded:
            return self.preloaded[tensor.name]
        span = tensor.span
        tensor.require(span)
        view = self.file.source.view
        if view is not None:
            return np.frombuffer(view[span.start : span.stop], dtype=np.uint8)
        data = np.empty(span.stop - span.start, dtype=np.uint8)
        self.file.source.readinto(span.start, data.data)
        return data


#: A matrix in one of the forms in which it is multiplied.
Matrix: TypeAlias = "Ternary | Grouped | NDArray[Any]"


# --- grouped ---------------------------------------------------------------------------------------------------------
# The form in which block types are read (clause 9.8). Weights without their scales are -1 to +2, packed as codes of
# canonical I2_S, so that the integer products of I2_S can read them: there, code 3 counts as +2 as well. They are
# stored in slabs of 128 columns, [slabs, rows, 32 bytes], because groups are multiplied separately; an incomplete slab
# is filled with codes 0, which are multiplied with 0.

#: Columns of a slab, and bytes of a slab in each row.
SLAB: Final = 128
SLAB_BYTES: Final = SLAB // CODES_PER_BYTE


@dataclass(frozen=True)
class Grouped:
    """A matrix with a scale for each group of a row.

    :param slabs: codes, uint8 [slabs, rows, 32]
    :param columns: columns of the matrix; they need not be whole slabs
    :param scales: float32 [rows, groups of a row]
    :param group: how many columns share a scale; all if each row has one scale
    """

    slabs: NDArray[np.uint8]
    columns: int
    scales: NDArray[np.float32]
    group: int

    @property
    def rows(self) -> int:
        return len(self.scales)

    @property
    def wide(self) -> int:
        """Columns of all slabs."""
        return len(self.slabs) * SLAB

    @cached_property
    def whole_rows(self) -> NDArray[np.uint8]:
        """The codes as one payload with rows of `wide` columns, for products over whole rows."""
        return np.ascontiguousarray(self.slabs.transpose(1, 0, 2)).reshape(-1)

    def part(self, start: int, stop: int) -> Grouped:
        """Return some of the rows."""
        return Grouped(self.slabs[:, start:stop], self.columns, self.scales[start:stop], self.group)

    def values(self) -> NDArray[np.int8]:
        """Return the weights without their scales, int8 [rows, columns]: the decoded `slabs`."""
        codes = np.empty(self.rows * self.wide, dtype=np.uint8)
        kernels.unpack(self.whole_rows, kernels.run_layout(CANONICAL.layout, self.rows, self.wide), None, codes, 1)
        return codes.reshape(self.rows, self.wide)[:, : self.columns].astype(np.int8) - np.int8(1)

    def dequantized(self) -> NDArray[np.float32]:
        """Return the weights, one multiplication of float32 each, float32 [rows, columns]."""
        return self.values().astype(np.float32) * np.repeat(self.scales, self.group, axis=1)


def grouped(values: NDArray[np.int8], scales: NDArray[np.float32]) -> Grouped:
    """Return the matrix of weights and scales.

    :param values: -1 to +2, int8 [rows, columns]
    :param scales: float32 [rows, groups of a row]; groups have as many columns each
    """
    rows, columns = values.shape
    wide = -(-columns // SLAB) * SLAB
    codes = np.zeros((rows, wide), dtype=np.uint8)
    np.add(values, 1, out=codes[:, :columns], casting="unsafe")
    payload = np.empty(rows * wide // CODES_PER_BYTE, dtype=np.uint8)
    kernels.pack(codes.reshape(-1), kernels.run_layout(CANONICAL.layout, rows, wide), None, payload, 1)
    return Grouped(_in_slabs(payload, rows), columns, scales, columns // scales.shape[1])


def one_scale(payload: NDArray[np.uint8], rows: int, columns: int, scale: np.float32, group: int) -> Grouped:
    """Return a matrix of canonical I2_S as a grouped matrix whose groups share its scale: codes are moved, not changed.

    :param payload: a payload of whole rows, as `matmul.whole_rows` gives it
    :param columns: the number of columns before rows were padded
    """
    scales = np.broadcast_to(scale, (rows, -(-columns // group)))
    return Grouped(_in_slabs(payload, rows), columns, scales, group)


def _in_slabs(payload: NDArray[np.uint8], rows: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(payload.reshape(rows, -1, SLAB_BYTES).transpose(1, 0, 2))
