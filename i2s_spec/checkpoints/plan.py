"""The plan of a GGUF file: name, shape, type and bytes of each tensor that an import writes.

Every tensor of the checkpoint is used exactly once, unless models compute it themselves; shapes must agree with
config.json. Planning reads only headers and the first rows of matrices; the bytes of a tensor are made when they are
written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.checkpoints.families import (
    ABSMEAN,
    DERIVED,
    GATES,
    PROJECTIONS,
    TERNARY,
    LayerTensor,
    ModelSizes,
    Recognized,
    tensors_of_layer,
)
from i2s_spec.checkpoints.folder import CheckpointFolder, refused
from i2s_spec.checkpoints.source_weights import (
    FloatMatrix,
    ReusedMemory,
    TernaryMatrix,
    check_type,
    float_matrix,
    float_windows,
    floats,
    looks_ternary,
    not_ternary,
    packed_matrix,
)
from i2s_spec.codec import blocks_native
from i2s_spec.codec.change_groups import BLOCK_TYPES
from i2s_spec.codec.encoding import WINDOW, ProofError, TernaryEncoding
from i2s_spec.codec.float_passes import change_words, width_of
from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.shape import FLOAT_WORDS, from_bfloat16, to_bfloat16
from i2s_spec.convert.encode import TARGETS, Encoder
from i2s_spec.errors import counted, quote
from i2s_spec.safetensors.files import Stored
from i2s_spec.safetensors.names import WHOLE, tiled_heads, to_gguf_rows
from i2s_spec.safetensors.packed import PackedWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray

ReadMatrix = Callable[[], TernaryMatrix | FloatMatrix]
#: Changes floats of a checkpoint into those of the file.
Change = Callable[["NDArray[np.float32]"], "NDArray[np.float32]"]

_LAYER: Final = re.compile(r"layers\.(0|[1-9][0-9]{0,8})\.(.+)", re.ASCII)


class PlannedTensor(NamedTuple):
    """One tensor of the GGUF file.

    :param source: its name in the checkpoint; empty if it is computed from config.json
    :param rule: the rule of a ternary matrix; empty for floats
    :param data: a function that makes its bytes
    :param matrix: a function that reads a ternary matrix as trits; None for floats
    """

    name: str
    shape: tuple[int, ...]
    type: str
    source: str
    rule: str
    data: Callable[[], Iterator[bytes]]
    matrix: ReadMatrix | None = None


class Choices(NamedTuple):
    """The choices for a file.

    :param to: type of the ternary matrices
    :param embedding: type of the embedding and the head
    :param fallback: type of matrices that `to` cannot hold; without it they are refused
    :param rule: `absmean` or `ternary` for all floats, instead of the rule that is found
    :param compare: whether a head is compared with the embedding; if not, one of its type and shape counts as equal
    :param types: types of single tensors, by their names in the file; before all others
    """

    to: str = "I2_S"
    embedding: str = "F16"
    fallback: str | None = None
    rule: str | None = None
    threads: int = 1
    compare: bool = True
    types: Mapping[str, str] = {}


def planned(
    folder: CheckpointFolder, recognized: Recognized, sizes: ModelSizes, choices: Choices
) -> tuple[list[PlannedTensor], bool]:
    """Return all tensors of the file, in the order of layers, and whether the head is the embedding.

    :raises ValueError: for types that do not exist
    :raises FormatError: H104 for tensors that are missing or unknown, have a wrong shape, or fit no type
    """
    if choices.to not in TARGETS:
        raise ValueError(f"matrices cannot be written as {quote(choices.to)}; there are: {', '.join(TARGETS)}")
    plan = _Plan(folder, recognized, sizes, choices)
    plan.check_names()
    tied = plan.tied()
    tensors = [plan.table("model.embed_tokens", ("vocab", "embd"))]
    if not tied:
        tensors.append(plan.table("lm_head", ("vocab", "embd")))
    for layer in range(sizes.h.layers):
        tensors += plan.layer(layer)
    tensors.append(plan.floats(plan.source("model.norm"), "output_norm.weight", (sizes.h.embd,), plan.added))
    plan.check_types()
    return tensors, tied


class _Plan:
    """The state for planning one tensor after the other."""

    def __init__(self, folder: CheckpointFolder, recognized: Recognized, sizes: ModelSizes, choices: Choices) -> None:
        self.folder = folder
        self.family = recognized.family
        self.prefix = recognized.prefix
        self.mode = recognized.mode
        self.sizes = sizes
        self.choices = choices
        self.packed = PackedWeights(folder.tensors, recognized.convention).matrices
        self.misfits: dict[tuple[int, ...], str] = {}
        self.matrices: list[tuple[tuple[int, ...], str, ReadMatrix]] = []
        self.room = ReusedMemory()

    def source(self, module: str, end: str = "weight") -> str:
        """Return the name of a tensor in the checkpoint: `model.` is missing if only the body was saved."""
        return f"{self.prefix}{module.removeprefix('model.')}.{end}"

    def stored(self, source: str, shape: tuple[int, ...]) -> Stored:
        found = self.folder.tensors.get(source)
        if found is None:
            raise refused(f"tensor {quote(source)} is missing")
        if found.shape != shape:
            raise refused(f"tensor {quote(source)} has the shape {list(found.shape)}; config.json gives {list(shape)}")
        return found

    def shape(self, words: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(getattr(self.sizes.h, word) for word in words)

    def check_names(self) -> None:
        """Refuse tensors that the file would not contain: without them, the model would be wrong."""
        for name in self.folder.tensors:
            if name == "lm_head.weight" or name.startswith(tuple(self.family.left_out)):
                continue
            inner = name.removeprefix(self.prefix)
            known = name.startswith(self.prefix)
            if known and inner.endswith(".weight") and f"model.{inner.removesuffix('.weight')}" in WHOLE:
                continue
            match = _LAYER.fullmatch(inner) if known else None
            if match is not None and int(match[1]) >= self.sizes.h.layers:
                raise refused(
                    f"tensor {quote(name)} is in layer {int(match[1])}; config.json has {self.sizes.h.layers}"
                )
            if match is not None:
                module, _, end = match[2].rpartition(".")
                found = self.family.layer.get(module)
                scale = end == "weight_scale" and found in (*PROJECTIONS, *GATES)
                if scale:
                    self.check_scale(name)
                if found and (scale or end == "weight" or (end == "bias" and module in self.family.biases)):
                    self.check_layer(name, module, int(match[1]))
                    continue
                if match[2] in self.family.parameters:
                    self.check_layer(name, match[2], int(match[1]))
                    continue
            if (known and inner in DERIVED) or (match is not None and match[2] in DERIVED):
                continue
            raise refused(
                f"tensor {quote(name)} does not belong to {self.family.name}; a file without it would be another model"
            )

    def check_layer(self, name: str, module: str, layer: int) -> None:
        """Refuse a tensor of a delta net in a layer with attention, and the reverse."""
        there = (each.module or each.source for each in tensors_of_layer(self.family, self.sizes.h, layer))
        if module not in self.family.optional and module not in there:
            raise refused(f"tensor {quote(name)} does not fit layer_types in config.json")

    def check_scale(self, name: str) -> None:
        """Refuse a scale beside floats: it is not known whether they must still be multiplied by it."""
        weight = self.folder.tensors.get(name.removesuffix("_scale"))
        if weight is not None and weight.dtype != "U8":
            raise refused(
                f"tensor {quote(name)} belongs to a packed matrix, and {quote(weight.name)} is {quote(weight.dtype)}"
            )

    def tied(self) -> bool:
        """Whether the head is the embedding; config.json and the tensors must agree."""
        head = self.folder.tensors.get("lm_head.weight")
        if self.family.pooling is not None:
            if head is not None and not self._equals_embedding(head):
                raise refused("it has an lm_head, but embedding models have no head")
            return True
        if head is None:
            if self.sizes.tied is False:
                raise refused("config.json says tie_word_embeddings false, and there is no lm_head.weight")
            return True
        if self.sizes.tied or self.family.tied:
            if not self._equals_embedding(head):
                reason = "config.json says tie_word_embeddings true" if self.sizes.tied else "its graph has a tied head"
                raise refused(f"{reason}, and lm_head.weight differs from the embedding")
            return True
        return False

    def _equals_embedding(self, head: Stored) -> bool:
        table = self.folder.tensors.get(self.source("model.embed_tokens"))
        if table is None or (table.dtype, table.shape) != (head.dtype, head.shape):
            return False
        step = 1 << 22
        places = range(0, head.nbytes if self.choices.compare else 0, step)
        return all(
            head.read(at, min(at + step, head.nbytes)) == table.read(at, min(at + step, head.nbytes)) for at in places
        )

    def layer(self, layer: int) -> Iterator[PlannedTensor]:
        for each in tensors_of_layer(self.family, self.sizes.h, layer):
            source, target = f"{self.prefix}layers.{layer}.{each.source}", f"blk.{layer}.{each.target}"
            if each.word in PROJECTIONS or (each.word in GATES and self.is_quantized(source)):
                yield self.matrix(source, target, each)
                bias = f"{source.removesuffix('weight')}bias"
                if each.module in self.family.biases and bias in self.folder.tensors:
                    yield self.floats(bias, f"{target.removesuffix('weight')}bias", each.shape[:1])
            else:
                shape = (each.shape[0], each.shape[2]) if each.word == "ssm_conv1d" else each.shape
                yield self.floats(source, target, each.shape, partial(self.changed, each), shape)

    def is_quantized(self, source: str) -> bool:
        """Whether transformers computes with trits in the place of a matrix that is not ternary by itself."""
        return self.mode == "online" or source.removesuffix(".weight") in self.packed

    def ordered(self, word: str, read: ReadMatrix) -> TernaryMatrix | FloatMatrix:
        """Return a matrix in the order of the file: queries and keys if the architecture rotates neighbors, and the
        value heads of delta nets. Orders are made when shapes are known to be right."""
        matrix, h = read(), self.sizes.h
        if self.family.rows == "neighbors" and word in ("attn_q", "attn_k"):
            heads = h.heads if word == "attn_q" else h.heads_kv
            return matrix.in_rows(lambda rows: to_gguf_rows(rows, heads))
        if (places := tiled_heads(h.net, word)) is None:
            return matrix
        return (
            matrix.in_columns(places, h.net.width) if word == "ssm_out" else matrix.in_rows(lambda rows: rows[places])
        )

    def matrix(self, source: str, target: str, each: LayerTensor) -> PlannedTensor:
        """Return a ternary matrix."""
        shape = each.shape
        packed = self.packed.get(source.removesuffix(".weight"))
        read: ReadMatrix
        if packed is not None:
            if packed.shape != shape:
                raise refused(
                    f"tensor {quote(source)} packs the shape {list(packed.shape)}; config.json gives {list(shape)}"
                )
            rule, read = "packed", partial(packed_matrix, packed)
        else:
            stored = self.stored(source, shape)
            rule = self.choices.rule or self._rule(stored)
            read = partial(float_matrix, stored, rule, self.choices.threads, self.room)
        read = partial(self.ordered, each.word, read)
        self.matrices.append((shape, rule, read))
        type = self.choices.types.get(target, self.choices.to)
        if why := why_not(type, shape):
            self.misfits.setdefault(shape, why)
            type = self.choices.fallback or type
        make = partial(_matrix_bytes, target, read, type, self.choices.threads, self.fitting)
        return PlannedTensor(target, shape, type, source, rule, make, read)

    def _rule(self, stored: Stored) -> str:
        """Return the rule for a matrix of floats: ternary already, or float weights of the training."""
        if not looks_ternary(stored):
            if self.family.rule != ABSMEAN and self.mode != "online":
                raise not_ternary(stored)
            return ABSMEAN
        if self.family.rule == ABSMEAN and self.mode == "online":
            raise refused(
                f"tensor {quote(stored.name)} is ternary already, and quantization_mode online would quantize it again: "
                "the scale shrinks by the share of zeros. --rule ternary keeps the weights, --rule absmean converts them as "
                "transformers does"
            )
        return "ternary"

    def table(self, module: str, words: tuple[str, ...]) -> PlannedTensor:
        source = "lm_head.weight" if module == "lm_head" else self.source(module)
        stored = self.stored(source, self.shape(words))
        name = f"{WHOLE[module]}.weight"
        type = self.choices.types.get(name, self.choices.embedding)
        return PlannedTensor(
            name, stored.shape, type, source, "", partial(_table_bytes, name, stored, type, self.choices.threads)
        )

    def floats(
        self,
        source: str,
        target: str,
        shape: tuple[int, ...],
        change: Change | None = None,
        file_shape: tuple[int, ...] | None = None,
    ) -> PlannedTensor:
        """Return a float tensor that is stored as F32, where no other type is chosen for it.

        :param change: changes all its values
        :param file_shape: its shape in the file, if it differs
        """
        type = self.choices.types.get(target, "F32")
        make = partial(_float_bytes, target, self.stored(source, shape), type, change)
        return PlannedTensor(target, file_shape or shape, type, source, "", make)

    def added(self, gains: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the gains of a norm as factors."""
        return gains + np.float32(self.family.norm_offset) if self.family.norm_offset else gains

    def changed(self, each: LayerTensor, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the floats of the file: norms as factors, decays as -exp(A_log), rounded once, value heads reordered."""
        if each.word.endswith("_norm") and each.word != "ssm_norm":
            return self.added(values)
        if each.word == "ssm_a":
            with np.errstate(over="ignore"):
                values = (-np.exp(values.astype(np.float64))).astype(np.float32)
            if not np.isfinite(values).all():
                raise refused(f"tensor {quote(each.source)} has values whose exponential is no float32")
        places = tiled_heads(self.sizes.h.net, each.word)
        return values if places is None else values.reshape(each.shape)[places]

    def check_types(self) -> None:
        """Refuse matrices that the type cannot hold, and name the types that can."""
        if self.misfits and self.choices.fallback is None:
            shape, why = next(iter(self.misfits.items()))
            rest = f" The types that can hold all matrices are {', '.join(self.fitting())}."
            raise refused(f"{self.choices.to} cannot hold a matrix of shape {list(shape)}: {why}.{rest}")
        rules = {rule for _, rule, _ in self.matrices}
        if len(rules) > 1:
            way = "" if "packed" in rules else "; --rule absmean converts all of them as BitLinear does"
            raise refused(f"the matrices need different rules: {', '.join(sorted(rules))}{way}")

    def fitting(self) -> list[str]:
        """Return the types that can hold all matrices with their scales; those that are ternary already are read for
        this.
        """
        left = list(TARGETS)
        for shape, rule, read in self.matrices:
            left = [type for type in left if not why_not(type, shape)]
            if rule == TERNARY:
                matrix = read()
                left = [type for type in left if isinstance(matrix, TernaryMatrix) and _keeps_scales(type, matrix)]
        return left


def _matrix_bytes(
    name: str,
    read: ReadMatrix,
    type: str,
    threads: int,
    fitting: Callable[[], list[str]],
) -> Iterator[bytes]:
    matrix = read()
    scales = matrix.scales.shape
    if scales[1] > 1 or scales[0] > 1:
        group = matrix.shape[1] // scales[1]
        if not _group_fits(type, group, matrix.shape[1]):
            raise refused(
                f"tensor {quote(name)} has a scale for every {counted(group, 'weight')}, which {type} cannot store; "
                f"{', '.join(fitting())} can store all matrices"
            )
    yield from encoded(name, matrix, type, threads)


def _float_bytes(name: str, stored: Stored, type: str, change: Change | None) -> Iterator[bytes]:
    """Yield the words of a tensor that is small: a vector, or the columns of a few heads."""
    values = np.concatenate([*float_windows(stored)])
    yield float_words(name, values if change is None else change(values), type)


def _table_bytes(name: str, stored: Stored, type: str, threads: int) -> Iterator[Any]:
    """Yield the words of a table in another type, a window at a time, with several threads."""
    check_type(stored)
    width = width_of(stored.dtype)
    count = stored.nbytes // width

    def made(start: int) -> Any:
        stop = min(start + WINDOW, count)
        words = np.frombuffer(stored.read(start * width, stop * width), dtype=np.uint8)
        found, odd = change_words(words, stored.dtype, type)
        return float_words(name, floats(stored, start, stop), type) if odd else found.data  # this reports the error

    yield from in_order(made, range(0, count, WINDOW), threads)


# --- target types ----------------------------------------------------------------------------------------------------
# Trits with one scale, or with one for each group, in the types that can hold them. Every encoded window is decoded
# again and compared before it is returned (`Encoder.proved`).

#: Types of float tables.
FLOAT_TYPES: Final = tuple(FLOAT_WORDS)


def why_not(type: str, shape: tuple[int, ...]) -> str | None:
    """Explain why a type cannot hold a matrix of a shape; None if it can."""
    try:
        Encoder(TernaryEncoding(type, shape), np.float32(1))
    except ValueError as error:
        return str(error)
    return None


def _group_fits(type: str, group: int, cols: int) -> bool:
    """Whether a type can store a scale for every group of a row of so many columns."""
    if type not in BLOCK_TYPES:
        return type in FLOAT_TYPES
    own = BLOCK_TYPES[type].group_elements(cols)
    return bool(own) and group % own == 0


def _keeps_scales(type: str, matrix: TernaryMatrix) -> bool:
    """Whether a type stores the scales of a matrix, which its shape fits."""
    scales, (rows, cols) = matrix.scales, matrix.shape
    if scales.size == 1:
        try:
            Encoder(TernaryEncoding(type, (rows, cols)), matrix.scale)
        except ValueError:
            return False
        return True
    if not _group_fits(type, cols // scales.shape[1], cols):
        return False
    with np.errstate(over="ignore"):
        rounded = {"F16": scales.astype(np.float16).astype(np.float32), "BF16": from_bfloat16(to_bfloat16(scales))}
    return type not in rounded or np.array_equal(rounded[type], scales)


def encoded(name: str, matrix: TernaryMatrix | FloatMatrix, type: str, threads: int) -> Iterator[bytes]:
    """Yield the bytes of a matrix, a window at a time.

    :raises FormatError: H104 for scales that the type cannot hold
    """
    try:
        if isinstance(matrix, TernaryMatrix) and matrix.scales.size > 1:
            yield from _grouped(name, matrix, type)
            return
        encoder = Encoder(TernaryEncoding(type, matrix.shape), matrix.scale)
        size, unit = encoder.encoding.elements, encoder.encoding.unit
        step = max(WINDOW // unit, 1) * unit

        def made(start: int) -> bytes:
            return encoder.proved(matrix.window(start, min(start + step, size)))

        yield from in_order(made, range(0, size, step), threads)
        yield encoder.tail()
    except ProofError:
        raise
    except ValueError as error:
        raise error if hasattr(error, "fault") else refused(f"tensor {quote(name)}: {error}") from None


def _grouped(name: str, matrix: TernaryMatrix, type: str) -> Iterator[bytes]:
    rows, cols = matrix.trits.shape
    group = cols // matrix.scales.shape[1]
    if type in FLOAT_TYPES:
        step = max(WINDOW // cols, 1)
        for start in range(0, rows, step):
            scales = np.repeat(matrix.scales[start : start + step], group, axis=1)
            yield float_words(name, matrix.trits[start : start + step] * scales, type, exact=True)
        return
    target = BLOCK_TYPES[type].group_elements(cols)
    scales = np.repeat(matrix.scales, group // target, axis=1)
    used = matrix.trits.reshape(rows, -1, target).any(axis=2)
    scales = np.where(used, scales, np.float32(0))
    data: bytes = blocks_native.pack(matrix.trits, scales.reshape(-1), type)
    trits, stored = blocks_native.unpack(data, (rows, cols), type)
    rounded = scales if BLOCK_TYPES[type].scale.type == "F32" else scales.astype(np.float16).astype(np.float32)
    if not np.array_equal(trits, matrix.trits) or not np.array_equal(stored.reshape(rows, -1), rounded):
        raise ProofError(f"{type} does not give back what was written of {name}")
    yield data


def float_words(name: str, values: NDArray[np.float32], type: str, exact: bool = False) -> bytes:
    """Return floats as little-endian words of a type, rounded to nearest, ties to even.

    :param exact: refuse what would be rounded
    :raises FormatError: H104 for values that the type cannot represent
    """
    if type == "F32":
        return values.astype("<f4").tobytes()
    if type == "BF16":
        words = to_bfloat16(values).astype("<u2")
        back = from_bfloat16(words)
    else:
        with np.errstate(over="ignore"):
            halves = values.astype("<f2")
        words, back = halves.view("<u2"), halves.astype(np.float32)
    if not np.isfinite(back).all():
        raise refused(
            f"tensor {quote(name)} has values up to {np.abs(values).max():.4g}, which {type} cannot represent"
        )
    if exact and not np.array_equal(back, values):
        raise refused(f"tensor {quote(name)} has scales that {type} would round; F32 keeps them")
    return words.tobytes()
