"""Make a checkpoint of a GGUF file: a folder that transformers loads, with its configuration files.

    packed   uint8 matrices with `weight_scale` in F32, which multiplies: `linear_class: autobitlinear`, `offline`;
             other tensors in F32
    F32 ...  floats: trit times scale; without a quantization_config, so that activations are not quantized

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
from i2s_spec.checkpoints.families import BY_FAMILY, PROJECTIONS, SHAPES, Family
from i2s_spec.checkpoints.plan import FLOAT_TYPES, float_words
from i2s_spec.checkpoints.receipt_checks import FileMatrix, floats_of, matrix_of, type_name
from i2s_spec.errors import FormatError, SettingError, counted, quote
from i2s_spec.gguf.atomic_file import publish_folder, unfinished_folder
from i2s_spec.gguf.reader import takes_file
from i2s_spec.safetensors.files import NewTensor, write_checkpoint
from i2s_spec.safetensors.names import to_checkpoint_rows
from i2s_spec.safetensors.packed import packed_tensors, stored_scale
from i2s_spec.schema.architectures import ARCHITECTURES, Architecture, declared_architecture, hyperparameters

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.source import Origin
    from i2s_spec.gguf.writer import Progress
    from i2s_spec.schema.architectures import Hyperparameters

FORMS: Final = ("packed", *FLOAT_TYPES)

_DTYPES: Final = {"packed": "float32", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_WHOLE: Final = {"token_embd.weight": "embed_tokens", "output_norm.weight": "norm", "output.weight": "lm_head"}


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
    progress: Progress | None = None,
) -> ExportedFolder:
    """Write a GGUF file as a checkpoint for transformers.

    :param file: a `File`, or an argument of `open`
    :param folder: the new folder; it must not exist
    :param form: `packed`, or the type of the floats: F32, F16, BF16
    :param mode: `quantization_mode`; only `offline` is right for ternary weights
    :raises FileExistsError: if the folder exists
    :raises SettingError: for `online`, for architectures without a class, for settings that config.json cannot describe
    :raises FormatError: for a file that is broken, S903 for one that changes meanwhile; nothing is written
    """
    if form not in FORMS:
        raise SettingError(f"matrices cannot be exported as {quote(form)}; there are: {', '.join(FORMS)}")
    if mode != "offline":
        raise SettingError(
            f"quantization_mode {quote(mode)} is not supported: transformers would quantize the ternary weights "
            "again, and every scale would shrink by the share of zeros. Use offline"
        )
    if file.fault is not None:
        raise file.fault
    target = os.path.abspath(os.fsdecode(folder))
    if os.path.lexists(target):
        raise FileExistsError(17, "File exists", target)
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(2, "the folder for the checkpoint does not exist", os.fsdecode(folder))
    exported, h = class_of(file), sizes_of_file(file)
    tied = "output.weight" not in file.tensors or exported.family.tied
    tensors = list(_tensors(file, exported, h, form, tied))
    texts: dict[str, Any] = {
        "config.json": config_json(file, exported, tied, form == "packed", _DTYPES[form]),
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
    notes = () if form == "packed" else ("without a quantization_config transformers does not quantize activations",)
    return ExportedFolder(size, exported.name, matrices, len(file.tensors) - matrices, notes)


def _tensors(
    file: File, exported: ExportClass, h: Hyperparameters, form: str, tied: bool
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
            yield (_floats(tensor, f"{module}.weight", offset, form == "packed"),)
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
            yield (_floats(tensor, f"{module}.bias", 0.0, form == "packed"),)
        elif word in PROJECTIONS:
            yield _matrix(file, tensor, module, word, h, form)
        else:
            offset = 0.0 if word.endswith("_in") else exported.family.norm_offset
            yield (_floats(tensor, f"{module}.weight", offset, form == "packed"),)
    optional = {"output.weight"}
    for name in ("token_embd.weight", "output_norm.weight", *(
        f"blk.{layer}.{word}.weight" for layer in range(h.layers) for word in modules if not word.endswith("_norm_in")
    ), *(
        f"blk.{layer}.{word}.bias" for layer in range(h.layers) for word, module in modules.items()
        if module in exported.family.biases
    )):  # fmt: skip
        if name not in seen and name not in optional:
            raise SettingError(f"the file has no tensor {quote(name)}, which {exported.name} needs")


def _floats(tensor: Tensor, name: str, offset: float, wide: bool) -> NewTensor:
    """A float tensor unchanged, or as F32 beside packed matrices; 1 is subtracted again from Gemma's norms.

    If a model has packed matrices, transformers keeps floats in their stored type, so F16 and F32 would be mixed.
    """
    kind = type_name(tensor)
    if kind not in FLOAT_TYPES:
        raise SettingError(f"tensor {quote(tensor.name)} is {kind}, a type that checkpoints do not have")
    tensor.require(tensor.span)
    stored = "F32" if wide or len(tensor.shape) == 1 else kind

    def data() -> list[bytes]:
        with np.errstate(invalid="ignore"):  # a NaN stays one
            return [float_words(name, floats_of(tensor) - np.float32(offset), stored)]

    return NewTensor(name, stored, tensor.shape, data)


def _matrix(file: File, tensor: Tensor, module: str, word: str, h: Hyperparameters, form: str) -> tuple[NewTensor, ...]:
    """A matrix, packed with its scale, or as floats; rows of queries and keys in the order of checkpoints."""
    tensor.require(tensor.span)
    heads = None
    declared = ARCHITECTURES.get(str(file.metadata.get("general.architecture")))
    if declared is not None and declared.rope == "norm":
        heads = {"attn_q": h.heads, "attn_k": h.heads_kv}.get(word)
    if form != "packed":
        shape = (int(tensor.shape[0]), int(tensor.shape[1]))
        return (NewTensor(f"{module}.weight", form, shape, partial(_weights, tensor, heads, form)),)
    matrix = _one_scale(tensor)
    stored = stored_scale(matrix.scales.reshape(-1)[0], "multiply", "F32")
    return packed_tensors(module, tensor.shape, _again(tensor, heads), stored, "F32")


def _again(tensor: Tensor, heads: int | None) -> Callable[[], Any]:
    """The trits, read only when they are written."""

    def made() -> Any:
        trits = _one_scale(tensor).trits
        return trits if heads is None else to_checkpoint_rows(trits, heads)

    return made


def _one_scale(tensor: Tensor) -> FileMatrix:
    """The trits of a matrix and its only scale.

    :raises SettingError: for scales that differ, and floats that are not ternary
    """
    name, kind = tensor.name, type_name(tensor)
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


def _weights(tensor: Tensor, heads: int | None, form: str) -> Iterator[bytes]:
    matrix = matrix_of(tensor)
    if matrix is None:
        weights = floats_of(tensor)
    else:
        group = matrix.trits.shape[1] // matrix.scales.shape[1]
        scales = matrix.scales if matrix.scales.size == 1 else np.repeat(matrix.scales, group, axis=1)
        weights = matrix.trits * scales
    yield float_words(tensor.name, weights if heads is None else to_checkpoint_rows(weights, heads), form)


# --- config files ----------------------------------------------------------------------------------------------------
# The keys of a GGUF file give config.json and generation_config.json, for a class of transformers (`ExportClass`).
#
# Packed weights are marked `quantization_mode: offline`: their scale is stored beside them. `online` would quantize the
# ternary weights again and shrink every scale by the share of zeros, so it is refused.


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


def class_of(file: File) -> ExportClass:
    """The class for a file.

    :raises SettingError: for an architecture without a class of transformers here
    """
    name = str(file.metadata.get("general.architecture"))
    declared = declared_architecture(name, file.metadata, file.tensors)
    if name in _BODIES and declared is not None and declared.embedding_model:
        return _BODIES[name]
    if name not in _CLASSES:
        raise SettingError(f"files of architecture {quote(name)} cannot be exported, only {', '.join(_CLASSES)}")
    return _CLASSES[name]


def sizes_of_file(file: File) -> Hyperparameters:
    """The sizes that the keys give; config.json cannot describe layers that differ.

    :raises FormatError: M001 to M008
    :raises SettingError: for layers that differ, and for experts
    """
    table = file.tensors.get("token_embd.weight")
    h = hyperparameters(file.metadata, table.shape[0] if table is not None else None, class_of(file).keys)
    if h.varying or h.experts:
        raise SettingError("the config.json of these classes cannot describe layers of different sizes or experts")
    return h


def config_json(file: File, exported: ExportClass, tied: bool, packed: bool, dtype: str) -> dict[str, Any]:
    """config.json.

    :param tied: whether the head is the embedding
    :param packed: whether the matrices are packed, else they are floats
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
    if packed:
        quantization: dict[str, Any] = {
            "quant_method": "bitnet",
            "linear_class": "autobitlinear",
            "quantization_mode": "offline",
            "modules_to_not_convert": ["lm_head"],
        }
        if "blk.0.attn_q_norm_in.weight" in file.tensors:
            quantization |= {"use_rms_norm": True, "rms_norm_eps": _short(h.eps)}
        config["quantization_config"] = quantization
    return config


def generation_json(file: File) -> dict[str, Any]:
    """generation_config.json: the tokens that begin and end a text."""
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
    """The shortest decimal that gives the same float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
