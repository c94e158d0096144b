"""The names that the same value has in different programs, and which value of a dump is which of a record (10.4).

Ours are the names of llama.cpp's fork of 2025. `matched` tries a name as it is; then the words of `ALIASES` for the
word in it; then what Hugging Face calls the module whose output the value is. A new name is one entry here.

    >>> list(other_names("attn_o_out-3"))[:3]
    ['attn_out-3', 'kqv_out-3#1', 'model.layers.3.self_attn.o_proj']

Dumps of arrays tell names and no operations: `named_by_runtimes` then finds names that only runtimes have, and
`repeated` values that share one name. A dump that says how each value was made is matched by that:
`matched_by_operation`.

    >>> ours, theirs = ["Qcur-0", "Qcur-0#1", "Qcur-0#2"], ["Qcur-0", "Qcur-0#1"]
    >>> in_order(ours, theirs, lambda name: name == "Qcur-0#1", lambda *_: False)
    {'Qcur-0': 'Qcur-0', 'Qcur-0#2': 'Qcur-0#1'}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from i2s_spec.model.graph import base

#: By the word of our graphs, what others call the value; `#1` is the second value of a name.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "inp_embd": ("embd",),
    "Qcur": ("Qcur_raw", "q_cur"),
    "Kcur": ("Kcur_raw", "k_cur"),
    "Vcur": ("Vcur_raw", "v_cur"),
    "Qcur#1": ("Qcur_rope", "q_rope"),
    "Kcur#1": ("Kcur_rope", "k_rope"),
    "attn_o_out": ("attn_out", "kqv_out#1"),
    "attn_out": ("attn_o_out", "kqv_out#1"),
    "kq_soft_max_ext": ("kq_soft_max",),
    "kq_soft_max": ("kq_soft_max_ext",),
    "kqv_out": ("kqv_merged_cont", "attn_out_raw", "attn_pregate"),
    "attn_sub_norm": ("attn_out_norm",),
    "ffn_inp": ("sa_out",),
    "sa_out": ("ffn_inp",),
    "ffn_out": ("ffn_gate_par", "ffn_sub_out", "ffn_gate_up", "ffn_mul"),
    "ffn_sub_out": ("ffn_gate_par", "ffn_out", "ffn_gate_up", "ffn_mul"),
    "ffn_gate_par": ("ffn_gate_up", "ffn_sub_out", "ffn_mul"),
    "ffn_gate_up": ("ffn_gate_par", "ffn_sub_out", "ffn_out", "ffn_mul"),
    "ffn_down": ("ffn_out",),
    "ffn_sqr(relu)": ("ffn_sqr", "ffn_relu_sqr", "ffn_relu2"),
    "ffn_gate_gelu": ("ffn_gelu",),
    "ffn_silu": ("ffn_gate_silu",),
    "result_norm": ("norm", "h_nextn"),
    "result_output": ("logits", "output"),
    "embedding": ("pooled", "sentence_embedding"),
}

#: Modules of Hugging Face's models whose output a value is, `{i}` being the layer.
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "inp_embd": ("model.embed_tokens",),
    "attn_norm": ("model.layers.{i}.input_layernorm",),
    "Qcur": ("model.layers.{i}.self_attn.q_proj",),
    "Qcur_full": ("model.layers.{i}.self_attn.q_proj",),
    "Kcur": ("model.layers.{i}.self_attn.k_proj",),
    "Vcur": ("model.layers.{i}.self_attn.v_proj",),
    "Qcur_normed": ("model.layers.{i}.self_attn.q_norm",),
    "Kcur_normed": ("model.layers.{i}.self_attn.k_norm",),
    "attn_sub_norm": ("model.layers.{i}.self_attn.attn_sub_norm", "model.layers.{i}.self_attn.inner_attn_ln"),
    "attn_o_out": ("model.layers.{i}.self_attn.o_proj",),
    "attn_out": ("model.layers.{i}.self_attn.o_proj",),
    "attn_output": ("model.layers.{i}.self_attn.o_proj",),
    "attn_post_norm": ("model.layers.{i}.post_attention_layernorm",),
    "linear_attn_out": ("model.layers.{i}.linear_attn.out_proj",),
    "ffn_norm": ("model.layers.{i}.post_attention_layernorm",),
    "ffn_up": ("model.layers.{i}.mlp.up_proj",),
    "ffn_gate": ("model.layers.{i}.mlp.gate_proj",),
    "ffn_sub_norm": ("model.layers.{i}.mlp.ffn_sub_norm", "model.layers.{i}.mlp.ffn_layernorm"),
    "ffn_down": ("model.layers.{i}.mlp.down_proj",),
    "l_out": ("model.layers.{i}",),
    "result_norm": ("model.norm",),
    "result_output": ("lm_head",),
}


def other_names(name: str) -> Iterator[str]:
    """Yield the other names that a value may have, the likelier first."""
    word, layer, number = parts(name)
    for alias in ALIASES.get(word + number, ()):
        head, mark, times = alias.partition("#")
        yield f"{head}{layer}{mark}{times}"
    if number:
        return
    for pattern in MODULES.get(word, ()):
        full = pattern.replace("{i}", layer.removeprefix("-"))
        yield full
        yield full.removeprefix("model.")
    if "/" in name:
        yield name.replace("/", "_")


def parts(name: str) -> tuple[str, str, str]:
    """Return the word of a name, its layer with the `-` before it, and its number with the `#` before it.

    >>> parts("Qcur-12#1")
    ('Qcur', '-12', '#1')
    """
    head, mark, number = name.partition("#")
    word = base(name)
    return word, head[len(word) :] if head.startswith(word) else "", mark + number


def matched(names: list[str], present: Iterable[str], fits: Callable[[str, str], bool]) -> dict[str, str]:
    """Return, for each name of ours that a dump has, the dump's name; names that stand for themselves are not used
    for others.

    :param fits: takes a name of ours and one of the dump: whether the one can be the other by its shape
    """
    present = frozenset(present)
    found = {name: name for name in names if name in present}
    taken = set(found)
    for name in names:
        if name in found:
            continue
        other = next(
            (each for each in other_names(name) if each in present and each not in taken and fits(name, each)), None
        )
        if other is not None:
            found[name] = other
            taken.add(other)
    return {name: found[name] for name in names if name in found}


# --- node names ------------------------------------------------------------------------------------------------------
# The callback of ggml gives a name to a node, and one name to several nodes; which of them a value is, its operation
# says. `OPERATIONS` has the operations of ggml that give what one of ours gives. `NODE_NAMES` has the names that are
# not ours, by runtime, version and architecture. A new runtime is some entries here.
#
# Sources: dumps of the fork at 406a5036, and the graphs of the others as read: ggml-org/llama.cpp src/llama-graph.cpp
# and src/models/bitnet.cpp (2026-09), ikawrakow/ik_llama.cpp src/llama-build-context.cpp and src/graphs (8337e4c).

#: By the operation of our graphs, those of ggml whose node holds the same value. Views have none of their own, but for the
#: shape in which flash attention's result is named.
OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "embed": ("GET_ROWS",),
    "norm": ("RMS_NORM",),
    "norm_weight": ("MUL", "FUSED_RMS_NORM"),
    "bias": ("ADD",),
    "scale": ("MUL",),
    "multiply_by": ("SCALE",),
    "add": ("ADD",),
    "multiply": ("MUL", "FUSED_MUL_UNARY", "FUSED_UP_GATE", "SWIGLU", "GEGLU", "REGLU"),
    "heads": ("RESHAPE",),
    "linear": ("MUL_MAT",),
    "head": ("MUL_MAT",),
    "rope": ("ROPE", "ROPE_FAST"),
    "scores": ("MUL_MAT",),
    "soft_max": ("SOFT_MAX",),
    "weighted_values": ("CONT", "FLASH_ATTN_EXT", "RESHAPE"),
    "relu": ("RELU",),
    "square": ("SQR",),
    "silu": ("SILU",),
    "gelu": ("GELU",),
    "convolve": ("SSM_CONV",),
    "sigmoid": ("SIGMOID",),
    "softplus": ("SOFTPLUS",),
    "decay": ("MUL",),
    "unit": ("SCALE", "L2_NORM"),
    "merge": ("RESHAPE",),
}

#: Operations of ours whose node has the tensor of the file among its sources, by which it is known whatever it is called.
OF_TENSORS: Final = frozenset({"embed", "norm_weight", "bias", "scale", "decay", "linear", "head"})


class NodeName(NamedTuple):
    """One name that a runtime gives to a value.

    :param value: the word of our graphs
    :param op: our operation that makes it
    :param name: the runtime's word
    :param node: ggml's operation that the runtime makes it with
    :param runtime: whose name it is, and `version`: of which release or month
    :param architectures: in whose graphs
    """

    value: str
    op: str
    name: str
    node: str
    runtime: str
    version: str
    architectures: tuple[str, ...]


_BITNETS: Final = ("bitnet", "bitnet-25", "bitnet-b1.58")
_ALL: Final = ("every",)
_FORK: Final = ("bitnet.cpp", "2024-10 to 2025-11")
_NEW: Final = ("llama.cpp", "2026-09")
_IK: Final = ("ik_llama.cpp", "8337e4c")

#: Where a runtime's name is not ours, or stands for another value too.
NODE_NAMES: Final[tuple[NodeName, ...]] = (
    NodeName("inp_embd", "embed", "embd", "GET_ROWS", *_NEW, _ALL),
    NodeName("Qcur", "linear", "Qcur", "MUL_MAT", *_NEW, _ALL),
    NodeName("Qcur", "heads", "Qcur", "RESHAPE", *_NEW, _ALL),
    NodeName("Qcur", "rope", "Qcur", "ROPE", *_NEW, _ALL),
    NodeName("Qcur", "rope", "Qcur_roped", "ROPE", *_IK, ("llama",)),
    NodeName("Kcur", "rope", "Kcur_roped", "ROPE", *_IK, ("llama",)),
    NodeName("kq_soft_max_ext", "soft_max", "kq_soft_max", "SOFT_MAX", *_NEW, _ALL),
    NodeName("kq_soft_max", "soft_max", "kq_soft_max_ext", "SOFT_MAX", *_IK, ("qwen3", "gemma3")),
    NodeName("kqv_out", "weighted_values", "kqv_merged_cont", "CONT", *_FORK, ("llama",)),
    NodeName("attn_out", "linear", "kqv_out", "MUL_MAT", *_FORK, ("llama",)),
    NodeName("attn_o_out", "linear", "attn_out", "MUL_MAT", *_NEW, _BITNETS),
    NodeName("attn_o_out", "linear", "kqv_out", "MUL_MAT", *_IK, ("bitnet",)),
    NodeName("ffn_inp", "add", "ffn_norm", "ADD", *_IK, ("bitnet-25", "bitnet-b1.58", "llama")),
    NodeName("ffn_inp", "add", "attn_out_with_input", "ADD", *_IK, ("llama",)),
    NodeName("ffn_sub_out", "multiply", "ffn_gate_par", "FUSED_MUL_UNARY", *_IK, ("bitnet",)),
    NodeName("ffn_sub_out", "multiply", "ffn_sub_out", "SWIGLU", *_NEW, _BITNETS),
    NodeName("ffn_out", "multiply", "ffn_sub_out", "SWIGLU", *_NEW, _BITNETS),
    NodeName("ffn_gate_par", "multiply", "ffn_swiglu", "SWIGLU", *_NEW, ("llama",)),
    NodeName("ffn_gate_up", "multiply", "ffn_swiglu", "SWIGLU", *_NEW, ("qwen3",)),
    NodeName("ffn_gate_par", "multiply", "ffn_up_gate", "FUSED_UP_GATE", *_IK, ("llama",)),
    NodeName("l_out", "add", "ffn_out_with_inp", "ADD", *_IK, ("llama",)),
)

#: What our graph of another architecture calls the value: programs with one list of names dump Llama under BitNet's.
GRAPH_NAMES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("ffn_gate_par", "multiply"): ("ffn_out",),
    ("ffn_out", "linear"): ("ffn_down",),
}


def runtime_names(word: str, op: str) -> tuple[str, ...]:
    """Return the words that runtimes and our other graphs have for a value of ours, each once.

    >>> runtime_names("attn_o_out", "linear")
    ('attn_out', 'kqv_out')
    """
    found = (each.name for each in NODE_NAMES if (each.value, each.op) == (word, op) and each.name != word)
    return tuple(dict.fromkeys((*found, *GRAPH_NAMES.get((word, op), ()))))


# --- shared names ----------------------------------------------------------------------------------------------------
# `NODE_NAMES` has what else a value is called. Where a name is that of another value of ours, it is the other's if the
# dump has ours under another name of it, if only the other's shape fits, or if its numbers are the other's.


def named_by_runtimes(
    record: Iterable[str],
    op: Callable[[str], str],
    present: Iterable[str],
    found: Mapping[str, str],
    fits: Callable[[str, str], bool],
    is_other: Callable[[str, str], bool],
    same: Callable[[str, str], bool],
) -> dict[str, str]:
    """Return the matches of `found`, those under names of runtimes added, and moved where a name stands for another
    value.

    :param op: the operation of a value of the record
    :param present: names of the dump
    :param fits: takes a name of ours and one of the dump: whether the one can be the other by its shape
    :param is_other: takes a name of both, and a value of ours that no name was found for: whether the dump's name stands
        for that one, by shapes and numbers
    :param same: whether two values of the dump are the same: then they are two names of one value
    """
    present = frozenset(present)
    all_found, taken = dict(found), set(found.values())

    def free(value: str) -> str | None:
        """Return a name that the dump has, that runtimes have for a value, and that nothing else was found for."""
        word, layer, number = parts(value)
        names = (f"{each}{layer}" for each in runtime_names(word, op(value)))
        return next(
            (each for each in names if not number and each in present and each not in taken and fits(value, each)), None
        )

    for value in record:
        if value in all_found:
            continue
        word, layer, number = parts(value)
        for name in () if number else (f"{each}{layer}" for each in runtime_names(word, op(value))):
            if all_found.get(name) != name or not fits(value, name):
                continue
            own = free(name)
            if not is_other(name, value) if own is None else same(name, own):
                continue
            del all_found[name]
            all_found[value] = name
            if own is not None:
                all_found[name] = own
                taken.add(own)
            break
        else:
            other = free(value)
            if other is not None:
                all_found[value] = other
                taken.add(other)
    return all_found


# --- repeated names --------------------------------------------------------------------------------------------------
# Runtimes give a projection, its view by heads and its rotation the same name. A view has no values of its own: a dump
# may have it, or leave it out, and so may a record.


def by_name(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names that are the same but for their number, in order."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition("#")[0], []).append(name)
    return found


def repeated(
    record: Iterable[str], dump: Iterable[str], is_view: Callable[[str], bool], same: Callable[[str, str], bool]
) -> dict[str, dict[str, str]]:
    """Return, for each name that a dump has several times, and not as often as the record, which of its values are which.

    :param is_view: whether a value of the record is another view of the one before it
    :param same: whether two values of the dump are the same, whatever their shapes
    """
    theirs = by_name(dump)
    found = {}
    for first, ours in by_name(record).items():
        given = theirs.get(first, [])
        if len(given) > 1 and len(given) != len(ours) and parts(first)[0] != "norm":
            found[first] = in_order(ours, given, is_view, same)
    return found


def in_order(
    ours: Sequence[str], given: Sequence[str], is_view: Callable[[str], bool], same: Callable[[str, str], bool]
) -> dict[str, str]:
    """Return, for each value of a record, that of a dump, views left out on both sides; {} where their numbers differ
    then."""
    plain = [name for name in ours if not is_view(name)]
    if len(given) > len(plain):
        given = [name for i, name in enumerate(given) if not i or not same(given[i - 1], name)]
    return dict(zip(plain, given, strict=True)) if len(given) == len(plain) else {}


# --- by operation ----------------------------------------------------------------------------------------------------
# Values are found by operation and tensor, not by count. A value is a node with the right operation whose source is the
# tensor that the record names; or, where no tensor goes in, a node with the right operation and a name that the value
# has in some runtime. Which of several such nodes it is, their order says, and only then.


class DumpedNode(NamedTuple):
    """A node of a dump: its key, and what made it.

    :param name: with `#1` for the second node of a name
    :param op: as ggml names it
    :param sources: names of what went in
    """

    name: str
    op: str
    sources: tuple[str, ...]


class Wanted(NamedTuple):
    """A value of a record: its name, its operation, the tensors that go in."""

    name: str
    op: str
    tensors: tuple[str, ...]


def matched_by_operation(
    wanted: Sequence[Wanted], nodes: Iterable[DumpedNode], fits: Callable[[str, str], bool]
) -> dict[str, str]:
    """Return, for each value that a dump has, the dump's name of it.

    :param fits: takes a name of ours and one of the dump: whether the one can be the other by its shape
    """
    nodes = list(nodes)
    by_tensor: dict[tuple[str, str], list[DumpedNode]] = defaultdict(list)
    by_word: dict[tuple[str, str, str], list[DumpedNode]] = defaultdict(list)
    for dumped in nodes:
        word, layer, _ = parts(dumped.name)
        by_word[word, layer, dumped.op].append(dumped)
        for source in dumped.sources:
            by_tensor[source, dumped.op].append(dumped)
    scaled = {node.sources[0]: node for node in nodes if node.op == "SCALE" and node.sources}
    times = {(parts(each.name)[1], "multiply_by") for each in wanted if each.op == "multiply_by"}
    found: dict[str, str] = {}
    taken: set[str] = set()
    for each in wanted:
        word, layer, _ = parts(each.name)
        choices = (*_of_tensor(each, by_tensor), *_of_name(each, by_word))
        node = next((one for one in choices if one.name not in taken and fits(each.name, one.name)), None)
        if node is None:
            continue
        behind = scaled.get(node.name.partition("#")[0])
        if (
            each.op == "linear"
            and behind is not None
            and (layer, "multiply_by") not in times
            and node.name != behind.name
        ):
            taken.add(node.name)  # a scale that the runtime keeps beside the matrix belongs to the projection
            node = behind
        found[each.name] = node.name
        taken.add(node.name)
    return found


def _of_tensor(each: Wanted, by_tensor: dict[tuple[str, str], list[DumpedNode]]) -> Iterator[DumpedNode]:
    if each.op in OF_TENSORS:
        for tensor in each.tensors:
            for op in OPERATIONS[each.op]:
                yield from by_tensor.get((tensor, op), ())


def _of_name(each: Wanted, by_word: dict[tuple[str, str, str], list[DumpedNode]]) -> Iterator[DumpedNode]:
    word, layer, _ = parts(each.name)
    others = (name.partition("#")[0] for name in other_names(each.name))
    words = dict.fromkeys((word, *runtime_names(word, each.op), *(parts(name)[0] for name in others)))
    for theirs in words:
        for op in OPERATIONS.get(each.op, ()):
            yield from by_word.get((theirs, layer, op), ())
