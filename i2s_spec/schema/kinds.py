"""The kinds of GGUF files: models, and files that are used beside one or that hold no weights of one at all.

A kind is declared once (`KINDS`): what it is called, how it is recognised, which program uses it and how, and what of it
is not judged. `inspect.kind` recognises the kind of a file; the rules of a kind are in `linter.rules`.

What loaders ask of adapters, importance matrices and control vectors is a list of keys (`KEYS`); of projectors it
depends on `clip.projector_type`, and `projector_types` is the table of all types, read from llama.cpp's loader
(`tests/peers/projector_table.py`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple


class FileKind(NamedTuple):
    """One kind of file.

    :param title: what the file is, as a message names it
    :param types: values of `general.type` that name the kind
    :param recognised: by which keys and tensors it is recognised, as a sentence
    :param used: which program uses it and how, as a sentence
    :param unjudged: what no rule examines, as the end of "not judged: "; empty for models, whose verdict says it itself
    :param fit: what only --reference shows, in the same way
    """

    name: str
    title: str
    types: tuple[str, ...]
    recognised: str
    used: str
    unjudged: str = ""
    fit: str = ""


MODEL, ADAPTER, PROJECTOR, IMATRIX, CONTROL_VECTOR, VOCABULARY, OTHER, NO_MODEL = (
    "model", "adapter", "projector", "imatrix", "control-vector", "vocabulary", "other", "no-model",
)  # fmt: skip

#: Every kind, in the order in which a file is compared with them: the first that fits.
KINDS: Final[dict[str, FileKind]] = {kind.name: kind for kind in (
    FileKind(ADAPTER, "LoRA adapter", ("adapter",),
             "general.type is adapter; or it has a key that begins with adapter. or two tensors NAME.lora_a and "
             "NAME.lora_b, and no token_embd.weight",
             "llama.cpp loads it beside its base model: llama-server -m BASE --lora FILE",
             fit="whether it fits its base model (--reference BASE)"),
    FileKind(PROJECTOR, "projector of a multimodal model (mmproj)", ("mmproj", "clip-vision"),
             "general.type is mmproj or general.architecture is clip; or it has keys that begin with clip. and no "
             "token_embd.weight",
             "llama.cpp loads it beside its text model: llama-server -m MODEL --mmproj FILE",
             "shapes of most tensors", fit="whether it fits its text model (--reference MODEL)"),
    FileKind(IMATRIX, "importance matrix (imatrix)", ("imatrix",),
             "general.type is imatrix; or it has a key that begins with imatrix. or a tensor NAME.in_sum2, and no "
             "token_embd.weight",
             "llama-quantize reads it when it quantizes a model: llama-quantize --imatrix FILE MODEL OUT TYPE",
             "whether its names and widths are those of the model to quantize"),
    FileKind(CONTROL_VECTOR, "control vector", (),
             "general.architecture is controlvector; or every tensor is called direction.N",
             "llama.cpp adds it to the layers of its model: llama-server -m MODEL --control-vector FILE",
             "whether its width is that of its model"),
    FileKind(VOCABULARY, "vocabulary", ("vocab",),
             "general.type is vocab; or it has the key tokenizer.ggml.tokens and no tensors",
             "programs that only tokenize load it, such as llama.cpp's tests of tokenizers"),
    FileKind(OTHER, "file that is no text model", (),
             "general.type has another value than those above and model",
             "the program that wrote it may say what uses it; llama.cpp does not",
             "which keys, tensors and shapes it needs"),
    FileKind(NO_MODEL, "file without any key of a model", (),
             "it has neither general.architecture, general.type nor tokenizer.ggml.tokens, and no tensor has a name "
             "that models have",
             "no program that runs models loads it",
             "which keys, tensors and shapes it needs"),
    FileKind(MODEL, "model", ("model",),
             "none of the above",
             "programs that run models load it, such as llama-server -m FILE"),
)}  # fmt: skip


#: Types of keys that loaders compare strictly, by kind: another type is refused or ends the process
#: (ggml-org/llama.cpp@0c1e57098:src/llama-adapter.cpp, common/imatrix-loader.cpp).
KEYS: Final[dict[str, dict[str, str]]] = {
    ADAPTER: {
        "general.type": "str", "general.architecture": "str", "adapter.type": "str", "adapter.lora.alpha": "f32",
        "adapter.alora.invocation_tokens": "arr[u32]",
    },
    IMATRIX: {"imatrix.chunk_count": "u32", "imatrix.chunk_size": "u32"},
}  # fmt: skip

#: Keys without which llama-quantize ends.
IMATRIX_KEYS: Final = ("imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size")

# --- projectors ------------------------------------------------------------------------------------------------------
# Keys and limits of every projector, from llama.cpp's tools/mtmd/clip.cpp, in whose names {m} is the kind of encoder.


class ProjectorEncoder(NamedTuple):
    """A kind of encoder in a projector: how its keys and tensors begin, and the key that says that it is there."""

    name: str
    keys: str
    tensors: str
    flag: str


ENCODERS: Final = (
    ProjectorEncoder("vision", "clip.vision", "v", "clip.has_vision_encoder"),
    ProjectorEncoder("audio", "clip.audio", "a", "clip.has_audio_encoder"),
    ProjectorEncoder("speech", "clip.gen.audio", "a.gen.code", "clip.has_gen_audio_encoder"),
)

#: Keys of every encoder, and those that only one kind of encoder needs.
ENCODER_KEYS: Final = {
    "embedding_length": "u32", "attention.head_count": "u32", "feed_forward_length": "u32", "block_count": "u32",
    "projection_dim": "u32", "attention.layer_norm_epsilon": "f32",
}  # fmt: skip
ONE_ENCODER_KEYS: Final = {
    "vision": {"image_size": "u32", "patch_size": "u32", "image_mean": "arr[f32]", "image_std": "arr[f32]"},
    "audio": {"num_mel_bins": "u32"},
    "speech": {},
}

#: Keys that the loader reads where they exist; its process ends at another type.
PROJECTOR_OPTIONAL: Final = {
    "general.name": "str", "general.description": "str", "clip.has_vision_encoder": "bool",
    "clip.has_audio_encoder": "bool", "clip.has_gen_audio_encoder": "bool", "clip.projector_type": "str",
    "clip.vision.projector_type": "str", "clip.audio.projector_type": "str", "clip.gen.audio.projector_type": "str",
    "clip.use_gelu": "bool", "clip.use_silu": "bool", "clip.vision.mm_patch_merge_type": "str",
    "clip.vision.image_grid_pinpoints": "arr[i32]", "clip.minicpmv_version": "i32", "clip.minicpmv_query_num": "u32",
}  # fmt: skip
ENCODER_OPTIONAL: Final = {
    "attention.head_dim": "u32", "attention.head_count_kv": "u32", "feature_layer": "arr[i32]",
}  # fmt: skip

#: The least and the greatest value that the loader accepts, by the end of a key; counts of heads are divided by.
RANGES: Final = {
    ".image_size": (0, 8192), ".patch_size": (1, 65_535), ".embedding_length": (1, 2**31 - 1),
    ".attention.head_count": (1, 2**31 - 1), ".spatial_merge_size": (1, 65_535), ".projector.scale_factor": (1, 65_535),
    ".vision.window_size": (0, 4096), ".subsampling_factor": (8, 8), ".audio.chunk_size": (1, 8192),
    ".audio.local_group_size": (1, 2**31 - 1), ".audio.rvq.num_quantizers": (1, 2**31 - 1),
}  # fmt: skip

#: The only values that the loader takes for a key of one type of projector.
CHOICES: Final = {("minicpmv4_6", "clip.vision.projector.scale_factor"): (2, 4)}

#: Audio projectors that take the wave itself: their number of mel bins has no upper limit.
RAW_AUDIO: Final = frozenset({"gemma4ua", "pockettts_spkenc"})

#: Means and deviations of an image, one for each colour.
COLOURS: Final = 3

#: Tensors of each block of an encoder; the last two are not needed in blocks with experts, which have the next.
BLOCK_TENSORS: Final = ("attn_out.weight", "ffn_up.weight", "ffn_down.weight")
BLOCK_EXPERTS: Final = "ffn_gate_exps.weight"

#: A vision encoder of this type needs no audio encoder: the loader leaves the one in the file out.
WITHOUT_AUDIO: Final = "gemma3nv"


@cache
def projector_table() -> dict[str, Any]:
    """Load the requirements of llama.cpp's loader for each type of projector: `source`, and `types` by name.

    Of a type: `keys` and `optional`, its own keys with their types; `tensors`, groups of names that it requires (`for`:
    the values of i and j, or the key with their number; `if`: a key and the value with which they are required);
    `width`, the tensor and the dimension that must be the width of the text model; `blocks`, False if its blocks have
    other tensors; `refused`, if the loader knows the name and stops; `replaced`, the type it takes for each encoder.
    """
    import json
    from pathlib import Path

    with Path(__file__).with_name("projectors.json").open(encoding="utf-8") as file:
        table: dict[str, Any] = json.load(file)
    return table


# --- other tensors ---------------------------------------------------------------------------------------------------

#: How the tensors of a pair end: those of an adapter, and those of an importance matrix.
LORA_ENDS: Final = (".lora_a", ".lora_b")
IMATRIX_ENDS: Final = (".in_sum2", ".counts")

#: Tensors of an adapter that llama.cpp leaves out.
NORM_END: Final = "_norm.weight"
