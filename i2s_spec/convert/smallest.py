"""The smallest sound file of any architecture that llama.cpp loads: what its loader requires, and nothing else.

Keys and tensors follow from the table of the loader (`schema.llama_cpp`): keys that it requires get the value that is
declared for them here, conditions and shapes ask for more of them, and then each required tensor is added with its shape,
until nothing is missing. Weights are random, and the same arguments give the same bytes on every machine.

    >>> found = plan("qwen3next", ChosenSizes())
    >>> found.keys["qwen3next.ssm.inner_size"], found.tensors["blk.0.ssm_out.weight"]
    (('u32', 64), ((64, 64), 'F16'))

What was tried with libllama, and what it then said, is in the tests (`tests/convert/test_smallest.py`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.convert import made_up_vocabulary
from i2s_spec.errors import counted, quote
from i2s_spec.schema import llama_cpp
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.expressions import Expression, ExpressionScope, UnknownValue, compiled
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.keys import MAX_LAYERS, file_type_of
from i2s_spec.schema.llama_cpp import Demands, KeyContents, KeyRow, LoaderArchitecture

if TYPE_CHECKING:
    from i2s_spec.gguf.writer import Writer

#: Types of the matrices, the usual one first: floats, and the ternary types that llama.cpp has.
TYPES: Final = ("F16", "F32", "BF16", "Q2_0", "TQ1_0", "TQ2_0")

#: More elements are in no tensor of a small model: a size that was given is wrong.
MOST_ELEMENTS: Final = 1 << 26


class ChosenSizes(NamedTuple):
    """What was chosen; None leaves a size to the architecture."""

    layers: int | None = None
    embd: int | None = None
    ff: int | None = None
    heads: int | None = None
    heads_kv: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    context: int | None = None
    type: str = TYPES[0]


class SmallestFile(NamedTuple):
    """What a file will hold.

    :param keys: the keys of the architecture: type, and value
    :param tensors: shapes in ggml's order, and types
    :param vocab: the number of tokens
    """

    keys: dict[str, tuple[str, Any]]
    tensors: dict[str, tuple[tuple[int, ...], str]]
    vocab: int


class ArchitectureNeeds(NamedTuple):
    """What an architecture needs that the table does not say.

    :param keys: values of keys, which are then always written; None for a key that is left out
    :param sizes: sizes other than the usual ones
    :param tensors: tensors that its graph needs although the loader takes a file without them, or of which the table does
        not resolve whether they are needed, by their names in the table, each with the condition
    """

    keys: Mapping[str, str | None] = {}
    sizes: Mapping[str, int] = {}
    tensors: Mapping[str, str] = {}


#: The usual sizes.
SIZES: Final = {"layers": 2, "embd": 64, "ff": 128, "heads": 4, "heads_kv": 2, "vocab": 320, "context": 64}

#: Values of keys by their names after the architecture, as expressions of the sizes and of `i`, the number of a layer, which
#: makes an array with an element for each layer. Those of `ALWAYS` are in every file, the others where they are needed.
ALWAYS: Final = {
    "context_length": "context", "embedding_length": "embd", "block_count": "layers", "feed_forward_length": "ff",
    "attention.head_count": "heads", "attention.head_count_kv": "heads_kv",
}  # fmt: skip
VALUES: Final = {
    "activation.situ_beta": "1.0",
    "adapters.lora_rank": "4",
    "attention.clamp_kqv": "8.0",
    "attention.compress_ratios": "0*i",
    "attention.compress_rope_freq_base": "10000.0",
    "attention.decay_lora_rank": "8",
    "attention.gate_lora_rank": "8",
    "attention.group_norm_epsilon": "1e-5",
    "attention.group_norm_groups": "2",
    "attention.iclr_lora_rank": "8",
    "attention.indexer.block_size": "8",
    "attention.indexer.head_count": "2",
    "attention.indexer.key_length": "(head_dim+63)//64*64",  # what is transformed by blocks of 64
    "attention.indexer.kpool": "2",
    "attention.indexer.top_k": "8",
    "attention.indexer.types": "1+0*i",
    "attention.key_length": "head_dim",
    "attention.key_length_mla": "head_dim+head_dim//2",
    "attention.key_length_mla_swa": "head_dim+head_dim//2",
    "attention.key_length_swa": "head_dim",
    "attention.kv_lora_rank": "embd//2",
    "attention.kv_lora_rank_swa": "embd//2",
    "attention.layer_norm_epsilon": "1e-5",
    "attention.layer_norm_rms_epsilon": "1e-5",
    "attention.output_group_count": "2",
    "attention.output_lora_rank": "16",
    "attention.q_lora_rank": "embd//2",
    "attention.relative_buckets_count": "8",
    "attention.sliding_window": "context//2",
    "attention.sliding_window_pattern": "i%2",
    "attention.value_length": "head_dim",
    "attention.value_length_mla": "head_dim",
    "attention.value_length_mla_swa": "head_dim",
    "attention.value_length_swa": "head_dim",
    "attention.value_residual_mix_lora_rank": "8",
    "attn_res.block_size": "2",
    "convnext.block_count": "layers",
    "convnext.embedding_length": "embd",
    "embedding_length_per_layer_input": "head_dim",
    "expert_count": "4",
    "expert_feed_forward_length": "ff//2",
    "expert_gating_func": "2",
    "expert_group_scale": "1.0",
    "expert_shared_count": "1",
    "expert_used_count": "2",
    "expert_weights_scale": "1.0",
    "experts_per_group": "2",
    "features_length": "embd",
    "hash_layer_count": "1",
    "hyper_connection.count": "4",
    "hyper_connection.epsilon": "1e-5",
    "hyper_connection.low_rank": "8",
    "hyper_connection.magnitude": "1.0",
    "hyper_connection.sinkhorn_iterations": "2",
    "interleave_moe_layer_step": "1",
    "kda.gate_lower_bound": "-1.0",
    "kda.head_dim": "head_dim",
    "leading_dense_block_count": "1",
    "logit_scale": "1.0",
    "posnet.block_count": "layers",
    "posnet.embedding_length": "embd",
    "residual_scale": "1.0",
    "rope.dimension_count": "head_dim",
    "rope.dimension_sections": "(head_dim//4,head_dim//4,0,0)",
    "rope.freq_base_swa": "10000.0",
    "shortconv.l_cache": "3",
    "ssm.conv_kernel": "4",
    "ssm.group_count": "1",
    "ssm.inner_size": "2*embd",
    "ssm.state_size": "16",
    "ssm.time_step_rank": "4",
    "swiglu_clamp_exp": "7.0+0*i",
    "target_hidden_size": "embd",
    "target_layers": "(0,1,2)",
    "time_decay_extra_dim": "8",
    "time_mix_extra_dim": "8",
    "tokenizer.ggml.token_type_count": "2",
    "wkv.head_size": "head_dim",
}  # fmt: skip
#: Values where nothing is declared, by type.
OTHERWISE: Final = {"u32": "1", "i32": "1", "u64": "1", "f32": "1.0", "bool": "1", "str": "'none'", "": "1"}

#: Every other layer has attention, the others are recurrent; with all of one kind the other's inputs are not used, which
#: llama.cpp does not survive.
_HYBRID: Final = {"attention.head_count_kv": "heads_kv*(i%2)"}
#: Latent attention: one key head, which is as wide as what is compressed and what is rotated.
_LATENT: Final = {
    "attention.head_count_kv": "1",
    "attention.key_length": "embd//2+head_dim//2",
    "attention.value_length": "embd//2",
    "attention.key_length_mla": "head_dim+head_dim//2",
    "attention.value_length_mla": "head_dim",
    "rope.dimension_count": "head_dim//2",
}
#: The same for heads that are decompressed.
_DECOMPRESSED: Final = {
    "attention.head_count_kv": "heads",
    "attention.key_length": "head_dim+head_dim//2",
    "attention.value_length": "head_dim",
    "rope.dimension_count": "head_dim//2",
}
_LATENT_HYBRID: Final = {**_LATENT, "attention.head_count_kv": "i%2"}
#: The gated delta rule: as many value heads as time steps, each as wide as a state.
_DELTA: Final = {
    "ssm.state_size": "head_dim", "ssm.time_step_rank": "heads", "ssm.group_count": "heads_kv",
    "ssm.inner_size": "heads*head_dim", "full_attention_interval": "2",
}  # fmt: skip
_NEXT: Final = {**_DELTA, "nextn_predict_layers": "1"}
_ALL_HEADS: Final = {"attention.head_count_kv": "heads"}
_NO_HEADS: Final = {"attention.head_count": "0", "attention.head_count_kv": None}
#: A layer of each kind: recurrent, attention, feed-forward.
_THREE_KINDS: Final = {"attention.head_count_kv": "heads_kv*(i%3==1)", "feed_forward_length": "ff*(i%3==2)"}

_CONV_BIAS: Final = {"blk.{i}.ssm_conv1d.bias": "1"}
_DELTA_TENSORS: Final = {
    "blk.{i}.attn_norm.weight": "1",  # without the first one the loader expects nothing but the next-token layers
    "blk.{i}.attn_qkv.weight": "is_recr_impl[i]==1", "blk.{i}.attn_gate.weight": "is_recr_impl[i]==1",
    **{f"blk.{{i}}.attn_{each}.weight": "i>=n_layer" for each in "qkv"},
}  # fmt: skip
_FACTORS: Final = {"rope_freqs.weight": "1"}
_FIRST_BIAS: Final = {f"{side}.blk.{{i}}.attn_rel_b.weight": "i==0" for side in ("enc", "dec")}
_GATES: Final = {f"blk.{{i}}.time_mix_g{each}.weight": "1" for each in "12"}
#: Tables of n-grams are in a layer that another key names.
_NO_NGRAMS: Final = {
    f"blk.{{i}}.ple_{each}.weight": "0" for each in ("key", "value", "norm_key", "norm_query", "norm_conv", "conv1d")
}
_INDEXER: Final = {
    f"blk.{{i}}.indexer.{each}": "i<n_layer"
    for each in ("k_norm.weight", "k_norm.bias", "proj.weight", "attn_k.weight", "attn_q_b.weight")
}
_QKV: Final = {f"blk.{{i}}.attn_{each}.weight": "1" for each in "qkv"}

NEEDS: Final[Mapping[str, ArchitectureNeeds]] = {
    "afmoe": ArchitectureNeeds({"attention.sliding_window": "context//2"}),
    "arwkv7": ArchitectureNeeds({**_ALL_HEADS, "token_shift_count": "1"}, tensors=_GATES),
    "bailingmoe3": ArchitectureNeeds(_LATENT_HYBRID),
    "chameleon": ArchitectureNeeds(sizes={"vocab": 8200}),  # its graph masks the tokens of images, 4 to 8195
    "deepseek2": ArchitectureNeeds(_LATENT),
    "deepseek2-ocr": ArchitectureNeeds(_ALL_HEADS),
    "deepseek32": ArchitectureNeeds(_LATENT),
    "deepseek4": ArchitectureNeeds(
        {
            "expert_gating_func": "4",
            "attention.head_count_kv": "1",
            "attention.compress_ratios": "0 if i%3==0 else 4 if i%3==1 else 128",
        },
        {"layers": 3},
    ),
    "dots1": ArchitectureNeeds({**_ALL_HEADS, "expert_gating_func": "2"}),
    "dots3note": ArchitectureNeeds(
        {
            **_LATENT,
            "attention.key_length_swa": "embd//2+head_dim//2",
            "attention.value_length_swa": "embd//2",
            "attention.indexer.types": "1-i%2",
        }
    ),
    "eagle3": ArchitectureNeeds(sizes={"layers": 1}),
    "falcon-h1": ArchitectureNeeds(tensors=_CONV_BIAS),
    "gemma-embedding": ArchitectureNeeds({"attention.sliding_window_pattern": "1-i%2"}),
    "gemma4": ArchitectureNeeds(tensors=_FACTORS),
    "gemma4-assistant": ArchitectureNeeds({"embedding_length_out": "2*embd"}, tensors=_FACTORS),
    "glm-dsa": ArchitectureNeeds(_LATENT, tensors=_INDEXER),
    "glm5-next": ArchitectureNeeds(_LATENT_HYBRID),
    "granitehybrid": ArchitectureNeeds(_HYBRID, tensors=_CONV_BIAS),
    "graniteswitch": ArchitectureNeeds(
        {"adapters.count": "1", "adapters.token_ids_activate": "(5,)", "adapters.token_ids_substitute": "(6,)"}
    ),
    "hy_v4": ArchitectureNeeds({**_LATENT, "expert_gating_func": "2"}),
    "jamba": ArchitectureNeeds(_HYBRID),
    "kimi-k3": ArchitectureNeeds(_LATENT_HYBRID),
    "kimi-linear": ArchitectureNeeds(_LATENT_HYBRID),
    "lfm2": ArchitectureNeeds(_HYBRID),
    "lfm2moe": ArchitectureNeeds(_HYBRID),
    "llama4": ArchitectureNeeds(sizes={"layers": 4}),
    "mamba": ArchitectureNeeds(_NO_HEADS),
    "mamba2": ArchitectureNeeds(_NO_HEADS),
    "minicpm3": ArchitectureNeeds(_DECOMPRESSED),
    "minimax-01": ArchitectureNeeds({"full_attention_interval": "2"}),
    "minimax-m2": ArchitectureNeeds({"expert_gating_func": "2"}),
    "mistral4": ArchitectureNeeds(_LATENT),
    "nemotron_h": ArchitectureNeeds(_THREE_KINDS, {"layers": 3}, _CONV_BIAS),
    "nemotron_h_moe": ArchitectureNeeds(_THREE_KINDS, {"layers": 3}, _CONV_BIAS),
    "olmoe": ArchitectureNeeds(_ALL_HEADS),
    "paddleocr": ArchitectureNeeds({"rope.dimension_sections": "(head_dim//4,head_dim//4,0,0)"}),
    "phi3": ArchitectureNeeds(tensors={"blk.{i}.attn_qkv.weight": "1"}),
    "plamo2": ArchitectureNeeds({**_HYBRID, "ssm.group_count": "0"}),
    "plm": ArchitectureNeeds(_DECOMPRESSED),
    "pockettts": ArchitectureNeeds(tensors=_QKV),
    "qwen35moe": ArchitectureNeeds(_NEXT, {"layers": 3}, _DELTA_TENSORS),
    "qwen3next": ArchitectureNeeds(_NEXT, {"layers": 3}, _DELTA_TENSORS),
    "qwen4exp": ArchitectureNeeds(_DELTA, tensors=_NO_NGRAMS),
    "rwkv6": ArchitectureNeeds(_NO_HEADS, tensors={"blk.{i}.time_mix_lerp_fused.weight": "1"}),
    "rwkv6qwen2": ArchitectureNeeds({"token_shift_count": "1"}),
    "smallthinker": ArchitectureNeeds({"expert_gating_func": "2"}),
    "t5": ArchitectureNeeds(_ALL_HEADS, tensors=_FIRST_BIAS),
    "t5encoder": ArchitectureNeeds(_ALL_HEADS, tensors=_FIRST_BIAS),
    "wavtokenizer-dec": ArchitectureNeeds(sizes={"layers": 6}),
}
_NORMAL: Final = ArchitectureNeeds()

#: A name that the table leaves to its reader.
_DEFINED: Final = {"n_token_types": "K('tokenizer.ggml.token_type_count')"}

#: Rounds in which keys and tensors are added: what is asked depends on what is there, a few levels deep.
ROUNDS: Final = 64


# --- what a file holds -----------------------------------------------------------------------------------------------


def plan(name: str, wanted: ChosenSizes) -> SmallestFile:
    """Return the contents of the smallest file of an architecture.

    :param name: one of `llama_cpp.table().names`
    :raises ValueError: for sizes that no such model can have, and where the table does not tell what is needed
    """
    architecture = llama_cpp.table().architecture(name)
    if architecture is None:
        raise ValueError(f"{llama_cpp.table().loader} loads no model of architecture {name}")
    draft = _Draft(architecture, wanted)
    for _ in range(ROUNDS):
        if not draft.grow():
            return draft.plan(wanted)
    raise ValueError(f"no end of what {name} needs")


class _Sizes(ExpressionScope):
    """The sizes as names of expressions; `used` are those that a value was made of."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._sizes = sizes
        self.used: set[str] = set()

    def name(self, name: str) -> int:
        self.used.add(name)
        if name == "head_dim" and name not in self._sizes:
            self.used.update(("embd", "heads"))
            return self._sizes["embd"] // self._sizes["heads"]
        return self._sizes[name]


class _Draft:
    """A file while it is planned: the contents that the demands of the loader are evaluated on."""

    def __init__(self, architecture: LoaderArchitecture, wanted: ChosenSizes) -> None:
        self.architecture = architecture
        self.needs = NEEDS.get(architecture.name, _NORMAL)
        self.chosen = {name: value for name, value in wanted._asdict().items() if value is not None and name != "type"}
        block = GROUP_LAYOUTS[wanted.type].block if wanted.type in GROUP_LAYOUTS else 1
        usual = {**SIZES, **self.needs.sizes}
        #: The fewest layers with one of each kind, where there are several kinds.
        self._least = usual["layers"]
        usual.update({width: -(-usual[width] // block) * block for width in ("embd", "ff")})
        self.sizes = {**usual, **self.chosen}
        self._check_sizes()
        self.tokens: int | None = self.sizes["vocab"]
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.keys: dict[str, tuple[str, Any]] = {}
        self._scope = _Sizes(self.sizes)
        self._rows: dict[str, list[KeyRow]] = {}
        for row in architecture.keys:
            self._rows.setdefault(row.name, []).append(row)
        if "layers" in self.needs.sizes or "full_attention_interval" in self.needs.keys:
            self._require_each_kind()
        heads = dict.fromkeys(("attention.key_length", "attention.value_length"), "head_dim")
        self._values = {**ALWAYS, **VALUES, **self.needs.keys}
        for key in {**ALWAYS, **(heads if "head_dim" in self.chosen else {}), **self.needs.keys}:
            self._add(f"{architecture.name}.{key}")

    def _check_sizes(self) -> None:
        sizes = self.sizes
        for name, most in (("layers", MAX_LAYERS), ("context", (1 << 31) - 1)):
            if not 1 <= sizes[name] <= most:
                raise ValueError(f"{name} is {sizes[name]:,}; it must be 1 to {most:,}")
        for name in ("embd", "ff", "heads", "heads_kv"):
            if not 1 <= sizes[name] <= MOST_ELEMENTS:
                raise ValueError(f"{name} is {sizes[name]:,}; it must be 1 to {MOST_ELEMENTS:,}")
        if sizes["embd"] % sizes["heads"] and "head_dim" not in sizes:
            raise ValueError(f"heads is {sizes['heads']:,}; it must divide embd, which is {sizes['embd']:,}")
        if sizes["heads"] % sizes["heads_kv"]:
            raise ValueError(f"heads_kv is {sizes['heads_kv']:,}; it must divide heads, which is {sizes['heads']:,}")
        if sizes["vocab"] < (least := self.needs.sizes.get("vocab", 0)):
            name = self.architecture.name
            raise ValueError(f"vocab is {sizes['vocab']:,}; {name} has at least {counted(least, 'token')}")
        width = sizes.get("head_dim", sizes["embd"] // sizes["heads"])
        if width < 2 or width % 2:
            raise ValueError(f"heads are {width:,} wide; the width must be even, because pairs are rotated")

    # --- as contents ---

    def value(self, key: str) -> KeyContents | None:
        """Return a key's value; None if there is none."""
        if key == "tokenizer.ggml.tokens":
            return KeyContents("arr[str]", self.sizes["vocab"], None)
        found = self.keys.get(key)
        if found is None:
            return None
        label, value = found
        return KeyContents(label, len(value) if isinstance(value, tuple) else 1, value)

    def ne(self, tensor: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor; None if there is none."""
        return self.shapes.get(tensor)

    # --- what is added ---

    def grow(self) -> bool:
        """Add what is missing; whether anything was."""
        demands = Demands(self.architecture, self)
        return self._add_keys(demands) or self._add_tensors(demands) or self._mend(demands, by_tensors=True)

    def _add_keys(self, demands: Demands) -> bool:
        missing = [
            key.name
            for key in demands.keys_read()
            if self.value(key.name) is None
            and (needed := demands.evaluate(key.required)) is not UnknownValue
            and needed
        ]
        added = [self._add(name) for name in missing]
        return any(added) if missing else self._mend(demands, by_tensors=False)

    def _mend(self, demands: Demands, by_tensors: bool) -> bool:
        """Add the keys that a condition needs which does not hold; whether there was one.

        :param by_tensors: whether it is asked of what tensors there are
        """
        for condition in demands.broken():
            if ("has(" in condition.holds.text) is not by_tensors:
                continue
            if not self._add_named(condition.holds, condition.guard):
                raise self._refused(llama_cpp.in_words(condition.holds.text))
            return True
        return False

    def _refused(self, words: str) -> ValueError:
        return ValueError(f"{self.architecture.name} with these sizes is refused: {words} does not hold")

    def _add_named(self, *expressions: Expression) -> bool:
        """Add the optional keys that expressions name and that have a declared value; whether there were any."""
        added = False
        for text in _with_definitions(expressions, {**self.architecture.definitions, **_DEFINED}):
            for key in re.findall(r"'~?([\w.]+)'", text):
                name = key if key.startswith("tokenizer.") else f"{self.architecture.name}.{key}"
                if self.value(name) is None and key in self._values:
                    added = self._add(name) or added
        return added

    def _add(self, name: str) -> bool:
        """Give a key its declared value; whether it has one."""
        short = name.removeprefix(f"{self.architecture.name}.")
        rows = self._rows.get(name, [])
        kind = next((row.type for row in rows if row.type and row.form != "length"), "u32")
        text = self._values.get(short, OTHERWISE[kind])
        if text is None:
            return False
        convert = {"f32": float, "bool": bool, "str": str}.get(kind, int)
        expression = compiled(text)
        if "i" in expression.names:
            if len({self._element(expression, i) for i in range(self._least)}) > 1:
                self._require_each_kind()
            value = tuple(convert(self._element(expression, i)) for i in range(self.sizes["layers"]))
        else:
            value = expression(self._scope)
            if not isinstance(value, tuple) and any(row.form in ("array", "length") for row in rows):
                value = (value,) * self.sizes["layers"]
            value = tuple(map(convert, value)) if isinstance(value, tuple) else convert(value)
        self.keys[name] = (f"arr[{kind}]" if isinstance(value, tuple) else kind), value
        return True

    def _require_each_kind(self) -> None:
        if self.sizes["layers"] < self._least:
            name, layers = self.architecture.name, self.sizes["layers"]
            raise ValueError(f"layers is {layers}; {name} has layers of several kinds, and needs {self._least}")

    def _element(self, expression: Expression, i: int) -> Any:
        self._scope.variables = {"i": i}
        return expression(self._scope)

    def _add_tensors(self, demands: Demands) -> bool:
        added = False
        for demand in demands.tensors():
            if demand.name in self.shapes:
                continue
            condition = self.needs.tensors.get(demand.row.name, "")
            asked = demands.evaluate(compiled(condition), demand.row.loops) if condition else None
            flags = demands.flags(demand) if demand.certain else None
            if flags is None and asked is None:
                raise ValueError(f"the table does not resolve whether {self.architecture.name} needs {demand.name}")
            if not asked and (flags is None or flags & llama_cpp.OPTIONAL):
                continue
            shape = next(iter(demands.shapes(demand)), None)
            if shape is None or min(shape) < 1:
                if self._add_named(demand.row.shapes, *demand.row.others):
                    return True
                got = "is not resolved by the table" if shape is None else f"would be {', '.join(map(str, shape))}"
                raise ValueError(f"the shape of {demand.name} in {self.architecture.name} {got}")
            if prod(shape) > MOST_ELEMENTS:
                raise ValueError(
                    f"{demand.name} would have {counted(prod(shape), 'element')}; sizes are for small files"
                )
            self.shapes[demand.name] = shape
            added = True
        return added

    def plan(self, wanted: ChosenSizes) -> SmallestFile:
        """Return the values that were found, with types."""
        fault = next(Demands(self.architecture, self).broken_in_graph(self.shapes.items()), None)
        if fault is not None:
            raise self._refused(fault)
        for name in self.chosen:
            if name != "vocab" and name not in self._scope.used:
                raise ValueError(f"{name} is no size of {self.architecture.name}")
        tensors = {name: (ne, type_of(name, ne, wanted.type)) for name, ne in self.shapes.items()}
        return SmallestFile(self.keys, tensors, self.sizes["vocab"])


def _with_definitions(expressions: Iterable[Expression], definitions: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts of expressions, and of the definitions of the names in them."""
    todo, seen = list(expressions), set[str]()
    while todo:
        expression = todo.pop(0)
        yield expression.text
        for name in sorted(set(re.findall(r"[a-z_]\w*", expression.text)) - seen):
            seen.add(name)
            todo += [compiled(definitions[each]) for each in (name, f"{name}[]") if each in definitions]


#: Operations whose weights may have any type, and matrices among them that stay F32, as converters write them.
_ANY_TYPE: Final = frozenset({"MUL_MAT", "MUL_MAT_ID", "GET_ROWS"})
_STAYS_F32: Final = re.compile(r".*(?:\.bias|ffn_gate_inp(?:_shexp)?\.weight|attn_rel_b\.weight|token_types\.weight)")
_NUMBERS: Final = re.compile(r".*(?:tid2eid|masked_embd_ordering|d2t)(?:\.weight)?")


def type_of(name: str, ne: tuple[int, ...], wanted: str) -> str:
    """Return the type of a tensor where matrices have a type; rows that are no whole blocks of it, and tables, are
    F16 instead.
    """
    if _NUMBERS.fullmatch(name):
        return "I32"
    operation = llama_cpp.table().operation(name)
    if operation == "IM2COL" and len(ne) > 2:
        return "F16"
    if operation not in _ANY_TYPE or len(ne) < 2 or _STAYS_F32.fullmatch(name):
        return "F32"
    layout = GROUP_LAYOUTS.get(wanted)
    if layout is not None and (operation == "GET_ROWS" or ne[0] % layout.block or name == "output.weight"):
        return "F16"
    return wanted


# --- the file --------------------------------------------------------------------------------------------------------


def fill(writer: Writer, name: str, wanted: ChosenSizes, seed: int, byte_order: ByteOrder) -> tuple[int, int]:
    """Add everything to a writer; gives the numbers of keys and tensors.

    :param name: an architecture of the table
    :raises ValueError: as `plan`, and for a type that is not among `TYPES`, or a vocabulary that is too small
    """
    if wanted.type not in TYPES:
        raise ValueError(f"{quote(wanted.type)} is not a type for matrices of {name}; there are: {', '.join(TYPES)}")
    found = plan(name, wanted)
    keys: dict[str, tuple[str, Any]] = {
        "general.architecture": ("str", name),
        "general.type": ("str", "model"),
        "general.name": ("str", "synthetic"),  # the loader takes some names for a promise of certain tokens
        **found.keys,
        "general.file_type": ("u32", file_type_of(wanted.type)),
        "general.quantization_version": ("u32", 2),
        **_vocabulary(found),
    }
    for key, (kind, value) in keys.items():
        writer.add(key, value, kind)
    for tensor, (ne, kind) in found.tensors.items():
        writer.add_tensor(tensor, ne[::-1], kind, partial(_data, seed, tensor, ne, kind, byte_order))
    return len(keys), len(found.tensors)


def _vocabulary(found: SmallestFile) -> dict[str, tuple[str, Any]]:
    """Return the keys of a made-up vocabulary, which the loader takes with every architecture."""
    words = made_up_vocabulary.byte_level(found.vocab)
    return {
        "tokenizer.ggml.model": ("str", "gpt2"),
        "tokenizer.ggml.pre": ("str", "gpt-2"),
        "tokenizer.ggml.tokens": ("arr[str]", words.tokens),
        "tokenizer.ggml.token_type": ("arr[i32]", words.types),
        "tokenizer.ggml.merges": ("arr[str]", words.merges),
        **{f"tokenizer.ggml.{key}_token_id": ("u32", number) for key, number in words.ids.items()},
    }


#: Weights of norms and other factors, which are near 1, and those that are negative.
_FACTOR: Final = re.compile(r".*(?:norm\w*(?:\.\d+)?\.weight|ssm_d|scale\.weight)")
_ROTARY: Final = re.compile(r"rope_\w+\.weight")
_NEGATIVE: Final = re.compile(r".*ssm_a")


def _data(seed: int, name: str, ne: tuple[int, ...], kind: str, byte_order: ByteOrder) -> Iterable[bytes | memoryview]:
    """Return the bytes of a tensor: small random numbers, but for gains and the like."""
    from i2s_spec.convert import random_weights

    if kind == "I32":
        return [bytes(4 * prod(ne))]
    if _ROTARY.fullmatch(name) and kind == "F32":
        return [struct.pack("<f" if byte_order == "little" else ">f", 1.0) * prod(ne)]
    if _NEGATIVE.fullmatch(name):
        return random_weights.near_one(seed, name, prod(ne), kind, 0, byte_order, sign=-1)
    if _FACTOR.fullmatch(name):
        return random_weights.near_one(seed, name, prod(ne), kind, 0, byte_order)
    if kind in GROUP_LAYOUTS:
        return random_weights.projection(seed, name, (ne[0], prod(ne[1:])), kind, None, byte_order)
    return random_weights.table(seed, name, ne, kind, None, random_weights.halvings_of(ne[0]), byte_order)
