"""Rules about the roles of tensors: the types that fit a role, and differences of models with the same tensors."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from i2s_spec.errors import TrustedText, counted
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, Row, architecture_view
from i2s_spec.linter.analysis.conditions import declared_models, ternary_by_type_or_key, ternary_models
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.schema.architectures.inventory import ROLES
from i2s_spec.schema.architectures.keys import FILE_TYPE_I2_S
from i2s_spec.schema.checks import order_prefix

#: Columns of a block of I2_S: tensors whose rows are not whole blocks must keep another type.
_BLOCK: Final = 128


#: Roles of tensors that are added or multiplied element by element; kernels for that read floats.
_FLOAT_ROLES: Final = frozenset({"norm", "bias", "scale", "rope", "router"})


@rule("M106", "float-type", "tensor {name} is {got}; as {role}, it is read as {want}", clause="4.4",
      fix=Fix.UNSAFE, when=ternary_by_type_or_key, provenance=("microsoft/BitNet#468",))  # fmt: skip
def float_type(subject: Subject) -> Iterator[Finding]:
    """A norm, a bias or another float tensor has a type that runtimes cannot use for it.

    Why: the BitNet fork loads norms that are not F32, and ends the process at the first token. Other runtimes read
    F16 values as F32, or take zeros. Only the loaders of the embedding models read F16 norms.

    Example: blk.0.attn_norm.weight as F16 in a bitnet-b1.58 file.

    Fix: convert the tensor to F32, which is lossless.
    """
    known = architecture_view(subject)
    for row in known.ternary_model_rows:
        if row.spec is None or row.spec.role not in _FLOAT_ROLES or not row.type or row.type in row.spec.types:
            continue
        if row.type != "I2_S" or len(row.ne) > 1:  # tensors of one dimension have their own rule
            yield float_type.at(
                subject.info_span(row.i, "type"), got=TrustedText(row.type), want=TrustedText(" or ".join(row.spec.types)),
                name=row.name, role=TrustedText(ROLES[row.spec.role]),
            )  # fmt: skip


def _has_groups(kind: str) -> bool:
    """Whether a type has a scale for each group of weights."""
    from i2s_spec.schema.block_layout import BLOCK_LAYOUTS

    return kind in BLOCK_LAYOUTS


@rule("M107", "embedding-type", "tensor {name} is {got}: {reason}", severity=WARNING, clause="4.1",
      when=ternary_models)  # fmt: skip
def embedding_type(subject: Subject) -> Iterator[Finding]:
    """The embedding or the head has a type that is unusual for it.

    Why: runtimes can read rows of an I2_S embedding only since November 2025, and ARM builds of that time read them
    wrongly; such an embedding is rarely intended. Types with a scale for each group are not reported, since their rows
    can be read. llama-quantize falls back to Q8_0 if the width is not a multiple of 256; elsewhere Q8_0 is unusual.

    Example: token_embd.weight as I2_S, after llama-quantize --pure.

    Fix: quantize with --token-embedding-type f16 or q6_k.
    """
    known = architecture_view(subject)
    for row in known.rows:
        if row.spec is None or row.spec.role not in ("embedding", "head") or len(row.ne) != 2 or not row.type:
            continue
        reason = ""
        if row.is_ternary:
            reason = "not every loader can look up rows of this type, and embeddings rarely have it"
        elif row.type == "Q8_0" and row.ne[0] % 256 == 0:
            reason = f"with {counted(row.ne[0], 'column')}, a multiple of 256, llama-quantize would not have chosen it"
        elif row.type not in row.spec.types:
            reason = "no published model has this type here"
        if reason and not _has_groups(row.type):
            yield embedding_type.at(
                subject.info_span(row.i, "type"), got=TrustedText(row.type), want=TrustedText(row.spec.usual), name=row.name,
                reason=TrustedText(reason),
            )  # fmt: skip


def with_file_type_i2s(subject: Subject) -> bool:
    """models whose file_type is I2_S"""
    known = architecture_view(subject)
    return known.is_declared and known.keys.value("general.file_type") == FILE_TYPE_I2_S


@rule("M108", "projection-left-over", "{got} of {total} projections are not ternary, but file_type is I2_S; the "
      "first is {name}, {kind}", severity=WARNING, clause="4.2",
      when=with_file_type_i2s, provenance=("microsoft/BitNet#621",))  # fmt: skip
def projection_left_over(subject: Subject) -> Iterator[Finding]:
    """Some projections of a file that says it is I2_S were not quantized.

    Why: the converter skipped them without a message. They work, but stay as slow and as large as before. Projections
    whose rows are not whole blocks of 128 are not reported, since they cannot be I2_S.

    Example: attn_v left as F16 where all others are I2_S.

    Fix: quantize the model again and compare the tensors.
    """
    known = architecture_view(subject)
    if not known.is_ternary:
        return
    rows = [row for row in known.projections() if row.spec is not None and row.spec.when != "experts"]
    left = [row for row in rows if row.type and not row.is_ternary and row.ne[:1] and row.ne[0] % _BLOCK == 0]
    if left:
        yield projection_left_over.at(
            subject.info_span(left[0].i, "type"), got=len(left), want=0, total=len(rows), name=left[0].name,
            kind=TrustedText(left[0].type),
        )  # fmt: skip


@rule("M109", "ternary-types-mixed", "the projections have several ternary types: {got}", severity=WARNING, clause="4.2",
      when=ternary_models)  # fmt: skip
def ternary_types_mixed(subject: Subject) -> Iterator[Finding]:
    """Projections of one model have several ternary types.

    Why: no tool writes such a file, and most builds have kernels for only some of these types, so few of them load it.

    Example: attn_q as I2_S and attn_k as TL1.

    Fix: quantize all projections in one go.
    """
    known = architecture_view(subject)
    counts = Counter(row.type for row in known.projections() if row.is_ternary)
    if len(counts) > 1:
        rarest = min(counts, key=lambda kind: (counts[kind], kind))
        row = next(row for row in known.projections() if row.type == rarest)
        words = TrustedText(
            ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items(), key=lambda each: -each[1]))
        )
        yield ternary_types_mixed.at(subject.info_span(row.i, "type"), got=words, want=1)


def with_scale_tensors(subject: Subject) -> bool:
    """models of architecture bitnet"""
    return declared_models(subject) and any(spec.role == "scale" for spec in architecture_view(subject).model.inventory)


@rule("M114", "scale-twice", "tensor {name} is a second scale of {other}, which has one in its tail: the graph "
      "multiplies by both", severity=WARNING, clause="4.5", fix=Fix.UNSAFE,
      when=with_scale_tensors)  # fmt: skip
def scale_twice(subject: Subject) -> Iterator[Finding]:
    """A projection has a separate scale tensor and a scale in its tail.

    Why: separate scales are older than the scale in the I2_S tail. The graph of bitnet applies both.

    Example: blk.0.attn_q.scale beside blk.0.attn_q.weight of type I2_S.

    Fix: remove the separate scale if the one in the tail is right; the file does not show which is right.
    """
    known = architecture_view(subject)
    for row in known.rows:
        if row.spec is not None and row.spec.role == "scale":
            other = known.present.get(row.name.removesuffix(".scale") + ".weight")
            if other is not None and other.type == "I2_S":
                yield scale_twice.at(subject.name_span(row.i), name=row.name, other=other.name)


#: Norms of Gemma that converters store as w + 1; the others are stored unchanged.
_GEMMA_NORMS: Final = ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight")
#: Lowest mean of gains that are near or above 1.
_LEAST_MEAN: Final = 0.25


def _mean(known: ArchitectureView, row: Row) -> float | None:
    """The mean of the first values of a norm, or None if the file does not have them."""
    code = {"F16": "e", "F32": "f"}.get(row.type)
    tensor = known.file.tensors.by_index(row.i)
    if code is None or len(row.ne) != 1 or not row.ne[0]:
        return None
    count = min(row.ne[0], 1024)
    start, size = tensor.span.start, count * (4 if code == "f" else 2)
    if start + size > known.file.size:
        return None
    import struct

    prefix = order_prefix(known.file.byte_order)
    values: tuple[float, ...] = struct.unpack(f"{prefix}{count}{code}", known.file.source.read(start, size))
    return sum(values) / count


def gains_less_one(subject: Subject) -> bool:
    """models of architecture gemma3"""
    return declared_models(subject) and architecture_view(subject).model.gains_less_one


@rule("M116", "gemma-norm", "the gains of {name} have a mean of {got}: they seem to be stored as Gemma's w and not "
      "as w + 1", severity=WARNING, clause="4.6", fix=Fix.UNSAFE,
      when=gains_less_one)  # fmt: skip
def gemma_norm(subject: Subject) -> Iterator[Finding]:
    """Norms of a Gemma model seem to be stored without the 1 that is added to them.

    Why: Gemma multiplies by 1 + w, but graphs multiply by the stored value, so converters add 1. Without this every
    hidden state is almost zero. Norms on the inputs of projections are stored unchanged.

    Example: a gemma3 file whose attn_norm has a mean of 0.02.

    Fix: convert the model again, or add 1 to its own norms (not to those on the inputs of projections).
    """
    known = architecture_view(subject)
    rows = [known.present[name] for name in _GEMMA_NORMS if name in known.present]
    means = [_mean(known, row) for row in rows]
    if means and all(mean is not None and abs(mean) < _LEAST_MEAN for mean in means) and means[0] is not None:
        start = known.file.tensors.by_index(rows[0].i).span
        stop = min(start.stop, known.file.size)
        span = start._replace(stop=stop)
        yield gemma_norm.at(
            span, got=TrustedText(f"{means[0]:.3g}"), want=TrustedText("about 1 or more"), name=rows[0].name
        )


#: Kinds of vocabularies, in words.
_VOCABULARIES: Final = {"gpt2": "byte-level", "llama": "SentencePiece"}


def of_another_vocabulary(subject: Subject) -> bool:
    """bitnet models whose vocabulary is of another family"""
    known = architecture_view(subject)
    known_kind = known.tokenizer in _VOCABULARIES
    return known_kind and known.is_declared and known.model.is_bitnet and known.tokenizer != known.model.tokenizer


@rule("M117", "activation-uncertain", "architecture {arch} has a graph with {got}, but its vocabulary is {kind}, "
      "as in models with {other}: only the model's config.json decides", severity=NOTE, clause="4.3",
      fix=Fix.UNSAFE, fix_with="--unsafe --select M117", when=of_another_vocabulary,
      provenance=("microsoft/BitNet#588", "microsoft/BitNet#602"))  # fmt: skip
def activation_uncertain(subject: Subject) -> Iterator[Finding]:
    """The activation of the feed-forward may not be the one that the architecture's name chooses.

    Why: the graph of bitnet has SiLU, that of bitnet-b1.58 has squared ReLU, and both use the same tensors. Converters
    of 2026 write bitnet-b1.58 for the SiLU models of 1bitLLM, whose vocabulary is SentencePiece; 2B-4T has a byte-level
    vocabulary. With the wrong activation, perplexity rises from 17 to 100.

    Example: a SentencePiece vocabulary in a bitnet-b1.58 file, or a byte-level one in a bitnet file.

    Fix: compare with hidden_act in the config.json of the model, and rename the architecture if it differs.
    """
    known = architecture_view(subject)
    if known.keys.own("hidden_activation") is None:
        other = "relu2" if known.model.activation == "silu" else "silu"
        yield activation_uncertain.at(
            known.keys.value_span("tokenizer.ggml.model"), got=TrustedText(known.model.activation), want=TrustedText(other),
            arch=TrustedText(known.name), kind=TrustedText(_VOCABULARIES[known.tokenizer]), other=TrustedText(other),
        )  # fmt: skip


@rule("M118", "activation-contradicted", "hidden_activation is {got}, and the graph of {arch} has {want}", severity=WARNING,
      clause="4.3", fix=Fix.UNSAFE, fix_with="--unsafe --select M118", when=ternary_by_type_or_key,
      provenance=("ggml-org/llama.cpp#25885", "ggml-org/llama.cpp#26751"))  # fmt: skip
def activation_contradicted(subject: Subject) -> Iterator[Finding]:
    """The file asks for another activation than the architecture's graph has.

    Why: released runtimes choose the activation by the architecture's name and ignore the key (llama.cpp closed the
    requests for it). Programs that follow the key, as this package does, compute another result from the same file.

    Example: bitnet-b1.58.hidden_activation = 'silu'.

    Fix: name the architecture whose graph has the activation, or correct the key.
    """
    known = architecture_view(subject)
    name = f"{known.name}.hidden_activation"
    if known.keys.value(name) is None or known.model.takes_activation:
        return  # with `bitnet`, this is the purpose of the key
    if known.keys.value(name) != known.model.activation:
        want = TrustedText(known.model.activation)
        yield activation_contradicted.at(
            known.keys.value_span(name), got=known.keys.value(name), want=want, arch=TrustedText(known.name)
        )


def llama_with_sub_norms(subject: Subject) -> bool:
    """models of architecture llama with tensors of bitnet"""
    known = architecture_view(subject)
    return (
        known.is_declared
        and known.model.rope == "norm"
        and any(row.spec is None and row.name.endswith("_sub_norm.weight") for row in known.rows)
    )


@rule("M119", "permutation-uncertain", "tensor {name} belongs to a {arch} model, whose rows are ordered for "
      "rotation by {got}, but its sub-norms belong to an architecture that rotates by {want}: no key states "
      "whether the rows were permuted", severity=NOTE,
      clause="4.2", when=llama_with_sub_norms)  # fmt: skip
def permutation_uncertain(subject: Subject) -> Iterator[Finding]:
    """The rows of queries and keys may be in the order of another architecture.

    Why: llama rotates neighboring rows of a head, bitnet rotates its halves, and converters permute the rows of llama
    models accordingly. A model with bitnet's sub-norms was probably converted as bitnet, without this permutation. The
    header does not state the order of the rows. Trained I2_S weights often show it (I215 compares them), random ones
    never do. With the wrong order, perplexity doubles.

    Example: a bitnet-b1.58 file that was renamed to llama.

    Fix: convert the checkpoint again under the right architecture, or compare attn_q with its rows. 'i2s identify FILE
    --likelihood' runs the model with either order on a text.
    """
    known = architecture_view(subject)
    row = known.present.get("blk.0.attn_q.weight")
    if row is not None:
        yield permutation_uncertain.at(
            subject.name_span(row.i),
            got=TrustedText("neighbors"),
            want=TrustedText("halves"),
            name=row.name,
            arch=TrustedText(known.name),
        )
