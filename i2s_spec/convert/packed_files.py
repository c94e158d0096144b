"""Conversion of the weights of GGUF files to packed Hugging Face checkpoints, and back.

A checkpoint gets a GGUF file's tensors under the names that transformers uses; config.json and tokenizer must come from
the model. In the other direction, packed weights replace those of an existing GGUF file: keys, vocabulary and all other
tensors stay. Rows are reordered if the architecture requires it (see `safetensors.names`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from i2s_spec.codec.encoding import WINDOW, TernaryEncoding
from i2s_spec.codec.shape import FLOAT_WORDS
from i2s_spec.convert.convert_file import Conversion, Proof, advice, form_label, is_ternary, wanted_form
from i2s_spec.convert.encode import Encoder
from i2s_spec.convert.rewrite import Replacement, changed_keys, rewrite
from i2s_spec.errors import quote
from i2s_spec.gguf.byte_order import swapped_data
from i2s_spec.gguf.source import chunks
from i2s_spec.gguf.writer_forms import usual_form
from i2s_spec.safetensors.files import Checkpoint, NewTensor, write_checkpoint
from i2s_spec.safetensors.names import WHOLE, gguf_name, heads_that_move, module_name, to_checkpoint_rows, to_gguf_rows
from i2s_spec.safetensors.packed import (
    Convention,
    PackedMatrix,
    PackedWeights,
    checked_convention,
    configured,
    packed_tensors,
    stored_scale,
)
from i2s_spec.schema.architectures import declared_architecture
from i2s_spec.schema.dialect import CANONICAL, Dialect

if TYPE_CHECKING:
    from i2s_spec.codec.encoding import Trits
    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.writer import Progress


class Exported(NamedTuple):
    """The result: bytes of the checkpoint, proofs, copied tensors, and tensors without a name in checkpoints."""

    size: int
    proofs: tuple[Proof, ...]
    copied: int
    left_out: tuple[str, ...]


def to_checkpoint(
    file: File,
    path: str | os.PathLike[str],
    *,
    weight_scale: Convention = "multiply",
    scale_type: str = "F32",
    source_dialect: str | Dialect | None = None,
    force: bool = False,
    progress: Progress | None = None,
    threads: int = 1,
) -> Exported:
    """Write the tensors of a GGUF file as a packed checkpoint.

    Ternary matrices are packed, floats are copied (with swapped bytes if the file is big-endian).

    :param weight_scale: whether `weight_scale` multiplies (2B-4T) or divides
    :param scale_type: F32, which is exact, or BF16, as in published checkpoints
    :param source_dialect: the dialect of I2_S in the file, as for `convert_file`
    :raises ValueError: for an architecture without such checkpoints, other types, tensors that are not ternary
    :raises FormatError, OSError: as `convert_file` does
    """
    if file.fault is not None:
        raise file.fault
    file, form = usual_form(file)
    source_dialect = source_dialect or (CANONICAL if form is None else form.dialect)
    architecture = file.metadata.get("general.architecture")
    tensors: list[NewTensor] = []
    proofs: list[Proof] = []
    left_out: list[str] = []
    for tensor in file.tensors.values():
        module = module_name(tensor.name)
        if module is None:
            left_out.append(tensor.name)
        elif is_ternary(tensor, architecture if isinstance(architecture, str) else None):
            if module in WHOLE:
                raise ValueError(
                    f"tensor {quote(tensor.name)} is ternary, but checkpoints pack only the matrices of layers"
                )
            source = tensor.ternary(source_dialect)
            heads = heads_that_move(file, tensor.name)
            scale = stored_scale(source.scale, checked_convention(weight_scale), scale_type)
            trits = _checkpoint_trits(source, heads, threads)
            tensors += packed_tensors(module, tensor.shape, trits, scale, scale_type)
            label = f"packed, weight_scale in {scale_type}"
            proofs.append(Proof(tensor.name, tensor.shape, form_label(source.encoding), label, scale.rounding))
        else:
            tensors.append(_copied(file, tensor, module))
    size = write_checkpoint(path, tensors, force=force, progress=progress, before_end=file.require_unchanged)
    return Exported(size, tuple(proofs), len(tensors) - 2 * len(proofs), tuple(left_out))


def _checkpoint_trits(source: Trits, heads: int | None, threads: int) -> Callable[[], Any]:
    def make() -> Any:
        trits, _ = source.whole(threads)
        return trits if heads is None else to_checkpoint_rows(trits, heads)

    return make


def _copied(file: File, tensor: Tensor, module: str) -> NewTensor:
    """Return a float tensor unchanged, in little-endian order."""
    name = tensor.type.name if tensor.type is not None else f"type {tensor.number}"
    if name not in FLOAT_WORDS:
        raise ValueError(f"tensor {quote(tensor.name)} is {name}, a type that checkpoints do not have")
    span = tensor.span
    tensor.require(span)
    if file.byte_order == "big":
        data: Callable[[], Iterator[bytes]] = swapped_data(file.source, tensor)
    else:
        data = lambda: chunks(file.source, span.start, span.stop)  # noqa: E731
    return NewTensor(f"{module}.weight", name, tensor.shape, data)


def from_checkpoint(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    model: File,
    target: Target,
    *,
    weight_scale: Convention | Literal["auto"] = "auto",
    to: str = "I2_S",
    dialect: str | Dialect | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Copy a GGUF file with its weights replaced by the packed weights of a checkpoint.

    :param paths: a safetensors file, a folder of them, or several
    :param model: the file with everything else
    :param weight_scale: whether it multiplies or divides; `auto` reads the config.json beside the checkpoint
    :param to: one of `TYPES`, or a dialect of I2_S
    :raises ValueError: for weights without a tensor of the same shape in the model, and as `convert_file`
    """
    if model.fault is not None:
        raise model.fault
    kind, wanted = wanted_form(to, dialect)
    assert kind is not None
    convention = configured(paths) if weight_scale == "auto" else checked_convention(weight_scale)
    with Checkpoint(paths) as checkpoint:
        weights = PackedWeights(checkpoint, convention)
        if not weights:
            raise ValueError("the checkpoint has no packed weights: no uint8 matrix with a weight_scale")
        replacements: dict[str, Replacement] = {}
        proofs: list[Proof] = []
        for module, matrix in weights.matrices.items():
            name = gguf_name(module)
            if name is None or name not in model.tensors:
                raise ValueError(f"the model has no tensor for {quote(module)}{f', no {name}' if name else ''}")
            tensor = model.tensors[name]
            if tensor.shape != matrix.shape:
                raise ValueError(
                    f"{quote(module)} has the shape {list(matrix.shape)}, and {name} in the model {list(tensor.shape)}"
                )
            form = TernaryEncoding(kind, tensor.shape, wanted, model.byte_order)
            try:
                encoder = Encoder(form, matrix.scale)
            except ValueError as error:
                raise ValueError(f"{quote(module)}: {error}") from None
            replacements[name] = Replacement(
                kind, checkpoint.unchanged(_gguf_data(matrix, encoder, heads_that_move(model, name)))
            )
            proofs.append(Proof(name, tensor.shape, "packed", form_label(form), encoder.rounding))
        types = Counter(
            replacements[t.name].type if t.name in replacements else t.type.name if t.type else str(t.number)
            for t in model.tensors.rows
            if len(t.ne) > 1
        )
        values, file_type = changed_keys(model, None, None, None, types, True)
        size = rewrite(model, target, replace=replacements, set=values, force=force, progress=progress)
    architecture = model.metadata.get("general.architecture")
    declared = declared_architecture(architecture, model.metadata, model.tensors)
    architecture = architecture if declared is None else declared.name
    text = advice(set(types), architecture, None, wanted.layout.name if kind == "I2_S" else None)
    return Conversion(size, tuple(proofs), len(model.tensors) - len(proofs), file_type, text)


def _gguf_data(matrix: PackedMatrix, encoder: Encoder, heads: int | None) -> Callable[[], Iterator[bytes]]:
    def make() -> Iterator[bytes]:
        trits = matrix.trits()
        flat = (trits if heads is None else to_gguf_rows(trits, heads)).reshape(-1)
        step = max(WINDOW // encoder.encoding.unit, 1) * encoder.encoding.unit
        for start in range(0, flat.size, step):
            yield encoder.proved(np.ascontiguousarray(flat[start : start + step]))
        yield encoder.tail()

    return make
