"""New models: small complete GGUF files of every architecture, with random weights.

Keys and tensors of a declared architecture are those of the real files, in their order, with their types (clauses 3.7 and
4.7); only the weights are random, and ternary. Of any other architecture that llama.cpp loads, it is the smallest file with
what the loader requires (`smallest`). The same arguments give the same bytes, on every machine.

    >>> import io
    >>> new(io.BytesIO(), "bitnet-b1.58", layers=1)
    Written(size=149088, keys=25, tensors=13)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from i2s_spec.convert.made_up_vocabulary import SyntheticVocabulary
from i2s_spec.convert.recipes import (
    CHAT_TEMPLATE,
    INTERVAL,
    KERNEL,
    LAST_TOKEN,
    RECIPES,
    ROTATED,
    SHAPES,
    TYPES,
    WINDOW,
    Recipe,
    Size,
    WeightKinds,
)
from i2s_spec.errors import counted, quote
from i2s_spec.schema.architectures import ARCHITECTURES, Architecture, DeltaNet, Hyperparameters, Placed
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.keys import MAX_LAYERS, OPTIONAL

if TYPE_CHECKING:
    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.writer import Progress


class Written(NamedTuple):
    """The result: bytes of the file, and numbers of key-values and tensors."""

    size: int
    keys: int
    tensors: int


#: Widths are whole blocks of the canonical layout, so that every row starts with one (clause 5.3).
BLOCK: Final = 128
MOST_COLUMNS: Final = 1 << 20

#: The window of Gemma's small models; new files with a short context have half of it.
MOST_WINDOW: Final = 512

#: The head, if it is not the embedding.
_HEAD: Final = "output.weight"
_LAST_NORM: Final = "output_norm.weight"


def new(
    target: Target,
    architecture: str = "bitnet-b1.58",
    *,
    layers: int | None = None,
    embd: int | None = None,
    ff: int | None = None,
    heads: int | None = None,
    heads_kv: int | None = None,
    head_dim: int | None = None,
    vocab: int | None = None,
    context: int | None = None,
    seed: int = 0,
    shape: str | None = None,
    alignment: int | None = None,
    byte_order: ByteOrder = "little",
    as_published: bool = False,
    type: str | None = None,
    rotated: bool = False,
    head: Literal["tied", "untied"] | None = None,
    unit_tables: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Write a new model: complete metadata, a vocabulary, seeded random weights as canonical I2_S, or in another type.

    Sizes of an architecture that is not declared are smaller and free of the limits given here, but for those of its
    loader; what follows `alignment` and `byte_order` but for `type` is for declared ones only.

    :param target: a path, or a binary stream
    :param architecture: one of `ARCHITECTURES`, or of `schema.llama_cpp.table().names`
    :param layers: number of layers; this and the other sizes have small defaults
    :param embd: width of the hidden state, a multiple of 128
    :param ff: width of the feed-forward, a multiple of 128
    :param heads: query heads, a divisor of `embd`
    :param heads_kv: key and value heads, a divisor of `heads`
    :param head_dim: width of a head, even; only in qwen3, qwen3-lm and gemma3 it may differ from embd / heads
    :param vocab: number of tokens, at least 256 and the special ones
    :param context: the value of context_length
    :param seed: the seed of the random weights, from 0 on
    :param shape: `2b4t` for all the sizes of BitNet-b1.58-2B-4T (1.19 GB); single sizes cannot be given then
    :param alignment: the alignment of tensor data, written as general.alignment unless it is 32
    :param byte_order: the byte order of the whole file
    :param as_published: only the keys of the published files of the architecture, about which the linter has findings:
    no tokenizer.ggml.pre, or no general.quantization_version. Always the case with `shape`
    :param type: the type of the projections: I2_S, which is the default, a type of `schema.blocks`, F32, F16 or BF16; of an
    architecture that is not declared one of `smallest.TYPES`, F16 by default. Widths that are not given grow to whole
    blocks of it
    :param rotated: fold a rotation into the projections, and into head and embedding if they are separate, and write
    the keys that declare it (clause 3.8)
    :param head: whether the file has an output.weight (`untied`) or the head is the embedding (`tied`); by default as
    in the architecture's usual files
    :param unit_tables: embedding and head with a deviation of 1, and no window, as version 0.1.0 wrote them; logits are
        then so far apart that a tied head repeats each token. Otherwise their deviation is the next power of two below 1 /
        sqrt(embd), with which logits have a deviation of about 1, and perplexity is near the size of the vocabulary
    :param force: replace an existing file
    :param progress: called with (bytes written, bytes of the file)
    :raises ValueError: for sizes that no such model can have, before anything is written
    :raises FileExistsError: if the path exists and `force` is not given
    """
    if seed < 0:
        raise ValueError(f"the seed is {seed}; seeds start at 0")
    given = {
        "layers": layers, "embd": embd, "ff": ff, "heads": heads, "heads_kv": heads_kv, "head_dim": head_dim,
        "vocab": vocab, "context": context,
    }  # fmt: skip
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if architecture not in ARCHITECTURES:
        _require_loaded(architecture)
        own = {
            "shape": shape, "as_published": as_published, "rotated": rotated, "head": head, "unit_tables": unit_tables
        }  # fmt: skip
        for name, value in own.items():
            if value:
                raise ValueError(f"{name} is for {', '.join(ARCHITECTURES)}, not for {architecture}")
        from i2s_spec.convert import smallest
        from i2s_spec.gguf.writer import Writer

        wanted = smallest.ChosenSizes(**chosen, type=smallest.TYPES[0] if type is None else type)
        writer = Writer(target, byte_order=byte_order, alignment=alignment, force=force, progress=progress)
        with writer:
            keys, tensors = smallest.fill(writer, architecture, wanted, seed, byte_order)
            return Written(writer.size, keys + (writer.alignment != 32), tensors)
    if head is not None and ARCHITECTURES[architecture].head != "untied":
        able = " and ".join(each.name for each in ARCHITECTURES.values() if each.head == "untied")
        raise ValueError(f"the head of {architecture} cannot be chosen, only that of {able}")
    if head not in (None, "tied", "untied"):
        raise ValueError(f"head is {quote(str(head))}; it must be tied or untied")
    recipe = RECIPES[architecture]
    times = 0 if unit_tables else 1 + recipe.multiplies_embedding
    type = TYPES[0] if type is None else type
    kinds = WeightKinds(type, seed) if rotated else WeightKinds(type)
    if shape is not None:
        size, make_vocabulary = _shape(shape, architecture, chosen)
    else:
        size, make_vocabulary = kinds.grown(recipe.size, chosen), recipe.vocabulary
    return write_model(
        target,
        architecture,
        size,
        make_vocabulary(size.vocab),
        lambda placed: _data(placed, seed, byte_order, kinds, times),
        without=((_HEAD,) if head == "tied" else ()) + ((WINDOW,) if unit_tables else ()),
        beside=(_HEAD,) if head == "untied" else (),
        kinds=kinds,
        as_published=as_published or shape is not None,
        alignment=alignment,
        byte_order=byte_order,
        force=force,
        progress=progress,
    )


def _require_loaded(architecture: str) -> None:
    """Refuse a name that is not declared and that llama.cpp does not load, with the names near it."""
    from i2s_spec.schema import llama_cpp

    table = llama_cpp.table()
    if architecture in table.names:
        return
    from difflib import get_close_matches

    near = get_close_matches(architecture[:256], sorted({*ARCHITECTURES, *table.names}), 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(ARCHITECTURES)}"
    raise ValueError(
        f"unknown architecture {quote(architecture)}; {hint} (and the {counted(len(table.names), 'name')} of {table.loader})"
    )


def write_model(
    target: Target,
    architecture: str,
    size: Size,
    vocabulary: SyntheticVocabulary,
    data: Callable[[Placed], Any],
    *,
    about: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    beside: Collection[str] = (),
    kinds: WeightKinds | None = None,
    as_published: bool = False,
    alignment: int | None = None,
    byte_order: ByteOrder = "little",
    force: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Write a model with any weights, with the keys and tensors of real files of its architecture.

    :param data: gives an argument of `Writer.add_tensor` for a tensor that the architecture declares
    :param about: values of keys of type str, instead of or in addition to those of a synthetic model
    :param without: keys and tensors that are left out
    :param beside: optional tensors that are written, too
    :param kinds: types other than the usual ones, and a rotation
    :raises ValueError: for sizes that no such model can have, before anything is written
    """
    declared, recipe = ARCHITECTURES[architecture], RECIPES[architecture]
    h = _hyperparameters(declared, recipe, size)
    described = dict(about or {})
    values = _values(declared, recipe, h, vocabulary) | described
    keys = [key for key in recipe.keys_of(as_published) if key not in without]
    first = keys.index("general.name") + 1
    keys[first:first] = [key for key in described if key not in keys]
    tensors = [
        each
        for each in declared.tensors(h)
        if (each.spec.need != OPTIONAL or each.name in beside) and each.name not in without
    ]
    kinds = WeightKinds() if kinds is None else kinds
    values["general.file_type"] = kinds.resolve(tensors)

    from i2s_spec.gguf.writer import Writer

    writer = Writer(target, byte_order=byte_order, alignment=alignment, force=force, progress=progress)
    with writer:
        for pattern in keys:
            name = pattern.replace("{arch}", declared.prefix)
            writer.add(name, values[pattern], declared.keys[name].types[0])
        more = kinds.rotation_keys()
        for key, value in more.items():
            writer.add(key.name, value, key.types[0])
        for placed in tensors:
            writer.add_tensor(placed.name, placed.ne[::-1], kinds.type_of(placed.spec), data(placed))
        return Written(writer.size, len(keys) + len(more) + (writer.alignment != 32), len(tensors))


def _shape(shape: str, architecture: str, chosen: dict[str, Any]) -> tuple[Size, Callable[[int], SyntheticVocabulary]]:
    """Return the sizes of a named shape, and the function that makes its vocabulary."""
    if shape not in SHAPES:
        raise ValueError(f"there is no shape {quote(shape)}; there is {', '.join(SHAPES)}")
    size, make_vocabulary, architectures = SHAPES[shape]
    if architecture not in architectures:
        raise ValueError(f"{shape} is a shape of {' and '.join(architectures)}, not of {architecture}")
    if chosen:
        raise ValueError(f"{shape} sets all sizes; {' and '.join(chosen)} cannot be given as well")
    return size, make_vocabulary


def _hyperparameters(architecture: Architecture, recipe: Recipe, size: Size) -> Hyperparameters:
    """Return the sizes, checked; head widths follow from the others unless they are given."""
    if not 1 <= size.layers <= MAX_LAYERS:
        raise ValueError(f"there are {counted(size.layers, 'layer')}; a model has 1 to {MAX_LAYERS}")
    for what, width in (("embd", size.embd), ("ff", size.ff)):
        if not BLOCK <= width <= MOST_COLUMNS or width % BLOCK:
            raise ValueError(
                f"{what} is {width:,}; it must be a multiple of {BLOCK}, so that rows are whole blocks, "
                f"up to {MOST_COLUMNS:,}"
            )
    if size.heads < 1 or size.embd % size.heads:
        raise ValueError(f"heads is {size.heads:,}; it must divide embd, which is {size.embd:,}")
    if size.heads_kv < 1 or size.heads % size.heads_kv:
        raise ValueError(f"heads_kv is {size.heads_kv:,}; it must divide heads, which is {size.heads:,}")
    if not 1 <= size.context < 1 << 31:
        raise ValueError(f"context is {size.context:,}; it must be 1 to {(1 << 31) - 1:,}")

    head_dim = size.embd // size.heads
    if recipe.says_head_width:  # the heads of these are wider than embd / heads
        head_dim = 2 * head_dim if size.head_dim is None else size.head_dim
    elif size.head_dim not in (None, head_dim):
        raise ValueError(
            f"head_dim is {size.head_dim:,}; {architecture.name} has heads of embd / heads, which is {head_dim:,}"
        )
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"heads are {head_dim:,} wide; the width must be even, because pairs are rotated")
    if size.heads * head_dim % BLOCK or size.heads * head_dim > MOST_COLUMNS:
        raise ValueError(
            f"{counted(size.heads, 'head')} of {head_dim:,} are {size.heads * head_dim:,} wide; "
            f"together they must be a multiple "
            f"of {BLOCK}, so that rows are whole blocks, up to {MOST_COLUMNS:,}"
        )
    more: dict[str, Any] = {"rope_dims": head_dim}
    if architecture.delta_nets:
        interval = min(INTERVAL, size.layers)
        kinds = tuple((layer + 1) % interval > 0 for layer in range(size.layers))
        net = DeltaNet(kinds, KERNEL, head_dim, size.heads_kv, size.heads)
        more = {"rope_dims": max(2, head_dim // ROTATED // 2 * 2), "net": net}
    return Hyperparameters(
        layers=size.layers,
        embd=size.embd,
        ff=size.ff,
        heads=size.heads,
        heads_kv=size.heads_kv,
        head_dim=head_dim,
        value_dim=head_dim,
        vocab=size.vocab,
        context=size.context,
        rope_base=recipe.rope_base,
        eps=recipe.eps,
        **more,
    )


def _values(
    architecture: Architecture, recipe: Recipe, h: Hyperparameters, words: SyntheticVocabulary
) -> dict[str, Any]:
    """Return the value of each key."""
    ids = {f"tokenizer.ggml.{name}_token_id": number for name, number in words.ids.items()}
    return {
        "tokenizer.ggml.padding_token_id": words.ids["eos"],
        **ids,
        "general.architecture": architecture.prefix,
        "general.name": f"synthetic-{architecture.name}",
        "general.quantization_version": 2,
        "{arch}.vocab_size": h.vocab,
        "{arch}.context_length": h.context,
        "{arch}.embedding_length": h.embd,
        "{arch}.block_count": h.layers,
        "{arch}.feed_forward_length": h.ff,
        "{arch}.attention.head_count": h.heads,
        "{arch}.attention.head_count_kv": h.heads_kv,
        "{arch}.attention.key_length": h.head_dim,
        "{arch}.attention.value_length": h.value_dim,
        "{arch}.attention.layer_norm_rms_epsilon": h.eps,
        "{arch}.rope.dimension_count": h.rope_dims,
        "{arch}.rope.freq_base": h.rope_base,
        "{arch}.rope.scaling.type": "linear",
        "{arch}.rope.scaling.factor": 1.0,
        "{arch}.rope.dimension_sections": (*((h.rope_pairs + 2 - each) // 3 for each in range(3)), 0),
        "{arch}.ssm.conv_kernel": h.net.kernel,
        "{arch}.ssm.state_size": h.net.width,
        "{arch}.ssm.group_count": h.net.key_heads,
        "{arch}.ssm.time_step_rank": h.net.value_heads,
        "{arch}.ssm.inner_size": h.net.values,
        "{arch}.full_attention_interval": min(INTERVAL, h.layers),
        "{arch}.pooling_type": LAST_TOKEN,
        WINDOW: max(1, min(MOST_WINDOW, h.context // 2)),
        "tokenizer.ggml.model": recipe.tokenizer,
        "tokenizer.ggml.pre": recipe.pre,
        "tokenizer.ggml.tokens": words.tokens,
        "tokenizer.ggml.scores": words.scores,
        "tokenizer.ggml.token_type": words.types,
        "tokenizer.ggml.merges": words.merges,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": True,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _data(
    placed: Placed, seed: int, byte_order: ByteOrder, kinds: WeightKinds, times: int
) -> Callable[[], Iterable[bytes | memoryview]]:
    """Return the function that makes the bytes of a tensor when it is written; tables are divided by about
    sqrt(embd) once, or twice if the model multiplies its embedding by that. The gains of the last norm give the
    logits their size.
    """
    from i2s_spec.convert import random_weights

    name, ne, spec = placed
    kind = kinds.type_of(spec)
    if spec.usual == "I2_S":
        return partial(random_weights.projection, seed, name, ne, kind, kinds.rotation, byte_order)
    if spec.role == "norm":
        doublings = random_weights.halvings_of(ne[0]) * (times - 1) if name == _LAST_NORM and times > 1 else 0
        return partial(random_weights.near_one, seed, name, prod(ne), kind, doublings, byte_order)
    if spec.role == "decay":
        return partial(random_weights.near_one, seed, name, prod(ne), kind, 0, byte_order, -1)
    halvings = random_weights.halvings_of(ne[0]) * times
    if kinds.rotation is not None or kind != "F16":
        return partial(random_weights.table, seed, name, ne, kind, kinds.rotation, halvings, byte_order)
    return partial(random_weights.normal_halves, seed, name, prod(ne), halvings, byte_order)
