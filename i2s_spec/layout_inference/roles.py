"""The tensors that evidence is made of: the ternary matrices of each layer of a file, its gains, and its heads.

Tensors go by their names; one that has another shape than its layer needs, or whose bytes are not in the file, is left
out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.codec.buffers import as_kind
from i2s_spec.errors import FormatError
from i2s_spec.layout_inference.counts import looked_at
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, Tensor

#: Matrices whose columns are the hidden state, and those whose rows are.
READERS: Final = ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up")
WRITERS: Final = ("attn_output", "ffn_down")
#: Gains on what enters a matrix: the norm of its layer, and that of its own where it has one.
GAINS: Final = {
    "attn_q": ("attn_norm",),
    "attn_k": ("attn_norm",),
    "attn_v": ("attn_norm",),
    "attn_output": ("attn_sub_norm", "attn_output_norm_in"),
    "ffn_gate": ("ffn_norm",),
    "ffn_up": ("ffn_norm",),
    "ffn_down": ("ffn_sub_norm", "ffn_down_norm_in"),
}
#: Layers and tensors that are examined in a file; no real one has as many.
LAYERS: Final = 1024
TENSORS: Final = 100_000
#: Digits of a layer's number at most.
_DIGITS: Final = 4
#: Elements of the longest gain.
LONGEST: Final = 1 << 18

#: All of these roles, as names of tensors have them.
_ROLES: Final = {name.encode(): name for names in (GAINS, *GAINS.values()) for name in names}

#: Layer, role and row in the tensor table of a tensor that is named as one of a layer.
_Named = tuple[int, str, int]


class Matrix(NamedTuple):
    """One ternary matrix: its layer, its role, its name, its shape, and where its payload begins."""

    layer: int
    role: str
    name: str
    rows: int
    cols: int
    start: int

    @property
    def key(self) -> tuple[int, str]:
        """Layer and role."""
        return self.layer, self.role


class Gains:
    """The gains of a file by layer and role; each is read when it is first asked for, by whichever thread."""

    def __init__(self, file: File, tensors: dict[tuple[int, str], Tensor]) -> None:
        self._file, self._tensors = file, tensors
        self._read: dict[tuple[int, str], memoryview[Any] | None] = {}

    def get(self, key: tuple[int, str]) -> memoryview[Any] | None:
        """Return a gain, float32; None where there is none that can be read."""
        if key not in self._tensors:
            return None
        if key not in self._read:
            self._read[key] = _gain(self._file, self._tensors[key])
        return self._read[key]


class Roles(NamedTuple):
    """The matrices of a file by layer and role, its gains likewise, and how many heads and key heads it has (or 0)."""

    matrices: dict[tuple[int, str], Matrix]
    gains: Gains
    heads: int
    key_heads: int

    @property
    def layers(self) -> list[int]:
        """The layers that have matrices."""
        return sorted({layer for layer, _ in self.matrices})


def roles(file: File, layers: int | None = None) -> Roles:
    """Find the matrices and gains of a file.

    :param layers: how many layers are examined, evenly spread; None for all
    """
    named = list(_named(file))
    if layers is not None:
        named = _of_some(file, named, layers)
    matrices: dict[tuple[int, str], Matrix] = {}
    norms: dict[tuple[int, str], Tensor] = {}
    for layer, role, row in named:
        key, tensor = (layer, role), file.tensors.by_index(row)
        if role in GAINS:
            matrix = _matrix(layer, role, tensor)
            if matrix is not None:
                matrices.setdefault(key, matrix)
        elif len(tensor.ne) == 1:
            norms.setdefault(key, tensor)
    heads, key_heads = _heads(file)
    return Roles(matrices, Gains(file, norms), heads, key_heads)


def _of_some(file: File, named: list[_Named], layers: int) -> list[_Named]:
    """Return the tensors of so many of the layers that have a matrix, evenly spread; of the others no more is asked
    than that.
    """
    with_matrix: set[int] = set()
    for layer, role, row in named:
        if layer not in with_matrix and role in GAINS and _matrix(layer, role, file.tensors.by_index(row)) is not None:
            with_matrix.add(layer)
    found = sorted(with_matrix)
    if len(found) <= layers:
        return named
    chosen = {found[i * (len(found) - 1) // max(1, layers - 1)] for i in range(layers)}
    return [each for each in named if each[0] in chosen]


def _named(file: File) -> Iterator[_Named]:
    index = file.index
    for row in range(min(index.tensors, TENSORS)):
        found = layer_role(index.tensor(row).name)
        if found is not None and found[0] < LAYERS:
            yield *found, row


def layer_role(name: bytes) -> tuple[int, str] | None:
    """Return the layer and the role of a tensor; None if its name is not that of a matrix or gain of a layer.

    >>> layer_role(b"blk.12.ffn_up.weight"), layer_role(b"blk.012.ffn_up.weight")
    ((12, 'ffn_up'), None)
    """
    if not (name.startswith(b"blk.") and name.endswith(b".weight")):
        return None
    layer, _, role = name[4:-7].partition(b".")
    if role not in _ROLES or not layer.isdigit() or len(layer) > _DIGITS or (len(layer) > 1 and layer.startswith(b"0")):
        return None
    return int(layer), _ROLES[role]


def _matrix(layer: int, role: str, tensor: Tensor) -> Matrix | None:
    if tensor.number != I2_S.number or len(tensor.ne) < 2 or any(n != 1 for n in tensor.ne[2:]):
        return None
    cols, rows = tensor.ne[0], tensor.ne[1]
    if not looked_at(rows, cols):
        return None
    try:
        span = tensor.payload_span
        tensor.require(span)
    except FormatError:
        return None
    return Matrix(layer, role, tensor.name, rows, cols, span.start)


def _gain(file: File, tensor: Tensor) -> memoryview[Any] | None:
    if tensor.type is None or tensor.type.name not in ("F32", "F16", "BF16") or not 0 < tensor.ne[0] <= LONGEST:
        return None
    try:
        if tensor.type.name != "F32":
            return memoryview(tensor.dequantize().astype("f4").data)
        span = tensor.payload_span
        tensor.require(span)
        raw = bytearray(4 * tensor.ne[0])
        file.source.readinto(span.start, memoryview(raw))
        if file.byte_order != sys.byteorder:
            raw[0::4], raw[1::4], raw[2::4], raw[3::4] = raw[3::4], raw[2::4], raw[1::4], raw[0::4]
        return as_kind(raw, "f")
    except (FormatError, ValueError):
        return None


def _heads(file: File) -> tuple[int, int]:
    """Heads and key heads, where the file names them as two numbers; else 0 and 0."""
    architecture = _value(file, "general.architecture")
    heads = _value(file, f"{architecture}.attention.head_count") if isinstance(architecture, str) else None
    key_heads = _value(file, f"{architecture}.attention.head_count_kv") if isinstance(architecture, str) else None
    if not isinstance(heads, int) or not 0 < heads < 1 << 16:
        return 0, 0
    if key_heads is None:
        return heads, heads
    return (heads, key_heads) if isinstance(key_heads, int) and 0 < key_heads <= heads else (0, 0)


def _value(file: File, key: str) -> Any:
    """Return the value of a key that is one number or a short text."""
    if key not in file.metadata:
        return None
    entry = file.metadata.entry(key)
    if entry.label.startswith("arr") or entry.count > 1 << 10:
        return None
    try:
        return file.metadata.decode(entry)
    except FormatError:
        return None
