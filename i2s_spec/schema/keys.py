"""The metadata keys of ternary models: type, need, default, readers, meaning, clause (chapter 3).

Keys that all architectures share are declared once, with `{arch}` in place of the architecture's name. The linter's
metadata rules, the tables of the specification, the mutators and `i2s new` read these declarations. The module needs
only the standard library, so that a header can be checked without loading anything else.

Evidence: the loaders of microsoft/BitNet's llama.cpp fork and of ik_llama.cpp with every key removed in turn.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from i2s_spec.errors import Fault

#: Whether a key or a tensor is required.
REQUIRED: Final = "required"  # loaders refuse the file without it
EXPECTED: Final = "expected"  # a specification requires it, or results are wrong without it, but loaders continue
OPTIONAL: Final = "optional"

#: Who reads a key.
READERS: Final = {
    "container": "every parser of the container",
    "loader": "loaders, which derive the tensors and their shapes from it",
    "graph": "the forward pass: another value gives other numbers",
    "tokenizer": "tokenizers, in both directions",
    "chat": "front ends that hold a conversation",
    "log": "loaders, which only print it, but refuse another type",
    "people": "only people; it has no effect",
}
#: Those of them that make a loader refuse a value of another type.
READ_BY_LOADERS: Final = frozenset({"container", "loader", "graph", "tokenizer", "log"})


class Key(NamedTuple):
    """One metadata key.

    `name` may contain `{arch}`. `types` are the allowed value types, the usual one first, as `u32` or `arr[str]`.
    `when` restricts `need` to some files: `gpt2` and `llama` are tokenizer models, `quantized` means a file with a
    quantized tensor, `experts` one with expert_count above 0. `default` is the value that loaders use for a missing
    key; `otherwise` says it in words if it is not a constant. `values` lists the known values, if there is a fixed
    list; `above`, `least` and `most` bound a number; a value beyond `unusual` is legal but suspicious. For an array,
    these apply to its elements. `document` is a type that the GGUF document gives the key but no loader of I2_S
    accepts. `tolerated` are types that llama.cpp takes and forks of it do not.
    """

    name: str
    types: tuple[str, ...]
    need: str
    readers: tuple[str, ...]
    meaning: str
    clause: str
    default: Any = None
    otherwise: str = ""
    when: str = ""
    values: tuple[Any, ...] = ()
    above: float | None = None
    least: int | None = None
    most: float | None = None
    unusual: float | None = None
    note: str = ""
    document: str = ""
    tolerated: tuple[str, ...] = ()

    def of(self, architecture: str) -> Key:
        """Return the name of the key in a file of that architecture."""
        return self._replace(name=self.name.replace("{arch}", architecture)) if "{arch}" in self.name else self


#: `general.file_type`: the type of most tensors; the BitNet lineage and upstream llama.cpp disagree from 38 on.
FILE_TYPES: Final = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 4: "Q4_1_SOME_F16", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
    36: "TQ1_0", 37: "TQ2_0", 38: "TL1", 39: "TL2", 40: "I2_S", 41: "Q2_0", 136: "IQ1_BN",
    137: "IQ2_BN", 141: "PQ2_0", 143: "PTQ1_0",
}  # fmt: skip
FILE_TYPE_I2_S: Final = 40
#: Numbers with the type of nearly all their files: every official I2_S file says 40, every Q2_0 file of llama.cpp 41.
#: For these, `schema.type_registry` is not needed, whose import takes longer than the rules run.
USUAL_FILE_TYPES: Final = frozenset({(FILE_TYPE_I2_S, "I2_S"), (41, "Q2_0"), (141, "PQ2_0"), (143, "PTQ1_0")})

#: The types that llama-quantize gives most weights of layers, where a number is not named after the type; and what it gives
#: rows that are not whole blocks of a type, or Python's converters do (F16).
#: ggml-org/llama.cpp@0c1e570:src/llama-quant.cpp:881 and :400.
MOSTLY: Final = {
    0: ("F32", "F16", "BF16"), 1: ("F16", "F32", "BF16"), 4: ("Q4_1",), 10: ("Q2_K",), 11: ("Q3_K",), 12: ("Q3_K",),
    13: ("Q3_K",), 14: ("Q4_K",), 15: ("Q4_K",), 16: ("Q5_K",), 17: ("Q5_K",), 21: ("Q2_K",), 22: ("IQ3_S", "IQ3_XXS"),
    27: ("IQ3_S",), 28: ("IQ2_XS", "IQ2_S"), 29: ("IQ2_S",), 32: ("BF16", "F16", "F32"),
}  # fmt: skip
INSTEAD: Final = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), ("IQ4_NL",)),
    **dict.fromkeys(("Q2_0", "Q2_K", "Q3_K"), ("Q4_0", "IQ4_NL")), **dict.fromkeys(("TQ1_0", "TQ2_0"), ("Q4_0", "F16")),
    "Q4_K": ("Q5_0",), "Q5_K": ("Q5_1",), "Q6_K": ("Q8_0",),
}  # fmt: skip
FLOATS: Final = ("F16", "F32", "BF16")

#: Numbers that one fork writes although they mean another type in all other programs.
OWN_FILE_TYPES: Final = {"I2_SR": 41}


def file_type_of(kind: str) -> int | None:
    """Return the file type for files whose matrices mostly have a type; None if there is no number for it."""
    return OWN_FILE_TYPES.get(kind) or next((number for number, name in FILE_TYPES.items() if name == kind), None)


#: Most layers that llama.cpp and its forks support (LLAMA_MAX_LAYERS).
MAX_LAYERS: Final = 512

_U32 = ("u32",)
_U64: Final = "u64"
_F32 = ("f32",)
_STR = ("str",)
_BOOL = ("bool",)
#: Types of per-layer numbers: one number for all layers, or an array with one for each.
_PER_LAYER = ("u32", "arr[u32]", "arr[i32]")

GENERAL: Final[tuple[Key, ...]] = (
    Key("general.architecture", _STR, REQUIRED, ("loader", "graph"), "Which graph the tensors belong to.", "3.1"),
    Key("general.name", _STR, OPTIONAL, ("log", "people"), "The model's name.", "3.1"),
    Key(
        "general.file_type", _U32, OPTIONAL, ("log", "people"), "The type of most tensors; 40 is I2_S.", "3.1",
        otherwise="guessed from the most common tensor type", values=tuple(FILE_TYPES),
        note="upstream llama.cpp reads 38 to 40 as MXFP4_MOE, NVFP4 and Q1_0; another value type ends the fork's process",
    ),
    Key(
        "general.quantization_version", _U32, EXPECTED, ("people",), "The version of ggml's quantized layouts.", "3.1",
        default=2, when="quantized", note="GGUF requires it; no loader does, and the Python converters leave it out",
    ),
    Key(
        "general.alignment", _U32, OPTIONAL, ("container",), "The alignment of tensor data, in bytes.", "2.7",
        default=32, least=1, note="no official file has it; llama-quantize copies it and then pads to 32 regardless",
    ),
    Key("general.type", _STR, OPTIONAL, ("people",), "The kind of file: model, adapter, vocab.", "3.1"),
    Key("general.basename", _STR, OPTIONAL, ("people",), "The model's name without size and version.", "3.1"),
    Key("general.finetune", _STR, OPTIONAL, ("people",), "The purpose that the model was tuned for.", "3.1"),
    Key("general.size_label", _STR, OPTIONAL, ("people",), "The size in words, such as 2B.", "3.1"),
    Key("general.version", _STR, OPTIONAL, ("people",), "The model's version.", "3.1"),
    Key("general.author", _STR, OPTIONAL, ("people",), "The makers of the model.", "3.1"),
    Key("general.organization", _STR, OPTIONAL, ("people",), "The organization for which the model was made.", "3.1"),
    Key("general.description", _STR, OPTIONAL, ("people",), "What the model is, in prose.", "3.1"),
    Key("general.quantized_by", _STR, OPTIONAL, ("people",), "Who converted the model to this file.", "3.1"),
    Key("general.license", _STR, OPTIONAL, ("people",), "The licence, as an SPDX expression.", "3.1"),
    Key("general.url", _STR, OPTIONAL, ("people",), "Where the model is described.", "3.1"),
    Key("general.repo_url", _STR, OPTIONAL, ("people",), "Where the model is kept.", "3.1"),
    Key("general.source.url", _STR, OPTIONAL, ("people",), "What the model was made from.", "3.1"),
    Key(
        "general.source.huggingface.repository", _STR, OPTIONAL, ("people",), "Which repository it was made from.", "3.1"
    ),
    Key("general.license.name", _STR, OPTIONAL, ("people",), "The licence's name.", "3.1"),
    Key("general.license.link", _STR, OPTIONAL, ("people",), "Where the licence is.", "3.1"),
    Key("general.tags", ("arr[str]",), OPTIONAL, ("people",), "Keywords for search.", "3.1"),
    Key("general.languages", ("arr[str]",), OPTIONAL, ("people",), "The languages of the model.", "3.1"),
)  # fmt: skip

MODEL: Final[tuple[Key, ...]] = (
    Key(
        "{arch}.vocab_size", _U32, OPTIONAL, ("loader",), "Number of tokens.", "3.2", least=1,
        otherwise="length of tokenizer.ggml.tokens", note="where both are present they must agree",
    ),
    Key(
        "{arch}.context_length", _U32, REQUIRED, ("loader",), "Longest sequence of the training, in tokens.", "3.2", least=1,
        unusual=1 << 24, document=_U64,
    ),
    Key(
        "{arch}.embedding_length", _U32, REQUIRED, ("loader", "graph"), "Width of the hidden state.", "3.2", least=1,
        unusual=1 << 17, document=_U64,
    ),
    Key(
        "{arch}.block_count", _U32, REQUIRED, ("loader", "graph"), "Number of layers.", "3.2", least=1, most=MAX_LAYERS,
        document=_U64,
    ),
    Key(
        "{arch}.feed_forward_length", _PER_LAYER, REQUIRED, ("loader", "graph"), "Width of the feed-forward.", "3.2",
        least=1, unusual=1 << 20, note="an array has one number for each layer; ik_llama.cpp reads a missing key as 0",
        document=_U64,
    ),
    Key(
        "{arch}.attention.head_count", _PER_LAYER, REQUIRED, ("loader", "graph"), "Query heads.", "3.3", least=1,
        unusual=1 << 10, note="ik_llama.cpp reads a missing key as 0", document=_U64,
    ),
    Key(
        "{arch}.attention.head_count_kv", _PER_LAYER, OPTIONAL, ("loader", "graph"), "Key and value heads.", "3.3",
        otherwise="attention.head_count", least=1, note="with grouped queries a missing key makes the shapes wrong",
        document=_U64,
    ),
    Key(
        "{arch}.attention.key_length", _U32, OPTIONAL, ("loader", "graph"), "Width of a query or key head.", "3.3",
        otherwise="embedding_length / head_count", least=1, note="needed where the heads do not fill the hidden state",
    ),
    Key(
        "{arch}.attention.value_length", _U32, OPTIONAL, ("loader", "graph"), "Width of a value head.", "3.3",
        otherwise="embedding_length / head_count", least=1,
    ),
    Key(
        "{arch}.attention.layer_norm_rms_epsilon", _F32, REQUIRED, ("graph",), "Added to the mean square in RMS norms.",
        "3.3", above=0.0, unusual=1e-4,
    ),
    Key(
        "{arch}.rope.dimension_count", _U32, OPTIONAL, ("loader", "graph"), "Dimensions of a head that are rotated.",
        "3.4", otherwise="the width of a key head", least=1, document=_U64,
    ),
    Key(
        "{arch}.rope.freq_base", _F32, OPTIONAL, ("graph",), "Base of the rotation frequencies.", "3.4", default=10000.0,
        above=0.0, unusual=1e10, note="2B-4T needs 500000: without the key it runs, with other numbers",
    ),
    Key(
        "{arch}.rope.scaling.type", _STR, OPTIONAL, ("graph",), "How positions beyond the training are scaled.", "3.4",
        default="linear", values=("none", "linear", "yarn", "longrope"),
    ),
    Key(
        "{arch}.rope.scaling.factor", _F32, OPTIONAL, ("graph",), "How far positions are scaled.", "3.4", default=1.0,
        above=0.0, unusual=1 << 12,
    ),
    Key(
        "{arch}.rope.scale_linear", _F32, OPTIONAL, ("graph",), "Older name of rope.scaling.factor, which wins.", "3.4",
        default=1.0, above=0.0,
    ),
    Key(
        "{arch}.rope.scaling.original_context_length", _U32, OPTIONAL, ("graph",), "Context length before scaling.", "3.4",
        otherwise="context_length",
    ),
    Key(
        "{arch}.expert_count", _U32, OPTIONAL, ("loader", "graph"), "Experts of each layer.", "3.2", default=0,
        unusual=1 << 10,
    ),
    Key(
        "{arch}.expert_used_count", _U32, OPTIONAL, ("loader", "graph"), "Experts that are used for each token.", "3.2",
        default=0, note="above 0 if and only if expert_count is",
    ),
    Key("{arch}.attention.causal", _BOOL, OPTIONAL, ("graph",), "Whether a token sees only earlier ones.", "3.3", True),
    Key(
        "{arch}.hidden_activation", _STR, OPTIONAL, ("graph",), "Activation of the feed-forward.", "3.2",
        otherwise="the architecture's own", values=("relu2", "silu", "gelu"),
        note="no released runtime reads it: their graphs have the activation fixed",
    ),
)  # fmt: skip

#: Keys of embedding models only.
EMBEDDING_MODEL: Final[tuple[Key, ...]] = (
    Key(
        "{arch}.pooling_type", _U32, EXPECTED, ("graph",), "How token vectors are combined to one: 1 mean, 2 first, 3 last.",
        "3.6", default=0, values=(0, 1, 2, 3, 4), note="the converter writes 1 if it finds no setting; the models need 3",
    ),
)  # fmt: skip

#: Keys of architectures with local layers (clause 9.5); ggml-org/llama.cpp@0c1e570:src/models/gemma3.cpp reads the three.
LOCAL_LAYERS: Final[tuple[Key, ...]] = (
    Key(
        "{arch}.attention.sliding_window", _U32, OPTIONAL, ("graph",), "Tokens that a local layer sees, its own included.",
        "3.3", default=0, note="0: there are no local layers",
    ),
    Key(
        "{arch}.attention.sliding_window_pattern", ("u32", "arr[bool]", "arr[u32]", "arr[i32]"), OPTIONAL, ("graph",),
        "The last layer of each so many is global; or of each layer whether it is local.", "3.3",
        otherwise="6 in gemma3; in qwen3 0, with which all layers are local",
    ),
)  # fmt: skip

#: The base of the rotation in local layers, where it is one of their own.
LOCAL_ROPE: Final = Key(
    "{arch}.rope.freq_base_swa", _F32, OPTIONAL, ("graph",), "Base of the rotation frequencies of local layers.", "3.4",
    default=10000.0, above=0.0, note="positions of these layers are not scaled",
)  # fmt: skip

#: Keys of architectures with gated delta nets (clause 9.12); ggml-org/llama.cpp@0c1e570:src/models/qwen35.cpp reads them.
DELTA_NETS: Final[tuple[Key, ...]] = (
    Key("{arch}.rope.dimension_sections", ("arr[i32]", "arr[u32]"), REQUIRED, ("graph",),
        "Pairs of a head that turn with time, height, width and a fourth position.", "3.4", least=0,
        note="in text, the first three are one position, and the fourth is 0"),
    Key("{arch}.ssm.conv_kernel", _U32, REQUIRED, ("loader", "graph"), "Tokens that a convolution sees, its own included.",
        "3.3", least=1, unusual=1 << 6),
    Key("{arch}.ssm.state_size", _U32, REQUIRED, ("loader", "graph"), "Width of a head of a delta net.", "3.3", least=1),
    Key("{arch}.ssm.group_count", _U32, REQUIRED, ("loader", "graph"), "Key heads of a delta net.", "3.3", least=1),
    Key("{arch}.ssm.time_step_rank", _U32, REQUIRED, ("loader", "graph"), "Value heads of a delta net.", "3.3", least=1,
        note="a multiple of ssm.group_count"),
    Key("{arch}.ssm.inner_size", _U32, REQUIRED, ("loader", "graph"), "Width of all value heads of a delta net.", "3.3",
        least=1, note="ssm.state_size * ssm.time_step_rank"),
    Key("{arch}.full_attention_interval", _U32, OPTIONAL, ("loader", "graph"),
        "The last layer of each so many has attention, the others a delta net.", "3.3", default=4, least=1),
    Key("{arch}.attention.recurrent_layers", ("arr[bool]", "arr[u32]", "arr[i32]"), OPTIONAL, ("loader", "graph"),
        "Of each layer, whether it has a delta net.", "3.3", otherwise="by full_attention_interval"),
    Key("{arch}.nextn_predict_layers", _U32, OPTIONAL, ("loader", "graph"),
        "How many of the last layers only draft further tokens; the graph leaves them out.", "3.2", default=0,
        note="they are counted in block_count"),
)  # fmt: skip

#: The known values of `tokenizer.ggml.model`.
TOKENIZERS: Final = ("gpt2", "llama", "bert", "t5", "rwkv", "no_vocab")

#: The values of `tokenizer.ggml.model` with which loaders join parts by merges
#: (ggml-org/llama.cpp@0c1e570:src/llama-vocab.cpp).
MERGING: Final = ("gpt2", "gemma4", "hybriddna", "whitespace")

#: The values of `tokenizer.ggml.pre` that the BitNet fork of 2024 and 2025 knows; the last two came with later
#: snapshots of it.
PRE_TOKENIZERS: Final = (
    "default", "llama3", "llama-v3", "llama-bpe", "deepseek-llm", "deepseek-coder", "falcon", "mpt", "starcoder",
    "gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code",
    "refact", "command-r", "qwen2", "stablelm2", "olmo", "dbrx", "smaug-bpe", "poro-chat",
    "chatglm-bpe", "viking", "jais", "tekken", "smollm", "codeshell", "bloom", "gpt3-finnish", "exaone", "chameleon",
    "falcon3", "falcon_e",
)  # fmt: skip

#: Further values that upstream llama.cpp, ik_llama.cpp and the BitNet fork of 2026 know; the latter lacks `falcon_e`.
NEWER_PRE_TOKENIZERS: Final = (
    "a.x-4.0", "afmoe", "bailingmoe", "bailingmoe2", "cohere2moe", "deepseek-r1-qwen", "deepseek-v3", "exaone-moe",
    "exaone4", "f2llmv2", "falcon-h1", "gemma4", "gigachat", "glm4", "gpt-4o", "granite-docling",
    "granite-embed-multi-311m", "granite-embed-multi-97m", "grok-2", "hunyuan", "hunyuan-dense", "jais-2",
    "jina-v5-nano", "joyai-llm",
    "kanana2", "kimi-k2", "kormo", "laguna", "lfm2", "llada-moe", "llama4", "megrez", "mellum", "mellum2", "midm-2.0",
    "minerva-7b", "minicpm5", "minimax-m2", "modern-bert", "pixtral", "qwen35", "roberta-bpe", "sarvam-moe",
    "seed-coder", "solar-open", "superbpe", "talkie", "tiny_aya", "trillion", "whitespace", "youtu",
)  # fmt: skip


def _token_id(name: str, meaning: str) -> Key:
    note = "an id beyond the vocabulary is dropped with a warning"
    return Key(f"tokenizer.ggml.{name}_token_id", _U32, OPTIONAL, ("tokenizer", "chat"), meaning, "3.5", note=note)


#: The keys that a vocabulary of tokens and merges needs.
TOKENIZER_MODEL: Final = "tokenizer.ggml.model"
TOKENS: Final = "tokenizer.ggml.tokens"
MERGES: Final = "tokenizer.ggml.merges"

TOKENIZER: Final[tuple[Key, ...]] = (
    Key(TOKENIZER_MODEL, _STR, REQUIRED, ("tokenizer",), "The kind of tokenizer.", "3.5", values=TOKENIZERS),
    Key(
        "tokenizer.ggml.pre", _STR, OPTIONAL, ("tokenizer",), "How text is split before merges apply.", "3.5",
        default="default", note="the official 2B-4T file lacks it; llama.cpp and its relatives then warn",
    ),
    Key(
        TOKENS, ("arr[str]",), REQUIRED, ("loader", "tokenizer"), "The tokens, by id.", "3.5",
        note="two equal tokens crash loaders",
    ),
    Key(
        "tokenizer.ggml.scores", ("arr[f32]",), EXPECTED, ("tokenizer",), "The priority of each piece.", "3.5",
        when="llama", tolerated=("arr[i32]",), note="read through a pointer without a check of length or type",
    ),
    Key(
        "tokenizer.ggml.token_type", ("arr[i32]",), OPTIONAL, ("tokenizer",), "The kind of each token.", "3.5",
        values=(0, 1, 2, 3, 4, 5, 6), note="0 undefined, 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte",
    ),
    Key(
        MERGES, ("arr[str]",), REQUIRED, ("tokenizer",), "Pairs that are joined, in the order of priority.",
        "3.5", when="gpt2",
    ),
    _token_id("bos", "Begins a text."),
    _token_id("eos", "Ends a text."),
    _token_id("eot", "Ends a turn."),
    _token_id("eom", "Ends a message."),
    _token_id("unknown", "Replaces text that has no token."),
    _token_id("seperator", "Separates two texts; the format spells the key this way."),
    _token_id("padding", "Pads a batch."),
    Key("tokenizer.ggml.cls_token_id", _U32, OPTIONAL, ("people",), "Begins a text that is classified.", "3.5"),
    _token_id("mask", "Marks a token to be predicted."),
    _token_id("fim_pre", "Precedes the text before a gap."),
    _token_id("fim_suf", "Precedes the text after a gap."),
    _token_id("fim_mid", "Precedes the text that fills a gap."),
    _token_id("fim_pad", "Pads a text with a gap."),
    _token_id("fim_rep", "Begins a repository."),
    _token_id("fim_sep", "Separates files."),
    Key("tokenizer.ggml.add_bos_token", _BOOL, OPTIONAL, ("tokenizer",), "Whether texts get a first token.", "3.5"),
    Key("tokenizer.ggml.add_eos_token", _BOOL, OPTIONAL, ("tokenizer",), "Whether texts get a last token.", "3.5"),
    Key("tokenizer.ggml.add_space_prefix", _BOOL, OPTIONAL, ("tokenizer",), "Whether texts get a first space.", "3.5"),
    Key("tokenizer.ggml.add_sep_token", _BOOL, OPTIONAL, ("tokenizer",), "Whether pairs of texts are separated.", "3.5"),
    Key(
        "tokenizer.ggml.remove_extra_whitespaces", _BOOL, OPTIONAL, ("tokenizer",), "Whether runs of spaces are merged.",
        "3.5",
    ),
    Key("tokenizer.ggml.token_type_count", _U32, OPTIONAL, ("tokenizer",), "Kinds of segments (BERT).", "3.5"),
    Key(
        "tokenizer.ggml.precompiled_charsmap", ("arr[u8]", "arr[i8]"), OPTIONAL, ("tokenizer",),
        "How characters are normalized (T5).", "3.5",
    ),
    Key("tokenizer.huggingface.json", _STR, OPTIONAL, ("people",), "A whole tokenizer.json.", "3.5"),
    Key(
        "tokenizer.chat_template", _STR, OPTIONAL, ("chat",), "Template of conversations, in Jinja.", "3.5",
        note="a program from an untrusted file: render it in a sandbox or not at all",
    ),
)  # fmt: skip

#: The first and the last token of texts, as loaders take them where a file names none.
DEFAULT_SPECIAL_TOKENS: Final = {
    "gpt2": {"tokenizer.ggml.bos_token_id": 11, "tokenizer.ggml.eos_token_id": 11},
    "llama": {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2},
}

# Why the sizes of a model cannot be derived from its keys.
ARCHITECTURE_UNKNOWN: Final = Fault("M001", "architecture-unknown", "the architecture is {got}; {want}")
KEY_MISSING: Final = Fault("M002", "key-missing", "the key {key} is missing{by}")
KEY_TYPE: Final = Fault("M003", "key-type", "the key {key} holds {got}; {want} is needed")
KEY_VALUE: Final = Fault("M004", "key-value", "the key {key} is {got}; {want} is needed")
LAYER_ARRAY: Final = Fault(
    "M005", "layer-array-length", "the key {key} is an array of {got}; the model has {want:layer}"
)
HEADS: Final = Fault(
    "M006",
    "heads-do-not-fill",
    "{got:query head does|query heads do} not divide the {want:column} of the hidden state, and "
    "attention.key_length and value_length do "
    "not give the width of a head",
)
HEAD_GROUPS: Final = Fault("M007", "head-groups", "{want:query head} cannot share {got:key head} evenly")
ROPE_DIMENSIONS: Final = Fault("M008", "rope-dimensions", "rope.dimension_count is {got}; heads are {want} wide")
