"""This module reads some weights of a model in another way and shares the rest, so that a change is cheap.

A change of matrices is a function of a tensor's name and its unchanged weights. The functions here make such changes:
other trits for codes, transposed matrices, exchanged tensors, heads in another order, other scales.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import kernels
from i2s_spec.codec.payload_native import pack_codes, unpack_codes
from i2s_spec.model.weights import ModelWeights, Ternary
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.grouped import Grouped

#: Rows and columns of the tiles in which a matrix is transposed.
TILE: Final = (512, 64)

#: Gives a changed matrix, from the name of its tensor and the unchanged weights.
ChangeMatrix = Callable[[str, ModelWeights], "Ternary | Grouped | NDArray[Any]"]
#: Gives a changed vector of gains, likewise.
ChangeVector = Callable[[str, ModelWeights], "NDArray[np.float32]"]


class ChangedWeights(ModelWeights):
    """The weights `base`, with some of them changed.

    :param matrix: changes a matrix; a matrix that it returns unchanged needs no memory
    :param vector: changes a vector
    """

    def __init__(
        self, base: ModelWeights, matrix: ChangeMatrix | None = None, vector: ChangeVector | None = None
    ) -> None:
        super().__init__(base.file, base.dialect)
        self.preloaded = base.preloaded
        self._base = base
        self._change_matrix, self._change_vector = matrix, vector

    def matrix(self, name: str) -> Ternary | Grouped | NDArray[Any]:
        """A projection, changed."""
        change = self._change_matrix
        if change is None:
            return self._base.matrix(name)
        return self._once(name, lambda _: change(name, self._base))

    def vector(self, name: str) -> NDArray[np.float32]:
        """Gains, changed."""
        change = self._change_vector
        if change is None:
            return self._base.vector(name)
        return self._once(name, lambda _: change(name, self._base))

    def blocks(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a quantized table, unchanged."""
        return self._base.blocks(name)


def role(name: str) -> str:
    """The role of a tensor of a layer: `attn_q` for `blk.3.attn_q.weight`; else its whole name."""
    parts = name.split(".")
    return parts[2] if len(parts) == 4 and parts[0] == "blk" and parts[3] == "weight" else name


def recoded(trits: Sequence[int], roles: Collection[str] | None = None) -> ChangeMatrix:
    """Other trits for -1, 0 and +1.

    :param trits: the new values, in this order
    :param roles: the roles of the tensors to change; None for all
    """
    codes = [trits[code] + 1 if code < 3 else 3 for code in range(4)]

    def change(name: str, base: ModelWeights) -> Any:
        matrix = base.matrix(name)
        if not isinstance(matrix, Ternary) or (roles is not None and role(name) not in roles):
            return matrix
        made, layout = np.empty_like(matrix.payload), CANONICAL.layout
        kernels.recode(matrix.payload, matrix.rows, matrix.columns, layout, layout, codes, made, 1)
        return matrix._replace(payload=made)

    return change


def rearranged(arrange: Mapping[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]]) -> ChangeMatrix:
    """The codes of some matrices in another order.

    :param arrange: by role, a function that takes and returns codes, uint8 [rows, columns]
    """

    def change(name: str, base: ModelWeights) -> Any:
        matrix, how = base.matrix(name), arrange.get(role(name))
        if how is None or not isinstance(matrix, Ternary):
            return matrix
        codes = how(unpack_codes(matrix.payload, (matrix.rows, matrix.columns), CANONICAL.layout))
        packed = pack_codes(np.ascontiguousarray(codes), CANONICAL.layout)
        return matrix._replace(payload=np.frombuffer(packed, dtype=np.uint8))

    return change


def transposed(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A matrix that the file stores column by column.

    It is copied in tiles: the elements of a column are on different pages, and the TLB of a processor holds only some
    of them.
    """
    there, made = codes.reshape(codes.shape[::-1]).T, np.empty_like(codes)
    for row in range(0, codes.shape[0], TILE[0]):
        for column in range(0, codes.shape[1], TILE[1]):
            tile = slice(row, row + TILE[0]), slice(column, column + TILE[1])
            made[tile] = there[tile]
    return made


def exchanged(names: Mapping[str, str]) -> ChangeMatrix:
    """Tensors with exchanged names; a scale stays with its payload."""

    def change(name: str, base: ModelWeights) -> Any:
        return base.matrix(names.get(name, name))

    return change


def exchanged_vectors(names: Mapping[str, str]) -> ChangeVector:
    """Gains with exchanged names."""

    def change(name: str, base: ModelWeights) -> NDArray[np.float32]:
        return base.vector(names.get(name, name))

    return change


def plus_one(name: str, base: ModelWeights) -> NDArray[np.float32]:
    """Gains of norms with the missing 1 added."""
    gains = base.vector(name)
    return gains + np.float32(1) if "norm" in name else gains


def rescaled(scale: Callable[[np.float32], Any]) -> ChangeMatrix:
    """Another scale for every ternary matrix."""

    def change(name: str, base: ModelWeights) -> Any:
        matrix = base.matrix(name)
        return matrix._replace(scale=np.float32(scale(matrix.scale))) if isinstance(matrix, Ternary) else matrix

    return change
