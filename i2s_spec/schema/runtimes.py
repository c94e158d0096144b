"""The programs that read ternary files: what each accepts, and the sources for this; runs show what it computes.

A *runtime* is a program in some range of its versions. `container` says what its GGUF reader checks, `types` which
tensor types it knows, `architectures` which models, `i2s` how it treats an I2_S tensor, `layouts` how its kernels read
one on each kind of machine, `endings` what it does with wrong values in a valid header. Facts that do not fit a table
are `Fact`s with a source each. `linter.runtimes` checks files against these declarations; a new runtime is added by one
entry.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from i2s_spec.schema.keys import NEWER_PRE_TOKENIZERS

# --- loader endings --------------------------------------------------------------------------------------------------
# What loaders do with wrong values in a valid header: they refuse the file, abort, or load it.
#
# `Runtime.endings` names one of the tables. The entries of a table were observed with a build of that commit, and cite
# the source line; for other faults, only the declarations of the architecture apply.
#
#     file-type          general.file_type of another type than u32
#     experts            more experts used than there are, or none although there are some
#     rope-scaling       a rope.scaling.type that the loader has no name for
#     no-layers          block_count 0
#     context-length     context_length 0
#     rope-base          a base of the rotation that is negative, 0, infinite or not a number
#     epsilon            an epsilon of norms that is not above 0
#     token-arrays       tokens or merges that are not arrays of text
#     merge-empty        an empty merge
#     token-twice        two tokens of the same text
#     special-token      the number of the first or the last token of texts is beyond the tokens


class Ending(NamedTuple):
    """The outcome for a model: it is refused, the program crashes, or it is loaded; with the source."""

    outcome: Literal["no", "crash", "yes"]
    source: str


_FORK_SOURCE: Final = "XsquirrelC/llama.cpp@0f0e7dae:"
_IK_SOURCE: Final = "ikawrakow/ik_llama.cpp@8337e4c:"

#: bitnet.cpp of 2024 and 2025.
FORK_ENDINGS: Final = (
    ("file-type", Ending("crash", _FORK_SOURCE + "ggml/src/ggml.c:23375")),
    ("experts", Ending("crash", _FORK_SOURCE + "src/llama.cpp:5512")),
    ("rope-scaling", Ending("crash", _FORK_SOURCE + "src/llama.cpp:5546")),
    ("no-layers", Ending("crash", _FORK_SOURCE + "src/llama.cpp:2558")),
    ("context-length", Ending("yes", _FORK_SOURCE + "src/llama.cpp:5505")),
    ("rope-base", Ending("yes", _FORK_SOURCE + "src/llama.cpp:5541")),
    ("epsilon", Ending("crash", _FORK_SOURCE + "ggml/src/ggml.c:12091")),
    ("token-arrays", Ending("crash", _FORK_SOURCE + "ggml/src/ggml.c:23345")),
    ("merge-empty", Ending("crash", _FORK_SOURCE + "src/llama.cpp:6326")),
    ("token-twice", Ending("crash", _FORK_SOURCE + "src/llama.cpp:6596")),
    ("special-token", Ending("crash", _FORK_SOURCE + "src/llama.cpp:7064")),
)

#: ik_llama.cpp, if its source has the same lines.
IK_ENDINGS: Final = (
    ("experts", Ending("crash", _IK_SOURCE + "src/llama-hparams.cpp:172")),
    ("rope-scaling", Ending("crash", _IK_SOURCE + "src/llama-hparams.cpp:208")),
    ("token-twice", Ending("crash", _IK_SOURCE + "src/llama-vocab.cpp:2261")),
)

#: The names of `rope.scaling.type` that both know.
ROPE_SCALINGS: Final = ("none", "linear", "yarn")

#: Names of `tokenizer.ggml.pre` that others know but a loader does not, with the source.
FORK_2024_PRE: Final = (frozenset({*NEWER_PRE_TOKENIZERS, "falcon_e"}), _FORK_SOURCE + "src/llama.cpp:6512")
FORK_2025_PRE: Final = (frozenset(NEWER_PRE_TOKENIZERS), _FORK_SOURCE + "src/llama.cpp:6512")
IK_PRE: Final = (
    frozenset({"cohere2moe", "falcon_e", "granite-embed-multi-311m", "granite-embed-multi-97m", "minicpm5", "sarvam-moe",
               "talkie", "whitespace"}),
    _IK_SOURCE + "src/llama-vocab.cpp:2171",
)  # fmt: skip


# --- runtimes --------------------------------------------------------------------------------------------------------

#: What a reader does with invalid input: refuse it, crash, never return, continue.
Outcome = Literal["no", "crash", "yes"]


class Fact(NamedTuple):
    """A fact about a runtime, in a sentence, with its source: an issue, a file, a vector."""

    text: str
    source: str


class SizeLimit(NamedTuple):
    """A size of tensors that a runtime does not take.

    :param text: what happens, :param effect: that of a reason (`linter.runtimes.records.Reason`)
    :param types: types that it concerns; all if empty
    :param columns: the least length of rows; 0 for none, :param bytes: the largest size; 0 for none
    """

    text: str
    source: str
    effect: Literal["crash", "wrong", "cpu"]
    types: tuple[str, ...] = ()
    columns: int = 0
    bytes: int = 0


class Container(NamedTuple):
    """The checks of a GGUF reader; each field says what happens to a file with that property.

    `versions` are the accepted versions (empty for all but 1), `version_1` whether it reads 32-bit counts. `end` says
    what it does if the file ends too early: `no`, `zeros` if it continues with zeros, `short` if it uses the rest of a
    string or an array. Numbers are limits, None for no limit. `in_order` requires that offsets are the running sum of
    sizes, `in_file` that tensors are inside the file, `mapped` that they are so as arrays of their shape. `allocates`
    is the number of bytes that it can allocate for an announced count or length before it reads the data; beyond it,
    the reader crashes. `known` is False if its behavior with a damaged header was not examined.
    """

    versions: tuple[int, ...] = (2, 3)
    version_1: bool = False
    big_endian: Outcome = "no"
    end: Literal["no", "zeros", "short"] = "no"
    empty_key: Outcome = "yes"
    duplicate_key: Outcome = "yes"
    duplicate_name: Outcome = "no"
    bad_utf8: Outcome = "yes"
    value_type: Outcome = "no"
    nested_array: Outcome = "no"
    array_depth: int | None = None
    string_bytes: int | None = None
    array_items: int | None = None
    keys: int | None = None
    tensors: int | None = None
    name_bytes: int | None = None
    dimensions: int | None = 4
    too_many_dimensions: Outcome = "no"
    no_dimensions: Outcome = "yes"
    zero_length: Outcome = "yes"
    overflow: Outcome = "no"
    length: int | None = None
    alignment_type: Outcome = "no"
    alignment_zero: Outcome = "no"
    alignment_odd: Outcome = "no"
    in_order: bool = False
    in_file: bool = False
    mapped: bool = False
    allocates: int | None = None
    known: bool = True
    retired_type: Outcome = "no"
    unknown_type: Outcome = "no"
    split_block: Outcome = "no"


class Runtime(NamedTuple):
    """One program, or a range of versions of a program.

    :param kind: `engine` computes, `reader` parses headers only, `front` reads a file itself and then hands it to the
        runtime `of`, or to engines of its own if that is empty; its `types` are those that its own reader takes, all if
        they are empty
    :param i2s: `computes`; `rejects` (it does not know the type); `converts` (it must be converted to another type
        first); `lists` (it shows the number and does nothing else)
    :param architectures: those of `schema.architectures` that it knows; `unsure` those for which this is not known
    :param layouts: kind of machine to the layout that its kernels read there, or empty if they compute wrong results
    :param activations: architecture to the activation that its graph applies, if it differs from the schema's
    :param rope: `neox`, `norm` or, if it follows the architecture, empty
    :param half_norms: what happens to norms in F16
    :param columns: the multiple that rows of I2_S must have somewhere, and where
    :param pre: what it does without `tokenizer.ggml.pre`
    :param loader: the sources for the checks of its loader: `keys` that it requires and their types, `vocabulary`,
    `missing` tensors, `shape`, `count` of tensors and tokens. Other checks were not tried
    :param vocabularies: architectures of which it loads a vocabulary alone, without tensors
    :param bitnet_names: the source for the names of BitNet architectures that it knows
    :param endings: what its loader does with wrong values in a valid header, with sources (`FORK_ENDINGS` and others)
    :param pre_unknown: names of `tokenizer.ggml.pre` that others know and it refuses, with the source
    :param required: keys that it requires beyond the declared ones: architecture, key, source
    :param no_first_token: values of `tokenizer.ggml.pre` with which it adds no first token to texts, unlike others
    :param norm_in: what happens to *_norm_in tensors
    :param scales: in which architectures it takes NAME.scale beside a weight (`inventory.BESIDE`); in no other than
        `bitnet` where it does not know NVFP4
    :param limits: sizes of tensors that it does not take
    :param without: the ending of names of tensors that it does without although a model needs them, and the source
    :param converted: the type that its own conversion of I2_S gives, if it needs one
    :param after: the command that writes what it reads, if that is no GGUF file
    :param narrower: kind of machine, and multiple that rows of I2_S must have there, if that is more than `columns`
    :param programs: packages that are this runtime, or contain it, and whose runs are recorded
    (`linter.runtimes.records`)
    :param recorded: whether everything known about it comes from these runs
    :param on_devices: whether it was run on other devices than processors (`linter.runtimes.devices`)
    :param heads_on_cpu: architectures whose tied head it multiplies on the processor although all layers are offloaded
    :param loader_table: whether its loader is the one of the table `schema.llama_cpp`
    :param block_bytes: types whose blocks have another size in its table: number, elements, bytes
    """

    name: str
    title: str
    kind: Literal["engine", "reader", "front"]
    period: str
    container: Container
    types: frozenset[int]
    source: str
    i2s: Literal["computes", "rejects", "converts", "lists"] = "rejects"
    architectures: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    layouts: tuple[tuple[str, str], ...] = ()
    activations: tuple[tuple[str, str], ...] = ()
    rope: str = ""
    half_norms: Outcome = "yes"
    columns: tuple[int, str] | None = None
    unused_code: str = ""
    embeddings: bool = False
    pre: str = ""
    of: str = ""
    loader: tuple[tuple[str, str], ...] = ()
    vocabularies: frozenset[str] = frozenset()
    bitnet_names: str = "ikawrakow/ik_llama.cpp#365"
    endings: tuple[tuple[str, Ending], ...] = ()
    pre_unknown: tuple[frozenset[str], str] = (frozenset(), "")
    required: tuple[tuple[str, str, str], ...] = ()
    no_first_token: frozenset[str] = frozenset()
    norm_in: Literal["yes", "no", "unknown"] = "yes"
    scales: Literal["everywhere", "bitnet", "unknown"] = "bitnet"
    limits: tuple[SizeLimit, ...] = ()
    without: tuple[bytes, str] | None = None
    converted: str = ""
    after: str = ""
    narrower: tuple[tuple[str, int, str], ...] = ()
    block_bytes: tuple[tuple[int, int, int], ...] = ()
    programs: tuple[str, ...] = ()
    recorded: bool = False
    loader_table: bool = False
    on_devices: bool = False
    heads_on_cpu: tuple[str, ...] = ()
    refusal: Fact | None = None
    facts: tuple[tuple[str, Fact], ...] = ()

    def fact(self, name: str) -> Fact | None:
        """One of its facts."""
        return dict(self.facts).get(name)


def _loader(source: str) -> tuple[tuple[str, str], ...]:
    """Return a loader of llama.cpp's family, which makes all checks."""
    return tuple((check, source) for check in ("keys", "vocabulary", "missing", "shape", "count"))


#: The GGUF reader of the fork of llama.cpp, and what bitnet.cpp contains since May 2026.
_FORK: Final = "XsquirrelC/llama.cpp@0f0e7dae:ggml/src/ggml.c:22901"
_FORK_2026: Final = "microsoft/BitNet@16da220:3rdparty/llama.cpp"
_SCALAR: Final = "isHuangXin/bitnet_llama.cpp@4e4cbcd2:ggml/src/ggml-cpu/quants.c"
_IK: Final = "ikawrakow/ik_llama.cpp@8337e4c:ggml/src/ggml.c:31142"
_OXBITNET: Final = "m96-chan/0xBitNet@f2ab5ec:packages/core/src/"
#: The output of loaders when keys and tensors were removed one at a time.
_MISSING: Final = "tests/oracle/errors/missing_keys_and_tensors.json"

_COMMON: Final = frozenset({0, 1, 2, 3, *range(6, 31)})

#: llama.cpp of autumn 2024, with the four types of BitNet.
_FORK_TYPES: Final = _COMMON | {31, 32, 33, 34, 35, 36, 37, 38, 39}

_FORK_CONTAINER: Final = Container(
    versions=(), value_type="crash", nested_array="crash", too_many_dimensions="crash", no_dimensions="crash",
    zero_length="crash", overflow="crash", alignment_type="crash", alignment_zero="crash", alignment_odd="yes",
    in_file=True, unknown_type="crash", retired_type="no", allocates=1 << 36,
)  # fmt: skip

_UPSTREAM_CONTAINER: Final = Container(
    empty_key="no", duplicate_key="no", string_bytes=1 << 30, array_items=1 << 30, name_bytes=63, in_order=True,
    in_file=True,
)  # fmt: skip

#: A reader whose treatment of headers was not examined.
_NOT_READ: Final = Container(known=False)

#: Architectures for which every engine that descends from llama.cpp has a vocabulary without tensors in its tests.
_VOCABULARIES: Final = frozenset({"bert", "gpt2", "llama", "phi3"})
#: A loader of llama.cpp's family, as the source for others that may behave alike; and where it aborts on norms in F16.
FAMILY_LOADER: Final = "ggml-org/llama.cpp@3074b50:src/llama-model-loader.cpp"
HALF_NORMS_SOURCE: Final = "XsquirrelC/llama.cpp@0f0e7dae:ggml/src/ggml.c:10278"
VOCABULARIES_SOURCE: Final = "ggml-org/llama.cpp@3074b50:models"

_UPSTREAM_VOCABULARY: Final = "ggml-org/llama.cpp@3074b50:src/llama-vocab.cpp"

#: Pre-tokenizers of Falcon, after which the fork adds no first token.
_FALCON: Final = frozenset({"falcon3", "falcon_e"})
_FALCON_BOS: Final = Fact(
    "it adds no first token to texts with Falcon's vocabularies, as llama.cpp does for falcon3",
    "XsquirrelC/llama.cpp@0f0e7dae:src/llama.cpp:6425",
)

#: The declared values of `general.architecture` that were looked up in the source of each engine, and whose files were run.
#: About another one nothing is known, unless an engine lists it or a run of such a file is recorded.
LOOKED_UP: Final = frozenset({"bitnet", "bitnet-25", "bitnet-b1.58", "gemma3", "llama", "qwen3"})

_BITNET_NAMES: Final = "microsoft/BitNet#212"
_METAL: Final = (("Metal", 256, "XsquirrelC/llama.cpp@0f0e7dae:ggml/src/ggml-metal.metal:3349"),)

_GIBBERISH: Final = Fact(
    "x86 without AVX2: the kernels are empty functions there, so that their output keeps its old content",
    "microsoft/BitNet#547",
)
_NO_DEQUANT: Final = Fact("code 3 is 0 to its dequantizer and +2 to its kernels", "tests/oracle/code3")
_ROW: Final = Fact(
    "its kernels and get_rows begin at a row: if rows are not whole blocks, every other row is read wrongly",
    "ikawrakow/ik_llama.cpp discussion 95",
)
_INT16: Final = Fact(
    "AVX2 kernels add 32 blocks in 16 bits: where activations are saturated, rows can go wrong from 2,176 columns on, and "
    "of usual weights more than one in ten does from 3,712 on",
    "tests/oracle/dot",
)
_INT16_NEON: Final = Fact(
    "ARM without dot products, built since 19 November 2025: the same with blocks of 64, from 1,088 columns on, and 1,920",
    "tests/oracle/dot",
)

_AS_CHATML: Final = Fact(
    "takes the chat template of BitNet-2B-4T for chatml when it makes a model of the file: prompts get <|im_start|> and "
    "<|im_end|>, which the vocabulary does not have; a TEMPLATE in the Modelfile goes before",
    "github.com/ollama/ollama 0.17.4 template/template.go",
)


def _recorded(
    name: str, title: str, kind: Literal["engine", "reader"], versions: str, run: str, **more: Any
) -> Runtime:
    """Return a program of which only recorded runs are known, by default those of one package."""
    facts: dict[str, Any] = {"programs": (run.partition("/")[0],), "recorded": True} | more
    return Runtime(name, title, kind, versions, _NOT_READ, frozenset(), f"run {run}", **facts)


RUNTIMES: Final[tuple[Runtime, ...]] = (
    Runtime(
        "bitnet.cpp-2024", "bitnet.cpp, October 2024 to March 2025", "engine", "6cfd883 to a8ac7072", _FORK_CONTAINER,
        _FORK_TYPES, _FORK, "computes", ("bitnet", "llama"), (),
        (("x86 with AVX2", "interleave-128"), ("ARM", "interleave-128"), ("x86 without AVX2", "")),
        half_norms="crash", columns=(128, "all of its kernels"), unused_code="+2 in kernels", loader=_loader(_MISSING),
        vocabularies=_VOCABULARIES, bitnet_names=_BITNET_NAMES, narrower=_METAL, endings=FORK_ENDINGS,
        pre="takes the default and warns", pre_unknown=FORK_2024_PRE, no_first_token=_FALCON,
        facts=(("no-avx2", _GIBBERISH), ("rows", _ROW), ("int16", _INT16), ("first-token", _FALCON_BOS)),
    ),
    Runtime(
        "bitnet.cpp-2025", "bitnet.cpp, April 2025 to July 2026", "engine", "5eb47b72 to 69bf64d", _FORK_CONTAINER,
        _FORK_TYPES, _FORK, "computes", ("bitnet", "bitnet-25", "bitnet-b1.58", "llama"), (),
        (("x86 with AVX2", "interleave-128"), ("ARM, built before 19 November 2025", "interleave-128"),
         ("ARM, built since 19 November 2025", "interleave-64"), ("x86 without AVX2", "")),
        half_norms="crash", columns=(128, "all of its kernels"), unused_code="0 in the dequantizer, +2 in kernels",
        embeddings=True, loader=_loader(_MISSING), vocabularies=_VOCABULARIES, bitnet_names=_BITNET_NAMES, narrower=_METAL,
        programs=("bitnet.cpp", "bitnet-llm-sys"), endings=FORK_ENDINGS, pre="takes the default and warns",
        pre_unknown=FORK_2025_PRE, no_first_token=_FALCON,
        facts=(
            ("first-token", _FALCON_BOS), ("no-avx2", _GIBBERISH), ("rows", _ROW), ("int16", _INT16),
            ("int16-neon", _INT16_NEON), ("code3", _NO_DEQUANT),
            ("arm", Fact("its kernels for ARM read blocks of 64 from commit 112f853 on", "microsoft/BitNet#585")),
        ),
    ),
    # 69bf64d is of 24 May 2026, and was merged into the main branch on 16 July.
    Runtime(
        "bitnet.cpp-2026", "bitnet.cpp since July 2026", "engine", "69bf64d and later",
        _UPSTREAM_CONTAINER, _COMMON | {34, 35, 36, 37, 38, 39, 40, 41, 42},
        _FORK_2026, "computes", ("bitnet", "bitnet-b1.58", "llama", "qwen3", "gemma3"), ("bitnet-25",),
        (("x86 with AVX2", "interleave-128"), ("x86 without AVX2", ""), ("ARM", "")),
        activations=(("bitnet-b1.58", "silu"),), columns=(128, "all of its kernels"),
        unused_code="0 in the dequantizer, +2 in kernels", embeddings=True, loader=_loader(_FORK_2026),
        vocabularies=_VOCABULARIES, scales="unknown",
        bitnet_names=_BITNET_NAMES, narrower=_METAL, pre="takes the default and warns",
        pre_unknown=(frozenset({"falcon_e"}), _FORK_2026),
        facts=(
            ("activation", Fact("its graph applies SiLU to 2B-4T, which was trained with ReLU²: perplexity 99.8, not 17.1",
                                "microsoft/BitNet#588")),
            ("arm", Fact("without AVX2 a scalar loop reads codes one after another, and subtracts the activations twice",
                         _SCALAR)),
            ("no-avx2", Fact("without AVX2 a scalar loop reads codes one after another, and subtracts the activations twice",
                             _SCALAR)),
            ("rows", _ROW), ("code3", _NO_DEQUANT),
        ),
    ),
    Runtime(
        "llama.cpp", "llama.cpp (ggml-org), August to October 2026", "engine",
        "ggml d99724f, and the releases that were run", _UPSTREAM_CONTAINER, _COMMON | {34, 35, 39, 40, 41, 42},
        "ggml-org/ggml@d99724f:src/gguf.cpp:462", "rejects", ("bitnet", "llama", "qwen3", "gemma3"),
        vocabularies=_VOCABULARIES, norm_in="no", scales="everywhere", loader_table=True, on_devices=True,
        heads_on_cpu=("bitnet",),
        bitnet_names="run xllamacpp/bitnet-b1.58.f32",
        programs=("xllamacpp", "node-llama-cpp", "@node-llama-cpp/linux-x64"), loader=_loader(FAMILY_LOADER),
        refusal=Fact("type 36 is its retired IQ4_NL_4_4: \"not a multiple of block size (0)\"", "run xllamacpp/llama.i2_s"),
        pre="takes the default and warns", pre_unknown=(frozenset({"falcon_e"}), _UPSTREAM_VOCABULARY),
        facts=(("norm-in", Fact("it does not know *_norm_in tensors: wrong number of tensors",
                                "run xllamacpp/qwen3.f32")),
               ("scales", Fact("it multiplies the result of the weight by it",
                               "ggml-org/llama.cpp@0c1e57098:src/llama-graph.cpp:1530")),
               ("input-scales", Fact("it loads it and uses it nowhere",
                                     "ggml-org/llama.cpp@0c1e57098:src/llama-model.cpp:1710")),
               ("scales-ignored-gemma3", Fact("it loads the scales of the feed-forward and does not multiply by them",
                                              "ggml-org/llama.cpp@0c1e57098:src/models/gemma3.cpp:177")),
               ("activation", Fact("it applies SiLU to architecture bitnet, whatever <arch>.hidden_activation says",
                                   "run xllamacpp/bitnet.q2_0.relu2"))),
    ),
    Runtime(
        "ik_llama.cpp", "ik_llama.cpp, August 2026", "engine", "8337e4c",
        _FORK_CONTAINER._replace(unknown_type="crash", retired_type="crash"),
        _COMMON | {36, 39, 41, 134, 135}, _IK, "converts",
        ("bitnet", "bitnet-25", "bitnet-b1.58", "llama", "qwen3", "gemma3", "qwen35"), (),
        (("every machine, once converted", "interleave-128"),), unused_code="+2", pre="takes the default and warns",
        loader=_loader(_MISSING), vocabularies=_VOCABULARIES, norm_in="no", endings=IK_ENDINGS, pre_unknown=IK_PRE,
        required=(("gemma3", "gemma3.attention.sliding_window",
                   "ikawrakow/ik_llama.cpp@8337e4c:src/llama-hparams.cpp:835"),),
        refusal=Fact(
            "it has no kernels for I2_S: llama-quantize --allow-requantize --token-embedding-type f16 IN OUT IQ2_BN comes "
            "first (without the option the embedding becomes IQ4_NL); run as it is, every I2_S product is 0, or a null "
            "pointer is called", "ikawrakow/ik_llama.cpp#365",
        ),
        converted="IQ2_BN", programs=("ik-llama-cpp-python",),
        limits=(SizeLimit("its kernels of IQ1_BN and IQ2_BN need 512, and end the process by an assertion",
                      "run ik-llama-cpp-python/llama.iq2_bn", "crash", ("IQ1_BN", "IQ2_BN"), 512),),
        facts=(("norm-in", Fact("it does not know *_norm_in tensors: wrong number of tensors",
                                "ikawrakow/ik_llama.cpp@8337e4c:src/llama-model-loader.cpp:1006")),),
    ),
    Runtime(
        "0xBitNet", "0xBitNet (WebGPU), f2ab5ec", "engine", "f2ab5ec",
        Container(versions=(), known=False, alignment_zero="yes", alignment_odd="yes", alignment_type="yes",
                  duplicate_name="yes", dimensions=None),
        _COMMON | {34, 35, 36}, _OXBITNET + "model/gguf.ts:111", "computes",
        ("bitnet", "bitnet-25", "bitnet-b1.58", "llama"), ("qwen3", "gemma3"),
        (("WebGPU", "interleave-128"),), (("bitnet", "relu2"),), "norm", columns=(128, "its shaders"), unused_code="+2",
        programs=("0xBitNet",), loader=(("missing", _OXBITNET + "nn/model.ts:100"),),
        without=(b"_sub_norm.weight", _OXBITNET + "nn/model.ts:100"),
        limits=(SizeLimit("a WebGPU device binds 128 MiB at once, unless it allows more; what is beyond is read as 0",
                      _OXBITNET + "model/weights.ts", "cpu", bytes=128 << 20),),
        facts=(
            ("rope", Fact("it rotates neighbors, and does not reorder the rows of files made for rotating halves",
                          _OXBITNET + "shaders/rope.wgsl:1")),
            ("activation", Fact("it applies ReLU² to every architecture whose name begins with bitnet",
                                _OXBITNET + "model/loader.ts:342")),
            ("rows", Fact("its shaders read row by row", _OXBITNET + "shaders/ternary_gemv.wgsl:58")),
        ),
    ),
    Runtime(
        "gguf-py", "gguf for Python, 0.19.0", "reader", "0.19.0",
        Container(big_endian="yes", end="short", duplicate_key="no", bad_utf8="no", nested_array="yes",
                  array_depth=400, dimensions=None, mapped=True),
        _COMMON | {34, 35, 39, 40, 41}, "gguf 0.19.0 gguf/gguf_reader.py:328", "rejects", block_bytes=((9, 32, 40),),
        programs=("gguf",),
        refusal=Fact(
            "\"36 is not a valid GGMLQuantizationType\": not even the metadata can be shown", "run gguf/llama.i2_s"
        ),
    ),
    Runtime(
        "huggingface-gguf", "@huggingface/gguf for JavaScript, 0.4.6 (the Hub's viewer)", "reader", "0.4.6",
        Container(versions=(1, 2, 3), version_1=True, big_endian="yes", end="zeros", duplicate_name="yes",
                  nested_array="yes", array_depth=4, string_bytes=10_000_000, array_items=1_000_000, keys=100_000,
                  tensors=10_000_000, dimensions=8, overflow="yes", length=1 << 32, alignment_type="yes",
                  alignment_odd="yes", retired_type="yes", unknown_type="yes", split_block="yes"),
        frozenset(), "@huggingface/gguf 0.4.6 src/gguf.ts:378", "lists", programs=("@huggingface/gguf",),
        facts=(("lists", Fact("it shows the number 36 without a name, and checks neither sizes nor offsets",
                              "run @huggingface/gguf/llama.i2_s")),),
    ),
    _recorded("mistral.rs", "mistral.rs, mistralrs for Python, 0.9.5", "engine", "0.9.5", "mistralrs/llama.f32"),
    _recorded("openvino-genai", "OpenVINO GenAI for Python, 2026.4.1.0", "engine", "2026.4.1.0", "openvino-genai/llama.f16"),
    _recorded("gguf-parser", "gguf-parser for Python, 0.1.1", "reader", "0.1.1", "gguf-parser/llama.f32"),
    _recorded("hyllama", "hyllama for JavaScript, 0.2.2", "reader", "0.2.2", "hyllama/llama.f32"),
    _recorded("modelaudit", "modelaudit for Python, 0.2.54, a scanner", "reader", "0.2.54", "modelaudit/llama.f32"),
    _recorded("candle", "candle, candle-transformers for Rust, 0.11.1", "engine", "0.11.1",
              "candle-transformers/llama.f16.wide"),
    _recorded("transformers", "transformers for Python, 5.24.0, gguf_file=", "engine", "5.24.0",
              "transformers/llama.f16.wide"),
    _recorded("tritium", "Tritium 1.1.0: pytritium for Python, tritium-nn for Rust", "engine", "1.1.0-rc.2",
              "tritium-nn/bitnet-b1.58.i2_s.wide", programs=("pytritium", "tritium-nn")),
    _recorded("ferrox", "ferrox-models for Rust, 0.25.0", "engine", "0.25.0", "ferrox-models/llama.ptq1_0.wide"),
    _recorded("oxillama", "oxillama-runtime for Rust, 0.1.4", "engine", "0.1.4", "oxillama-runtime/llama.tq2_0.wide"),
    _recorded("bitnet-go", "bitnet-go, a3d7700", "engine", "a3d7700", "bitnet-go/trained.llama.i2_s"),
    _recorded("gogguf", "gogguf, 270b2ea", "engine", "270b2ea", "gogguf/trained.llama.f16"),
    _recorded("llama3.java", "llama3.java, 8cf392d", "engine", "8cf392d", "llama3.java/trained.llama.f16"),
    _recorded("de.kherud", "de.kherud:llama for Java, 4.2.0, through llama.cpp b4916", "engine", "4.2.0",
              "de.kherud:llama/trained.llama.f16"),
    _recorded("transformers-exports", "transformers for Python, 5.24.0, from a checkpoint", "engine", "5.24.0",
              "transformers-exports/bitnet-b1.58.i2_s.wide", after="i2s export"),
    _recorded("loom", "loom, 3083bb7, from a checkpoint", "engine", "3083bb7",
              "loom/trained.bitnet-b1.58.i2_s", after="i2s export"),
    _recorded("jlama", "Jlama 0.8.4, from a checkpoint", "engine", "0.8.4",
              "jlama-core/trained.llama.f16", after="i2s export --form F16"),
    Runtime(
        "ollama-0.29", "Ollama, to 0.29", "front", "to 0.29", _NOT_READ, frozenset(),
        "github.com/ollama/ollama 0.17.4 fs/ggml/ggml.go", facts=(
            ("engines", Fact("it computes with engines of its own, and with a copy of llama.cpp",
                             "github.com/ollama/ollama 0.17.4 fs/ggml/ggml.go")),
            ("template", _AS_CHATML),
        ),
    ),
    Runtime(
        "ollama-0.30", "Ollama, 0.30 to 0.31.1", "front", "0.30.0 to 0.31.1", _NOT_READ, frozenset(),
        "ollama/ollama@03af7fe:llama/README.md:3", of="llama.cpp",
        refusal=Fact("it says \"invalid file magic\", which is misleading", "ollama/ollama#10334"),
        facts=(("template", _AS_CHATML),),
    ),
    Runtime(
        "ollama", "Ollama, since 0.31.2", "front", "0.31.2 to 0.33.0-rc2", _NOT_READ, _COMMON | {39, 40, 41},
        "ollama/ollama@67b6a1c2d:fs/ggml/ggml.go", of="llama.cpp", programs=("Ollama",),
        refusal=Fact("its own reader knows no size of this type: \"size overflow\"", "run Ollama/llama.tq2_0"),
        facts=(("template", _AS_CHATML),),
    ),
    Runtime(
        "lm-studio", "LM Studio, through llama.cpp", "front", "", _NOT_READ, frozenset(),
        "huggingface/hub-docs@8806f47:docs/hub/lmstudio.md:5", of="llama.cpp",
        refusal=Fact("it says that the model cannot be loaded", "lmstudio-ai/lmstudio-bug-tracker#598"),
    ),
)  # fmt: skip

RUNTIME: Final = {runtime.name: runtime for runtime in RUNTIMES}

#: Types that a runtime's tables no longer have, although their numbers are below its last.
RETIRED_SLOTS: Final = frozenset({4, 5, 31, 32, 33, 36, 37, 38})
