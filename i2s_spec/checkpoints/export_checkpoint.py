"""Make a checkpoint of a GGUF file: a folder that transformers loads, with its configuration files.

    packed   uint8 matrices with `weight_scale` in F32, which multiplies (`linear_class: autobitlinear`, `offline`) or
             divides (`bitlinear`, as in Falcon3 and Llama3-8B-1.58); other tensors in F32, or the tables in another type
    F32 ...  floats: trit times scale; without a quantization_config, so that activations are not quantized

Some programs quantize floats by their mean magnitude when they load or run them: transformers with `quantization_mode:
online`, litespark, llama.cpp's converter. That multiplies the scale of ternary weights by the share of weights that are
not 0. With `for_absmean`, weights are divided by that share, so that these programs find the trits and the scale.

The folder is complete or does not exist: it is made under another name, and renamed when all files are written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.checkpoints.export_tokenizer import tokenizer_files
from i2s_spec.checkpoints.families import BY_FAMILY, PROJECTIONS, SHAPES, WEIGHT_SCALE, Family
from i2s_spec.checkpoints.plan import FLOAT_TYPES, float_words
from i2s_spec.checkpoints.receipt_checks import FileMatrix, floats_of, matrix_of
from i2s_spec.codec.quantize import SMALLEST_SCALE
from i2s_spec.codec.shape import from_bfloat16
from i2s_spec.errors import FormatError, SettingError, counted, quote
from i2s_spec.gguf.atomic_file import publish_folder, unfinished_folder
from i2s_spec.gguf.reader import takes_file
from i2s_spec.safetensors.files import NewTensor, write_checkpoint
from i2s_spec.safetensors.names import to_checkpoint_rows
from i2s_spec.safetensors.packed import checked_convention, packed_tensors, stored_scale
from i2s_spec.schema.architectures import ARCHITECTURES, Architecture, declared_architecture, hyperparameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.source import Origin
    from i2s_spec.gguf.writer import Progress
    from i2s_spec.safetensors.packed import Convention
    from i2s_spec.schema.architectures import Hyperparameters

FORMS: Final = ("packed", *FLOAT_TYPES)

#: Whose class and tensor names: transformers' own, or those of 1bitLLM, which llama.cpp's converter reads.
NAMES: Final = ("transformers", "1bitllm")

_DTYPES: Final = {"packed": "float32", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_WHOLE: Final = {"token_embd.weight": "embed_tokens", "output_norm.weight": "norm", "output.weight": "lm_head"}


class _Choices(NamedTuple):
    """How tensors are written. `shares` collects the share of weights that are not 0 of each ternary matrix, `rounded` the
    tables that were rounded, `inexact` the matrices whose scale is no reciprocal."""

    form: str
    embedding: str
    for_absmean: bool
    convention: Convention
    shares: list[float]
    rounded: list[str]
    inexact: list[str]


class ExportedFolder(NamedTuple):
    """The result: bytes of the weights, the class of transformers, and the numbers of matrices and other tensors."""

    size: int
    class_name: str
    matrices: int
    others: int
    notes: tuple[str, ...]


@takes_file
def export_checkpoint(
    file: Origin,
    folder: str | os.PathLike[str],
    *,
    form: str = "packed",
    mode: str = "offline",
    for_absmean: bool = False,
    weight_scale: str = "multiply",
    embedding: str | None = None,
    names: str = "transformers",
    progress: Progress | None = None,
) -> ExportedFolder:
    """Write a GGUF file as a checkpoint for transformers.

    :param file: a `File`, or an argument of `open`
    :param folder: the new folder; it must not exist
    :param form: `packed`, or the type of the floats: F32, F16, BF16
    :param mode: `quantization_mode`; `online` is right only with `for_absmean`, which needs no `mode`
    :param for_absmean: floats for programs that quantize by the mean magnitude, whose rule gives back trits and scale;
        config.json says `online`
    :param weight_scale: whether the scales beside packed matrices `multiply` or `divide`
    :param embedding: the type of the embedding and the head; None for that of the matrices, or F32 beside packed ones
    :param names: one of `NAMES`: whose class and tensor names are written
    :raises FileExistsError: if the folder exists
    :raises SettingError: for choices that exclude each other, for architectures without a class, for settings that
        config.json cannot describe
    :raises FormatError: for a file that is broken, S903 for one that changes meanwhile; nothing is written
    """
    if form not in FORMS:
        raise SettingError(f"matrices cannot be exported as {quote(form)}; there are: {', '.join(FORMS)}")
    if mode != "offline" and not (for_absmean and mode == "online"):
        raise SettingError(
            f"quantization_mode {quote(mode)} is not supported: transformers would quantize the ternary weights "
            "again, and every scale would shrink by the share of zeros. Use offline, or floats with --for-absmean"
        )
    packed = form == "packed"
    if for_absmean and packed:
        raise SettingError("--for-absmean is for floats: choose --form BF16, F16 or F32")
    if weight_scale != "multiply" and not packed:
        raise SettingError("floats have no weight_scale; --weight-scale is for --form packed")
    if names == "1bitllm" and packed:
        raise SettingError("1bitLLM's class has floats: choose --form BF16, F16 or F32, with --for-absmean")
    tables = embedding or ("F32" if packed else form)
    if tables not in FLOAT_TYPES:
        raise SettingError(f"the embedding cannot be {quote(tables)}; there are: {', '.join(FLOAT_TYPES)}")
    choices = _Choices(form, tables, for_absmean, checked_convention(weight_scale), [], [], [])
    if file.fault is not None:
        raise file.fault
    target = os.path.abspath(os.fsdecode(folder))
    if os.path.lexists(target):
        raise FileExistsError(17, "File exists", target)
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(2, "the folder for the checkpoint does not exist", os.fsdecode(folder))
    exported, h = class_of(file, names), sizes_of_file(file)
    tied = "output.weight" not in file.tensors or exported.family.tied
    tensors = list(_tensors(file, exported, h, choices, tied))
    linear = _linear(choices, exported)
    texts: dict[str, Any] = {
        "config.json": config_json(file, exported, tied, linear, _DTYPES[form]),
        "generation_config.json": generation_json(file),
        **tokenizer_files(file),
    }
    with unfinished_folder(target) as part:
        for name, content in texts.items():
            data = content if isinstance(content, bytes) else (json.dumps(content, indent=1) + "\n").encode()
            with open(os.path.join(part, name), "wb") as stream:
                stream.write(data)
        new = [tensor for each in tensors for tensor in each]
        size = write_checkpoint(os.path.join(part, "model.safetensors"), new, progress=progress)
        file.require_unchanged()
        if os.path.lexists(target):  # it was created meanwhile
            raise FileExistsError(17, "File exists", target)
        publish_folder(part, target)
    matrices = sum(name.endswith(".weight") and name.split(".")[-2] in PROJECTIONS for name in file.tensors)
    notes = (*_scale_notes(choices, linear), *_other_programs(exported, form))
    return ExportedFolder(size, exported.name, matrices, len(file.tensors) - matrices, notes)


def _tensors(
    file: File, exported: ExportClass, h: Hyperparameters, choices: _Choices, tied: bool
) -> Iterator[tuple[NewTensor, ...]]:
    modules = {name: module for module, name in exported.family.layer.items()}
    seen = set()
    for tensor in file.tensors.values():
        name, _, end = tensor.name.rpartition(".")
        if tensor.name in _WHOLE:
            if tensor.name == "output.weight" and tied:
                continue
            module = _WHOLE[tensor.name]
            module = module if module == "lm_head" else exported.prefix + module
            offset = exported.family.norm_offset if module.endswith("norm") else 0.0
            seen.add(tensor.name)
            yield (_floats(tensor, f"{module}.weight", offset, choices),)
            continue
        parts = name.split(".", 2)
        word = parts[-1]
        bias = end == "bias" and modules.get(word) in exported.family.biases
        if (
            len(parts) != 3
            or parts[0] != "blk"
            or not parts[1].isdigit()
            or word not in modules
            or not (bias or end == "weight")
        ):
            raise SettingError(f"tensor {quote(tensor.name)} has no name in a checkpoint of {exported.name}")
        want = tuple(getattr(h, size) for size in (SHAPES[word][:1] if bias else SHAPES[word]))
        if tensor.shape != want:
            raise SettingError(f"tensor {quote(tensor.name)} has the shape {list(tensor.shape)}, not {list(want)}")
        module = f"{exported.prefix}layers.{parts[1]}.{modules[word]}"
        seen.add(tensor.name)
        if bias:
            yield (_floats(tensor, f"{module}.bias", 0.0, choices),)
        elif word in PROJECTIONS:
            yield _matrix(file, tensor, module, word, h, choices)
        else:
            offset = 0.0 if word.endswith("_in") else exported.family.norm_offset
            yield (_floats(tensor, f"{module}.weight", offset, choices),)
    optional = {"output.weight"}
    for name in ("token_embd.weight", "output_norm.weight", *(
        f"blk.{layer}.{word}.weight" for layer in range(h.layers) for word in modules if not word.endswith("_norm_in")
    ), *(
        f"blk.{layer}.{word}.bias" for layer in range(h.layers) for word, module in modules.items()
        if module in exported.family.biases
    )):  # fmt: skip
        if name not in seen and name not in optional:
            raise SettingError(f"the file has no tensor {quote(name)}, which {exported.name} needs")


def _floats(tensor: Tensor, name: str, offset: float, choices: _Choices) -> NewTensor:
    """Return a table in its type, a vector as F32; 1 is subtracted again from Gemma's norms.

    Tables have the type of the matrices, which is that of config.json: litespark and Jlama read no other. Beside packed
    matrices they are F32, because transformers keeps their stored type and would mix F16 with F32.
    """
    kind = tensor.kind
    if kind not in FLOAT_TYPES:
        raise SettingError(f"tensor {quote(tensor.name)} is {kind}, a type that checkpoints do not have")
    tensor.require(tensor.span)
    stored = "F32" if len(tensor.shape) == 1 else choices.embedding

    def data() -> list[bytes]:
        with np.errstate(invalid="ignore"):  # a NaN stays one
            values = floats_of(tensor) - np.float32(offset)
            words = float_words(name, values, stored)
        if stored not in (kind, "F32") and not np.array_equal(_back(words, stored), values, equal_nan=True):
            choices.rounded.append(f"{tensor.name} to {stored}")
        return [words]

    return NewTensor(name, stored, tensor.shape, data)


def _back(words: bytes, type: str) -> NDArray[np.float32]:
    """Return words of F16 or BF16 as float32."""
    stored = np.frombuffer(words, "<u2")
    return from_bfloat16(stored) if type == "BF16" else stored.view("<f2").astype(np.float32)


def _matrix(
    file: File, tensor: Tensor, module: str, word: str, h: Hyperparameters, choices: _Choices
) -> tuple[NewTensor, ...]:
    """Return a matrix, packed with its scale, or as floats; rows of queries and keys in the order of checkpoints."""
    tensor.require(tensor.span)
    heads = None
    declared = ARCHITECTURES.get(str(file.metadata.get("general.architecture")))
    if declared is not None and declared.rope == "norm":
        heads = {"attn_q": h.heads, "attn_k": h.heads_kv}.get(word)
    if choices.form != "packed":
        shape = (int(tensor.shape[0]), int(tensor.shape[1]))
        if choices.for_absmean:
            _check_for_absmean(tensor)
        return (NewTensor(f"{module}.weight", choices.form, shape, partial(_weights, tensor, heads, choices)),)
    matrix = _one_scale(tensor)
    stored = stored_scale(matrix.scales.reshape(-1)[0], choices.convention, "F32")
    if stored.rounding.relative:
        choices.inexact.append(tensor.name)
    return packed_tensors(module, tensor.shape, _again(tensor, heads), stored, "F32")


def _again(tensor: Tensor, heads: int | None) -> Callable[[], Any]:
    """Return the trits, read only when they are written."""

    def made() -> Any:
        trits = _one_scale(tensor).trits
        return trits if heads is None else to_checkpoint_rows(trits, heads)

    return made


def _one_scale(tensor: Tensor) -> FileMatrix:
    """Return the trits of a matrix and its only scale.

    :raises SettingError: for scales that differ, and floats that are not ternary
    """
    name, kind = tensor.name, tensor.kind
    try:
        matrix = matrix_of(tensor)
    except FormatError:
        raise
    except ValueError as error:
        raise SettingError(f"tensor {quote(name)}: {error}") from None
    if matrix is None:
        values = floats_of(tensor)
        sizes = np.unique(np.abs(values[values != 0]))
        if sizes.size != 1:
            raise SettingError(f"tensor {quote(name)} is {kind} and not ternary; --form {kind} exports it as it is")
        return FileMatrix(np.sign(values).astype(np.int8), sizes.reshape(1, 1))
    used = (
        matrix.trits.reshape(*matrix.scales.shape, -1).any(axis=2) if matrix.scales.size > 1 else np.ones((1, 1), bool)
    )
    scales = np.unique(matrix.scales[used])
    if scales.size != 1:
        raise SettingError(
            f"tensor {quote(name)} has {counted(scales.size, 'different scale')}, but a packed "
            f"matrix has one; --form F16 keeps them"
        )
    if int(matrix.trits.max()) > 1:
        raise SettingError(f"tensor {quote(name)} has the weight +2, which a packed matrix cannot store")
    return FileMatrix(matrix.trits, scales.reshape(1, 1))


def _weights(tensor: Tensor, heads: int | None, choices: _Choices) -> Iterator[bytes]:
    matrix = _one_scale(tensor) if choices.for_absmean else matrix_of(tensor)
    if matrix is None:
        weights = floats_of(tensor)
    elif choices.for_absmean:
        weights = for_absmean(matrix.trits, float(matrix.scales.item()), choices.form)
    else:
        group = matrix.trits.shape[1] // matrix.scales.shape[1]
        scales = matrix.scales if matrix.scales.size == 1 else np.repeat(matrix.scales, group, axis=1)
        weights = matrix.trits * scales
    used = np.count_nonzero(weights)
    if used and (matrix is not None or np.abs(weights).max() == np.abs(weights).sum(dtype=np.float64) / used):
        choices.shares.append(used / weights.size)
    yield float_words(tensor.name, weights if heads is None else to_checkpoint_rows(weights, heads), choices.form)


# --- floats for absmean ----------------------------------------------------------------------------------------------
# The mean magnitude of the floats is to be the scale s. Where a share p of the weights is not 0, these are s/p. 16-bit
# floats would round that, by 2**-9 in BF16, so two neighboring numbers are mixed whose mean it is. They differ, and so
# no program takes the weights for ternary ones that keep their values.


def for_absmean(trits: NDArray[np.int8], scale: float, type: str) -> NDArray[np.float32]:
    """Return weights whose mean magnitude is the scale, and which that rule rounds to the trits.

    :param trits: int8 [rows, cols]
    :param type: F32, F16 or BF16: the type in which the weights are exact
    :returns: float32 [rows, cols]
    """
    used = np.flatnonzero(trits)
    found = np.zeros(trits.shape, dtype=np.float32)
    if used.size:
        size = scale * trits.size / used.size
        low, high = _around(size, type)
        many = round(used.size * (size - low) / (high - low))  # this many are `high`, evenly spread
        many = min(max(many, 1), used.size - 1)
        steps = np.arange(used.size + 1, dtype=np.int64) * many // used.size
        found.reshape(-1)[used] = np.where(np.diff(steps), np.float32(high), np.float32(low))
    return found * trits


def _around(size: float, type: str) -> tuple[float, float]:
    """Return a number of a type below another and one above it, so far from it that both are needed for a mean of
    `size`.
    """

    def step(bits: int) -> float:
        value = np.array(bits << 16 if type == "BF16" else bits, np.uint32)
        return float(value.astype(np.uint16).view(np.float16) if type == "F16" else value.view(np.float32))

    with np.errstate(over="ignore"):
        bits = int(np.float16(size).view(np.uint16) if type == "F16" else np.float32(size).view(np.uint32))
    bits = bits >> 16 if type == "BF16" else bits
    bits -= step(bits) > size
    near = (step(bits + 1) - step(bits)) / 16
    low = step(bits - 1) if bits and size - step(bits) < near else step(bits)
    high = step(bits + 2) if step(bits + 1) - size < near else step(bits + 1)
    return low, high


def _check_for_absmean(tensor: Tensor) -> None:
    """Refuse a matrix that the rule cannot give back.

    :raises SettingError: as `_one_scale` does, and for a scale below the least one of the rule
    """
    scale = float(_one_scale(tensor).scales.item())
    if not SMALLEST_SCALE <= scale < np.inf:
        raise SettingError(
            f"tensor {quote(tensor.name)} has the scale {scale:.4g}; the rule of the mean magnitude gives "
            f"{SMALLEST_SCALE:g} or more"
        )


# --- notes -----------------------------------------------------------------------------------------------------------


def _scale_notes(choices: _Choices, linear: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was rounded, and which programs compute with other scales than the file."""
    if choices.rounded:
        yield f"rounded: {', '.join(choices.rounded)}"
    if choices.inexact:
        which = f"{quote(choices.inexact[0])}{' and others' if len(choices.inexact) > 1 else ''}"
        yield f"no F32 has the scale of {which} as its reciprocal: the last bit differs"
    if choices.form == "packed":
        if choices.convention == "multiply":
            yield (
                "llama.cpp's converter, litespark's loader for Falcon and ankhdjet divide by weight_scale, whatever "
                "config.json says: --weight-scale divide makes a folder for them"
            )
        return
    if not linear:
        yield "without a quantization_config transformers does not quantize activations"
    if not choices.shares:
        return
    least, most = (f"{share:.2f}" for share in (min(choices.shares), max(choices.shares)))
    shares = least if least == most else f"{least} to {most}"
    if choices.for_absmean:
        yield (
            f"the weights are divided by the share of them that is not 0 ({shares}): programs that do not quantize them "
            "by their mean magnitude compute with scales that are too large"
        )
    elif min(choices.shares) < 1:
        yield (
            "programs that quantize floats by their mean magnitude (transformers with quantization_mode online, litespark, "
            "loom, llama.cpp's converter for BitNet) multiply each scale by the share of weights that are not 0 "
            f"({shares}): --for-absmean makes floats for them"
        )


def _other_programs(exported: ExportClass, form: str) -> Iterator[str]:
    """Yield what Ollama and Jlama, which also take folders, do with this one (Ollama 0.33.0-rc2, Jlama 0.8.4)."""
    if exported.name.lower().startswith("bitnetfor"):
        yield f"Ollama and Jlama do not know the class {exported.name}, in whatever form"
    elif form == "packed":
        yield "Ollama and Jlama cannot read packed matrices (U8)" + (
            "; with --form F32 both load it" if exported.model_type == "llama" else ""
        )
    elif exported.name == "Qwen3ForCausalLM":
        yield "Ollama does not know the class Qwen3ForCausalLM; Jlama was not tried"
    elif exported.model_type != "llama":
        yield f"Ollama and Jlama were not tried with {exported.name}"
    else:
        yield {
            "F32": "Ollama (create) and Jlama load it, and compute without quantized activations",
            "F16": "Jlama loads it, and computes without quantized activations; Ollama was tried with F32 only",
            "BF16": "Ollama and Jlama were tried with F32, not with BF16",
        }[form]


# --- config files ----------------------------------------------------------------------------------------------------
# The keys of a GGUF file give config.json and generation_config.json, for a class of transformers (`ExportClass`).
#
# Packed weights are marked `quantization_mode: offline`: their scale is stored beside them. `online` would quantize the
# ternary weights again and shrink every scale by the share of zeros, so only floats that are made for this say it.


class ExportClass(NamedTuple):
    """The class of transformers with the graph of an architecture.

    :param family: the family whose tensor names it uses
    :param prefix: the prefix of these names
    :param keys: the architecture whose keys are read, if its graph is not declared
    """

    name: str
    model_type: str
    family: Family
    activation: str
    prefix: str = "model."
    keys: Architecture | None = None


#: The keys of Qwen2: it is imported and exported, and llama.cpp runs it.
_QWEN2: Final = Architecture(
    "qwen2", "Qwen2 and Qwen2.5", (), activation="silu", rope="neox", head="untied", whole_head_rope=True,
    rope_base=1e6, eps=(1e-6,), pre_tokenizer="qwen2",
)  # fmt: skip

#: Classes by architecture; embedding models are only the body.
_CLASSES: Final[Mapping[str, ExportClass]] = {
    "bitnet-b1.58": ExportClass("BitNetForCausalLM", "bitnet", BY_FAMILY["bitnet-2b4t"], "relu2"),
    "bitnet-25": ExportClass("BitNetForCausalLM", "bitnet", BY_FAMILY["bitnet-2b4t"], "relu2"),
    "bitnet": ExportClass("BitNetForCausalLM", "bitnet", BY_FAMILY["bitnet-silu"], "silu"),
    "llama": ExportClass("LlamaForCausalLM", "llama", BY_FAMILY["hf1bitllm"], "silu"),
    "qwen3": ExportClass("Qwen3ForCausalLM", "qwen3", BY_FAMILY["ternary-qwen3"], "silu"),
    "qwen2": ExportClass("Qwen2ForCausalLM", "qwen2", BY_FAMILY["ternary-qwen2"], "silu", keys=_QWEN2),
    "gemma3": ExportClass(
        "Gemma3TextModel", "gemma3_text", BY_FAMILY["bitnet-embedding-gemma3"], "gelu_pytorch_tanh", ""
    ),
}
#: Classes of embedding models whose architecture shares its name with a language model.
_BODIES: Final[Mapping[str, ExportClass]] = {
    "qwen3": ExportClass("Qwen3Model", "qwen3", BY_FAMILY["bitnet-embedding-qwen3"], "silu", ""),
}


#: 1bitLLM's own class, whose activation is SiLU.
_ONE_BIT_LLM: Final = ExportClass("BitnetForCausalLM", "llama", BY_FAMILY["1bitllm"], "silu")


def class_of(file: File, names: str = "transformers") -> ExportClass:
    """Return the class for a file.

    :param names: one of `NAMES`
    :raises SettingError: for an architecture without a class here
    """
    if names not in NAMES:
        raise SettingError(f"there are no tensor names {quote(names)}; there are: {', '.join(NAMES)}")
    name = str(file.metadata.get("general.architecture"))
    if names == "1bitllm":
        if name != _ONE_BIT_LLM.family.architecture:
            raise SettingError(
                f"1bitLLM's class has the graph of architecture {_ONE_BIT_LLM.family.architecture}, with SiLU; this file is "
                f"of {quote(name)}"
            )
        return _ONE_BIT_LLM
    declared = declared_architecture(name, file.metadata, file.tensors)
    if name in _BODIES and declared is not None and declared.embedding_model:
        return _BODIES[name]
    if name not in _CLASSES:
        raise SettingError(f"files of architecture {quote(name)} cannot be exported, only {', '.join(_CLASSES)}")
    return _CLASSES[name]


def sizes_of_file(file: File) -> Hyperparameters:
    """Return the sizes that the keys give; config.json cannot describe layers that differ.

    :raises FormatError: M001 to M008
    :raises SettingError: for layers that differ, and for experts
    """
    table = file.tensors.get("token_embd.weight")
    h = hyperparameters(file.metadata, table.shape[0] if table is not None else None, class_of(file).keys)
    if h.varying or h.experts:
        raise SettingError("the config.json of these classes cannot describe layers of different sizes or experts")
    return h


def _linear(choices: _Choices, exported: ExportClass) -> dict[str, Any]:
    """Return the keys of config.json about linear layers: class and mode, or 1bitLLM's; none for plain floats."""
    if exported is _ONE_BIT_LLM:
        return {"weight_bits": 1, "input_bits": 8}
    if choices.form != "packed" and not choices.for_absmean:
        return {}
    return {
        "quantization_config": {
            "quant_method": "bitnet",
            "linear_class": next(name for name, each in WEIGHT_SCALE.items() if each == choices.convention),
            "quantization_mode": "online" if choices.for_absmean else "offline",
            "modules_to_not_convert": ["lm_head"],
        }
    }


def config_json(file: File, exported: ExportClass, tied: bool, linear: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Return config.json.

    :param tied: whether the head is the embedding
    :param linear: the keys about linear layers
    :param dtype: the default dtype in which transformers computes
    :raises SettingError: for a scaling of positions that it cannot describe
    """
    h, found = sizes_of_file(file), file.metadata
    arch = str(found.get("general.architecture"))
    gemma = exported.model_type.startswith("gemma")
    config: dict[str, Any] = {
        "architectures": [exported.name],
        "model_type": exported.model_type,
        "hidden_activation" if gemma else "hidden_act": exported.activation,
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "hidden_size": h.embd,
        "intermediate_size": h.ff,
        "num_hidden_layers": h.layers,
        "num_attention_heads": h.heads,
        "num_key_value_heads": h.heads_kv,
        "head_dim": h.head_dim,
        "max_position_embeddings": h.context,
        "rms_norm_eps": _short(h.eps),
        "rope_theta": _short(h.rope_base),
        "tie_word_embeddings": tied,
        "dtype": dtype,
        **_ids(file, "config"),
    }
    if gemma:  # one rotation and full attention in all layers, as the graph has it
        config |= {
            "query_pre_attn_scalar": h.head_dim,
            "layer_types": ["full_attention"] * h.layers,
            "rope_local_base_freq": _short(h.rope_base),
            "attention_bias": False,
        }
    kind, factor = found.get(f"{arch}.rope.scaling.type", "none"), found.get(f"{arch}.rope.scaling.factor", 1.0)
    if kind not in ("none", "linear"):
        raise SettingError(
            f"positions are scaled by {quote(str(kind))}; config.json would need settings that the file does not have"
        )
    if kind == "linear" and factor != 1:
        config["rope_scaling"] = {"rope_type": "linear", "factor": _short(float(factor))}
    config |= linear
    if "quantization_config" in linear and "blk.0.attn_q_norm_in.weight" in file.tensors:
        config["quantization_config"] |= {"use_rms_norm": True, "rms_norm_eps": _short(h.eps)}
    return config


def generation_json(file: File) -> dict[str, Any]:
    """Return generation_config.json: the tokens that begin and end a text."""
    return {"do_sample": False, **_ids(file, "generation")}


def _ids(file: File, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, word in (("bos", "bos"), ("eos", "eos"), ("padding", "pad")):
        number = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(number, int):
            found[f"{word}_token_id"] = number
    turn = file.metadata.get("tokenizer.ggml.eot_token_id")
    if kind == "generation" and isinstance(turn, int) and "eos_token_id" in found and turn != found["eos_token_id"]:
        found["eos_token_id"] = [found["eos_token_id"], turn]
    return found


def _short(value: float) -> float:
    """Return the shortest decimal that gives the same float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
