"""Quantization of whole models: float projections of a GGUF file become trits, and the loss is measured.

This destroys a model that was not trained with ternary weights: nothing here trains. The loss of a tensor does not show
this, because the float masters of ternary models lose as much. Perplexity before and after shows it.

    >>> import io
    >>> from i2s_spec.convert.new import new
    >>> from i2s_spec.gguf.reader import open
    >>> model, copy = io.BytesIO(), io.BytesIO()
    >>> _ = new(model, layers=1, type="F16")
    >>> result = quantize_model(open(model), copy)
    >>> str(result.losses[0])
    'blk.0.ffn_down.weight: F16 -> I2_S, ternary already, scale 0.0881958008, 50.0 % zeros, relative L2 0'
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from i2s_spec.codec import blocks_native
from i2s_spec.codec.blocks_native import quantize as quantize_blocks
from i2s_spec.codec.encoding import TernaryEncoding
from i2s_spec.codec.quantize import RULES, ternarise, ternary_magnitude
from i2s_spec.convert.convert_file import FLOATS, form_label, is_ternary, wanted_form
from i2s_spec.convert.encode import Encoder
from i2s_spec.convert.rewrite import Replacement, changed_keys, rewrite
from i2s_spec.errors import counted, quote
from i2s_spec.gguf.reader import takes_file
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, GROUP_LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.source import Origin
    from i2s_spec.gguf.writer import Progress
    from i2s_spec.schema.dialect import Dialect

#: The rule of training (clause 8.1): the mean magnitude is the scale. Weights that are -s, 0 and +s keep s (R8.5-2).
ABSMEAN: Final = "absmean"
#: The quantizer of the type itself, which uses the largest magnitude of each block or row as its scale.
BY_GROUP: Final = "by-group"
#: The allowed values of `rule`.
MODEL_RULES: Final = (ABSMEAN, BY_GROUP, *(name for name, rule in RULES.items() if not rule.unit))

#: Fewest elements that are encoded and compared at once.
_WINDOW: Final = 1 << 20

DESTROYED: Final = (
    "A model that was not trained with ternary weights is destroyed by quantization: it still runs, but its "
    "output is worthless. Only the float masters of a model that was trained with ternary weights survive it."
)


class Loss(NamedTuple):
    """The loss of a tensor: |w - w'| / |w| over all its weights, and how many trits are 0.

    `scale` is the stored scale, NaN if each group has its own; `was_ternary` says whether the weights were -s, 0 and +s
    already, so that only the rounding of s can lose anything. `squares` are the sums for `relative`.
    """

    name: str
    shape: tuple[int, ...]
    source: str
    target: str
    scale: float
    zeros: float
    relative: float
    was_ternary: bool
    squares: tuple[float, float]

    def __str__(self) -> str:
        scale = "scales by group" if math.isnan(self.scale) else f"scale {self.scale:.9g}"
        known = "ternary already, " if self.was_ternary else ""
        return (
            f"{quote(self.name, bare=True)}: {self.source} -> {self.target}, {known}{scale}, {self.zeros:.1%} zeros, "
            f"relative L2 {self.relative:.4g}"
        ).replace("%", " %")


class QuantizedModel(NamedTuple):
    """The result of a quantization."""

    #: Bytes of the new file.
    size: int
    losses: tuple[Loss, ...]
    #: How many tensors were copied unchanged.
    copied: tuple[str, ...]
    #: `general.file_type` before and after; None where there is none.
    file_type: tuple[int | None, int | None]
    #: Notes on the result.
    notes: tuple[str, ...]

    @property
    def relative(self) -> float:
        """|w - w'| / |w| over the weights of all tensors that were quantized."""
        lost, whole = (sum(loss.squares[i] for loss in self.losses) for i in (0, 1))
        return math.sqrt(lost / whole) if whole else 0.0


@takes_file
def quantize_model(
    file: Origin,
    target: Target,
    *,
    to: str = "I2_S",
    rule: str = ABSMEAN,
    keep: Collection[str] = (),
    also: Collection[str] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> QuantizedModel:
    """Copy a GGUF file with its float projections quantized to trits, tensor by tensor.

    Embeddings, head, norms and biases stay unchanged. One tensor is in memory at a time.

    :param file: a `File`, or an argument of `open`, with F32, F16 or BF16 tensors
    :param target: a path, or a binary stream
    :param to: I2_S, the name of one of its dialects, or a type with group scales, such as Q2_0
    :param rule: one of `MODEL_RULES`; `by-group` is for types with group scales
    :param keep: names or patterns (`blk.0.*`) of projections that stay floats
    :param also: names or patterns of other matrices to quantize, such as `token_embd.weight`
    :param force: replace an existing file
    :param progress: called now and then with (bytes written, bytes of the copy)
    :raises ValueError: for unknown names, patterns that match nothing, infinite weights and NaN, rows that the type
        cannot hold (R8.5-1), and a file without float projections; nothing is written then
    :raises FormatError, OSError: as `rewrite` does
    """
    if file.fault is not None:
        raise file.fault
    kind, dialect = wanted_form(to)
    assert kind is not None
    if kind in FLOATS:
        raise ValueError(
            f"{kind} is not a ternary type; a model can be quantized to I2_S and {', '.join(GROUP_LAYOUTS)}"
        )
    if rule not in MODEL_RULES:
        raise ValueError(f"unknown rule {quote(rule)}; there are: {', '.join(MODEL_RULES)}")
    if rule == BY_GROUP and kind not in BLOCK_LAYOUTS:
        what = "one scale for a tensor" if kind not in GROUP_LAYOUTS else "no known quantizer"
        raise ValueError(f"{kind} has {what}; the rule {BY_GROUP} is for {', '.join(BLOCK_LAYOUTS)}")
    architecture = file.metadata.get("general.architecture")
    architecture = architecture if isinstance(architecture, str) else None
    chosen = _chosen(file, architecture, keep, also)

    losses: dict[str, Loss] = {}
    replacements = {}
    for tensor in chosen:
        form = _form(tensor, kind, dialect, file)
        replacements[tensor.name] = Replacement(kind, partial(_quantized, tensor, form, rule, losses))
    types = Counter(
        kind if t.name in replacements else t.type.name if t.type else str(t.number)
        for t in file.tensors.rows
        if len(t.ne) > 1
    )
    values, file_type = changed_keys(file, architecture, None, None, types, True)
    size = rewrite(file, target, replace=replacements, set=values, force=force, progress=progress)
    copied = tuple(tensor.name for tensor in file.tensors.rows if tensor.name not in replacements)
    return QuantizedModel(size, tuple(losses.values()), copied, file_type, tuple(_notes(losses.values(), rule)))


def _chosen(file: File, architecture: str | None, keep: Collection[str], also: Collection[str]) -> list[Tensor]:
    """Return the tensors to quantize, in the order of the file."""
    for patterns in (keep, also):
        if isinstance(patterns, str):
            raise TypeError("tensors are given as a list of names, not as one text")
    floats = [t for t in file.tensors.values() if t.type is not None and t.type.name in FLOATS and len(t.ne) == 2]
    projections = {tensor.name for tensor in floats if is_ternary(tensor, architecture)}
    for pattern in keep:
        found = {name for name in projections if name == pattern or fnmatchcase(name, pattern)}
        if not found:
            raise ValueError(f"no float projection matches {quote(pattern)}")
        projections -= found
    for pattern in also:
        found = {tensor.name for tensor in floats if tensor.name == pattern or fnmatchcase(tensor.name, pattern)}
        if not found:
            raise ValueError(f"no other float matrix matches {quote(pattern)}")
        projections |= found
    if not projections:
        what = "the file has" if architecture in ARCHITECTURES else "a file of an unknown architecture has"
        raise ValueError(
            f"{what} no float projections to quantize; `i2s convert` changes the type of matrices that are ternary already"
        )
    return [tensor for tensor in floats if tensor.name in projections]


def _form(tensor: Tensor, kind: str, dialect: Dialect, file: File) -> TernaryEncoding:
    """Return the new form of a tensor.

    :raises ValueError: if the type cannot hold it
    """
    try:
        form = TernaryEncoding(kind, tensor.shape, dialect, file.byte_order)
        Encoder(form, np.float32(1))
    except ValueError as error:
        raise ValueError(f"tensor {quote(tensor.name)}: {error}; name it in keep to leave it unchanged") from None
    return form


class _Sums:
    """Measures the loss of a tensor, window by window."""

    def __init__(self) -> None:
        self.lost = self.whole = 0.0
        self.zeros = 0

    def add(self, weights: NDArray[np.float32], trits: NDArray[np.int8], stored: NDArray[np.float32]) -> None:
        wide = weights.astype(np.float64)
        self.whole += float(np.dot(wide, wide))
        wide -= stored
        self.lost += float(np.dot(wide, wide))
        self.zeros += int(trits.size - np.count_nonzero(trits))


def _quantized(tensor: Tensor, form: TernaryEncoding, rule: str, losses: dict[str, Loss]) -> Iterator[bytes]:
    """Yield the bytes of a tensor; its loss is known after the last of them."""
    weights = tensor.array().astype(np.float32, copy=False)
    if not np.isfinite(weights).all():
        raise ValueError(f"tensor {quote(tensor.name)} has infinities or NaN among its weights")
    known = ternary_magnitude(weights) is not None
    sums = _Sums()
    scale = math.nan
    if rule == BY_GROUP:
        yield from _by_group(weights, form, sums)
    else:
        name = rule if rule != ABSMEAN else "absmax" if known else "embedding-mean"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the notes say this for all tensors together
            trits, factor = ternarise(weights, name)
        try:
            encoder = Encoder(form, factor)
        except ValueError as error:
            raise ValueError(f"tensor {quote(tensor.name)}: {error}") from None
        scale = float(encoder.stored)
        flat, values = trits.reshape(-1), weights.reshape(-1)
        step = max(1, _WINDOW // form.unit) * form.unit
        for start in range(0, flat.size, step):
            part = flat[start : start + step]
            yield encoder.proved(part)
            sums.add(values[start : start + step], part, part * encoder.stored)
        yield encoder.tail()
    losses[tensor.name] = Loss(
        tensor.name,
        tensor.shape,
        tensor.type.name if tensor.type is not None else "",
        form_label(form) if form.type != "I2_S" or form.dialect.layout.name != "interleave-128" else "I2_S",
        scale,
        sums.zeros / weights.size,
        math.sqrt(sums.lost / sums.whole) if sums.whole else 0.0,
        known,
        (sums.lost, sums.whole),
    )


def _by_group(weights: NDArray[np.float32], form: TernaryEncoding, sums: _Sums) -> Iterator[bytes]:
    """Yield the bytes that the type's own quantizer makes, whole rows at a time."""
    rows = weights.reshape(form.rows, form.cols)
    step = max(1, _WINDOW // form.cols)
    for start in range(0, form.rows, step):
        part = rows[start : start + step]
        data = quantize_blocks(part, form.type, byte_order=form.byte_order)
        stored = blocks_native.dequantize(data, part.shape, form.type, byte_order=form.byte_order)
        sums.add(part.reshape(-1), np.sign(stored).astype(np.int8).reshape(-1), stored.reshape(-1))
        yield data


def _notes(losses: Collection[Loss], rule: str) -> Iterator[str]:
    known = sum(loss.was_ternary for loss in losses)
    if known < len(losses):
        yield DESTROYED
    if known and rule == ABSMEAN:
        yield (
            f"{known} of {counted(len(losses), 'tensor')} had only -s, 0 and +s already, and s is kept: "
            f"a mean would be smaller (R8.5-2)."
        )
    elif known and rule in RULES and RULES[rule].mean:
        yield (
            f"{known} of {counted(len(losses), 'tensor')} had only -s, 0 and +s already; {rule} "
            f"stores their mean, not s (R8.5-2)."
        )
    if rule in RULES and RULES[rule].destroys and known < len(losses):
        yield f"The rule {rule} expects -s, 0 and +s; of other weights {RULES[rule].destroys}."
