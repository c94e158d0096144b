"""Rules about the tensors of an architecture: which ones the file has, their shapes and types, and its norms.

The first part compares the inventory with the declared one. The second is about the roles of tensors: types that fit a
role, and differences of models with the same tensors. The third asks whether the gains of norms were trained, and
whether they were converted correctly.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import TrustedText, counted, quote
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, Row, architecture_view, stripped
from i2s_spec.linter.analysis.conditions import (
    declared_models,
    known_models,
    ternary_by_type_or_key,
    ternary_embedding_models,
    ternary_models,
)
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.loader_view import ceiling, loader_view, refuses
from i2s_spec.linter.analysis.root_cause import root_cause
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, WeightUse, rule
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.faults import TENSOR_COUNT_SPAN, order_prefix
from i2s_spec.schema.inventory import ROLES, TensorSpec
from i2s_spec.schema.keys import EXPECTED, FILE_TYPE_I2_S, REQUIRED
from i2s_spec.schema.types import BY_NAME, NOT_WEIGHTS

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.loader_differences import LoaderView, Missing, WrongShape


def with_one_cause(subject: LintContext) -> bool:
    """models most of whose tensors do not fit for one reason"""
    return root_cause(subject) is not None


@rule("M123", "tensors-misnamed", "{what}; {count:tensor is|tensors are} concerned, and missing and unknown tensors are not "
      "listed one by one", clause="4.1", when=with_one_cause, weights=WeightUse.IF_READ,
      provenance=("ggml-org/llama.cpp#9893", "ggml-org/llama.cpp#27349"))  # fmt: skip
def tensors_misnamed(subject: LintContext) -> Iterator[Finding]:
    """Many tensors do not fit the architecture, all for one reason.

    Why: loaders look tensors up by name and count them. One cause makes many of them missing or unknown: names of a
    checkpoint, a prefix that a training program left, a missing expert_count, or an encoder for pictures in the file of
    the language model. Or the matrices have a quarter of their rows: a converter took the bytes of a packed checkpoint,
    each of which holds four weights, for numbers, and stored these as floats. Each loader stops at the first, with a
    message that does not name the cause.

    Example: every name begins with 'model.', as in model.blk.0.attn_q.weight.

    Fix: convert the checkpoint again with a converter that knows the model; or correct what the message names.
    """
    cause = root_cause(subject)
    assert cause is not None
    yield tensors_misnamed.at(cause.span, what=TrustedText(cause.what), count=cause.tensors)


@analysis
def _missing(subject: LintContext) -> list[Missing]:
    """Return the tensors that are missing in layers of which the file has any: what is missing with its whole layer,
    and what follows from another cause, has its own rule."""
    known, loader = architecture_view(subject), loader_view(subject)
    if root_cause(subject) is not None:
        return []
    if loader is not None:
        return [each for each in loader.missing if each.layer is None or each.layer in known.layers]
    absent = [name for name, spec in known.wanted if spec.need == REQUIRED and name not in known.present]
    if not absent:
        return []
    from i2s_spec.linter.analysis import loader_differences

    return [loader_differences.Missing(name, None, None) for name in absent]


@rule("M101", "tensor-missing", "tensor {name} is missing{meaning}{by}", clause="4.1", when=known_models,
      provenance=("microsoft/BitNet#226",))  # fmt: skip
def tensor_missing(subject: LintContext) -> Iterator[Finding]:
    """A tensor that the architecture's graph needs is missing.

    Why: loaders look up every tensor of the architecture by name, and refuse the file: 'tensor not found'. Readers that
    continue without it, as some do without sub-norms, compute something else.

    Example: a bitnet-b1.58 file without blk.0.attn_sub_norm.weight.

    Fix: convert the model again. If the tensors belong to another architecture, write the name of that one.
    """
    known = architecture_view(subject)
    for each in _missing(subject):
        spec = known.declaration(each.name)
        meaning = f" ({spec.meaning.rstrip('.').lower()})" if spec is not None else ""
        shape = f" (of shape {_shape(each.ne)})" if each.ne is not None and spec is None else ""
        yield tensor_missing.at(
            TENSOR_COUNT_SPAN, name=TrustedText(each.name), meaning=TrustedText(meaning + shape), by=refuses(subject)
        ).at_most(ceiling(subject))


def _shape(ne: tuple[int, ...]) -> str:
    return " x ".join(map(str, ne))


@rule("M102", "tensor-unknown", "tensor {name} does not exist in architecture {arch}{others}", clause="4.1",
      fix=Fix.UNSAFE, when=known_models, provenance=("microsoft/BitNet#226",))  # fmt: skip
def tensor_unknown(subject: LintContext) -> Iterator[Finding]:
    """A tensor does not belong to the architecture.

    Why: loaders compare the number of tensors that they know with the number in the file, and refuse the file: 'wrong
    number of tensors'. Typical cases are sub-norms in a llama file, a scale without a weight beside it, and
    output.weight in a bitnet file. A tensor that another architecture has is a warning in files that are not ternary,
    since a newer loader may take it.

    Example: blk.0.attn_sub_norm.weight in a file of architecture llama.

    Fix: write the name of the architecture that has these tensors, or remove the tensor.
    """
    known, loader = architecture_view(subject), loader_view(subject)
    if root_cause(subject) is not None:
        return
    layers = known.keys.own("block_count")
    unknown = known.undeclared_rows if loader is None else loader.unknown
    misplaced = {row.name: reason for row in known.rows if (reason := known.misplaced(row))}
    for row in (*unknown, *(row for row in known.rows if row.name in misplaced and row not in unknown)):
        name, layer = row.name, row.layer
        beyond = layer is not None and isinstance(layers, int) and layer >= layers
        if beyond or subject.is_stray_scale(name.encode("utf-8", "surrogateescape")):
            continue  # these have their own rules
        mild = ceiling(subject)
        if loader is not None and not known.is_bitnet and name not in misplaced and loader.table.knows_tensor(name):
            mild = WARNING
        others = f"; {misplaced[name]}" if name in misplaced else _others(row, known, loader)
        arch = TrustedText(quote(known.name, bare=True))
        finding = tensor_unknown.at(subject.name_span(row.i), name=name, arch=arch, others=TrustedText(others))
        yield finding.at_most(mild)


def _others(row: Row, known: ArchitectureView, loader: LoaderView | None) -> str:
    """Return the reason why a tensor is unknown, in words: what has it, or what rules it out."""
    name, spec = row.name, row.spec
    if spec is not None and not known.takes(spec, row.layer):
        return "; expert_count excludes it" if spec.when in ("dense", "experts") else "; layers of this kind have none"
    others = [other.prefix for other in ARCHITECTURES.values() if other.match(name) and other.prefix != known.name]
    names = list(dict.fromkeys(others))
    if names:
        return f"; {' and '.join(names)} have it"
    if loader is not None and loader.table.knows_tensor(name):
        return f"; other architectures of {loader.table.loader} have it"
    return "; no declared architecture has it" if loader is None else f"; {loader.table.loader} refuses the file"


@analysis
def _wrong_shapes(subject: LintContext) -> list[WrongShape]:
    known, loader = architecture_view(subject), loader_view(subject)
    found = [] if loader is None else list(loader.wrong_shapes)
    named = {each.name for each in found}
    checked = set() if loader is None else loader.shapes_known
    for row, ne in _declared_shapes(known):
        if row.name not in named and row.name not in checked and row.ne != ne and stripped(row.ne) != stripped(ne):
            from i2s_spec.linter.analysis import loader_differences

            assert row.spec is not None
            found.append(loader_differences.WrongShape(row.i, row.name, row.ne, (ne,), "vocab" in row.spec.ne))
    return found


def _declared_shapes(known: ArchitectureView) -> Iterator[tuple[Row, tuple[int, ...]]]:
    """Yield the tensors of a ternary model whose shape is declared, with the declared shape in their layer."""
    h = known.h
    if h is None:
        return
    shapes: dict[tuple[str, int | None], tuple[int, ...]] = {}
    for row in known.ternary_model_rows:
        if row.spec is None or not known.takes(row.spec, row.layer):
            continue
        if row.layer is None or row.layer < h.layers:
            like = row.spec.name, row.layer if h.varying else None  # layers of one size share their shapes
            ne = shapes.get(like)
            if ne is None:
                sizes = h.at(row.layer) if row.layer is not None else h
                ne = shapes[like] = tuple(getattr(sizes, size) for size in row.spec.ne)
            yield row, ne


@rule("M103", "tensor-shape", "tensor {name} has the shape {got}; the metadata require {want}{hint}", clause="4.2",
      when=known_models, cwe=1284)  # fmt: skip
def tensor_shape(subject: LintContext) -> Iterator[Finding]:
    """A tensor's shape does not follow from the metadata.

    Why: loaders compute every shape from the metadata, and refuse the file: 'has wrong shape'. A reader that takes the
    shape from the tensor info multiplies matrices that do not fit.

    Example: attn_k has 512 rows, and head_count_kv requires 128; or a matrix was transposed.

    Fix: correct the metadata, or convert the model again.
    """
    cause = root_cause(subject)
    explained = cause.rows if cause is not None else frozenset()
    for each in _wrong_shapes(subject):
        got, want = stripped(each.got), stripped(each.want[0])
        if subject.lacks_tails and each.name == "token_embd.weight" and got == want[::-1]:
            continue  # a part of the form that I317 names
        if each.i not in explained and not (each.by_vocabulary and _rows_only(each)):
            hint = ", transposed" if got == want[::-1] else ""
            yield tensor_shape.at(
                subject.info_span(each.i, "ne"), got=each.got, want=each.want[0], name=each.name, hint=TrustedText(hint)
            ).at_most(ceiling(subject))  # fmt: skip


def _rows_only(each: WrongShape) -> bool:
    """Whether only the number of rows is wrong."""
    got, want = stripped(each.got), stripped(each.want[0])
    return got[:1] == want[:1] and len(got) == len(want)


@rule("M104", "block-count", "block_count is {want}, but the file has tensors of {got:layer}{which}",
      clause="4.1", when=known_models,
      provenance=("ggml-org/llama.cpp#25821", "ggml-org/llama.cpp#26051"))  # fmt: skip
def block_count(subject: LintContext) -> Iterator[Finding]:
    """The layers that have tensors do not match block_count.

    Why: loaders expect the tensors of the layers 0 to block_count - 1, and no others. They refuse a missing tensor
    ('not found') and an additional one ('wrong number of tensors'). Layers that only predict further tokens may be
    missing in llama.cpp, if nothing of them is there.

    Example: block_count = 30 with tensors up to blk.27, or with none for blk.3.

    Fix: write the number of layers that the file has, or convert the model again.
    """
    known, loader = architecture_view(subject), loader_view(subject)
    layers = known.keys.own("block_count")
    if not isinstance(layers, int) or known.in_parts or (loader is None and known.h is None):
        return
    if root_cause(subject) is not None:
        return
    if loader is None:
        missing = sorted(set(range(layers)) - known.layers)
    else:
        missing = sorted({each.layer for each in loader.missing if each.layer is not None} - known.layers)
    extra = sorted(layer for layer in known.layers if layer >= layers)
    if missing or extra:
        which = "; the first missing layer is blk.{:,}" if missing else "; the first additional layer is blk.{:,}"
        span = known.keys.value_span(f"{known.name}.block_count")
        words = TrustedText(which.format((missing or extra)[0]))
        yield block_count.at(span, got=len(known.layers), want=layers, which=words).at_most(ceiling(subject))


@rule("M105", "embedding-rows", "tensor {name} has {got:row}; the vocabulary has {want:token}", clause="4.1",
      fix=Fix.UNSAFE, when=known_models, cwe=125)  # fmt: skip
def embedding_rows(subject: LintContext) -> Iterator[Finding]:
    """The embedding, or the head, has another number of rows than there are tokens.

    Why: loaders refuse the file: 'has wrong shape'. A reader that does not check this reads beyond the embedding for
    the last tokens.

    Example: token_embd.weight with 32,000 rows and 32,002 tokens, two of which were added without a row.

    Fix: add filler tokens, or convert the model again with its added tokens.
    """
    known = architecture_view(subject)
    size = known.keys.own("vocab_size") if known.is_bitnet else None
    for row in known.without_tokens:
        yield embedding_rows.at(subject.info_span(row.i, "ne"), got=row.ne[1], want=known.tokens, name=row.name)
    reported = {row.name for row in known.without_tokens}
    for each in _wrong_shapes(subject):
        if each.by_vocabulary and _rows_only(each) and each.name not in reported:
            got, want = stripped(each.got)[-1], stripped(each.want[0])[-1]
            disagreed = None not in (size, known.tokens) and size != known.tokens
            if not (disagreed and got in (size, known.tokens)):
                yield embedding_rows.at(
                    subject.info_span(each.i, "ne"), got=got, want=want, name=each.name
                ).at_most(ceiling(subject))  # fmt: skip


def with_expected_head(subject: LintContext) -> bool:
    """ternary models of architecture llama"""
    return ternary_models(subject) and any(
        _is_expected_head(spec) for spec in architecture_view(subject).model.inventory
    )


def _is_expected_head(spec: TensorSpec) -> bool:
    return spec.need == EXPECTED and spec.role == "head"


@rule("M112", "head-missing", "output.weight is missing: loaders use token_embd.weight as the head; the file does "
      "not show whether the model was trained so", severity=NOTE, clause="4.1",
      when=with_expected_head)  # fmt: skip
def head_missing(subject: LintContext) -> Iterator[Finding]:
    """The head is missing, which published models of this kind have.

    Why: loaders silently use the embedding instead. Llama3-8B-1.58 and Falcon3-1.58bit have a separate head; without it
    they write nonsense. A model that was trained with a tied head is sound.

    Example: a Llama3-8B-1.58 file of 290 tensors.

    Fix: compare with tie_word_embeddings in the config.json of the model.
    """
    known = architecture_view(subject)
    for name, spec in known.wanted:
        if _is_expected_head(spec) and name not in known.present:
            yield head_missing.at(TENSOR_COUNT_SPAN)


def with_tied_head(subject: LintContext) -> bool:
    """models of architecture bitnet-25 or bitnet-b1.58"""
    return declared_models(subject) and architecture_view(subject).model.head == "tied"


@rule("M113", "head-ignored", "tensor {name} of {got:byte} is loaded and never used", severity=NOTE, clause="4.1",
      fix=Fix.UNSAFE, fix_with="--unsafe --select M113", when=with_tied_head,
      provenance=("microsoft/BitNet#226", "ikawrakow/ik_llama.cpp#388"))  # fmt: skip
def head_ignored(subject: LintContext) -> Iterator[Finding]:
    """The file has a head, but the architecture's graph uses the embedding instead.

    Why: the head wastes space: 657 MB of 1.84 GB in the file of 2B-4T before 22 April 2025. ik_llama.cpp does use it,
    so a head that differs from the embedding gives another result there.

    Example: output.weight in a bitnet-25 file.

    Fix: remove the tensor.
    """
    known = architecture_view(subject)
    row = known.present.get("output.weight")
    if row is not None and row.spec is not None:
        kind = BY_NAME.get(row.type)
        got = kind.nbytes(row.ne) if kind is not None and row.ne and row.ne[0] % kind.block == 0 else 0
        yield head_ignored.at(subject.name_span(row.i), got=got, want=0, name=row.name)


@rule("M115", "input-norms-missing", "{got:input norm is|input norms are} missing (each normalizes the input of a "
      "projection); the first is {name}",
      severity=WARNING, clause="4.6", when=ternary_embedding_models)  # fmt: skip
def input_norms_missing(subject: LintContext) -> Iterator[Finding]:
    """Norms on the inputs of projections are missing in a ternary embedding model.

    Why: the models were trained with a norm before the activations of each projection are quantized. Loaders treat
    these norms as optional: without them the graph runs, but the vectors are wrong.

    Example: a bitnet-embedding-0.6b file without blk.0.attn_q_norm_in.weight.

    Fix: convert the model again, with the converter for embedding models.
    """
    known = architecture_view(subject)
    expected = (name for name, spec in known.wanted if spec.need == EXPECTED and spec.role == "norm")
    missing = [name for name in expected if name not in known.present]
    if missing:
        yield input_norms_missing.at(TENSOR_COUNT_SPAN, got=len(missing), want=0, name=TrustedText(missing[0]))


#: The value of `general.name` in published files of 2B-4T.
_PUBLISHED_NAMES: Final = frozenset({"bitnet2b", "bitnet2b_2501"})


def with_published_name(subject: LintContext) -> bool:
    """files that bear a published model's name"""
    known = architecture_view(subject)
    return known.is_declared and known.keys.value("general.name") in _PUBLISHED_NAMES


@rule("M120", "release-changed", "the name, the sizes and the tensors are those of {name}, whose published file "
      "has {want:byte}; this file has {got}", severity=NOTE, clause="4.7", when=with_published_name,
      provenance=("microsoft/BitNet#226",))  # fmt: skip
def release_changed(subject: LintContext) -> Iterator[Finding]:
    """A file with the name and the tensors of a published one has another size.

    Why: somebody changed the metadata or appended data. This may be a repair, but it is not the published file.

    Example: the file of 2B-4T (general.name bitnet2b) with another chat template.

    Fix: compare the SHA-256 with that of the published file.
    """
    known = architecture_view(subject)
    from i2s_spec.schema.releases import RELEASES

    types = Counter(row.type for row in known.rows)
    for release in RELEASES:
        if release.architecture != known.name or release.size in (None, subject.file.size):
            continue
        same = all(known.keys.own(name) == size for name, size in release.model.items())
        if same and dict(release.types) == types:
            span = known.keys.value_span("general.name")
            yield release_changed.at(span, got=subject.file.size, want=release.size, name=TrustedText(release.name))


def embedding_models(subject: LintContext) -> bool:
    """embedding models"""
    return declared_models(subject) and architecture_view(subject).model.embedding_model


@rule("P301", "input-norms-upstream", "{got:input norm is|input norms are} unknown to stock llama.cpp, which refuses "
      "the file; the first is {name}", severity=WARNING, clause="4.6", when=embedding_models)  # fmt: skip
def input_norms_upstream(subject: LintContext) -> Iterator[Finding]:
    """The file has norms that stock loaders of qwen3 and gemma3 do not know.

    Why: only BitNet's fork of 2026 reads these norms. For upstream llama.cpp and programs built on it, each of them is
    one tensor too many, and they refuse the file: 'wrong number of tensors'.

    Example: every file of bitnet-embedding-0.6b.

    Fix: run the file with BitNet's fork.
    """
    known = architecture_view(subject)
    rows = [row for row in known.rows if row.spec is not None and row.name.endswith("_norm_in.weight")]
    if rows:
        yield input_norms_upstream.at(subject.name_span(rows[0].i), got=len(rows), want=0, name=rows[0].name)


# --- roles of tensors ------------------------------------------------------------------------------------------------

#: Columns of a block of I2_S: tensors whose rows are not whole blocks must keep another type.
_BLOCK: Final = 128


#: Roles of tensors that are added or multiplied element by element; kernels for that read floats.
_FLOAT_ROLES: Final = frozenset({"norm", "bias", "scale", "rope", "router"})


@rule("M106", "float-type", "tensor {name} is {got}; as {role}, it is read as {want}", clause="4.4",
      fix=Fix.UNSAFE, when=known_models, provenance=("microsoft/BitNet#468",))  # fmt: skip
def float_type(subject: LintContext) -> Iterator[Finding]:
    """A norm, a bias or another float tensor has a type that runtimes cannot use for it.

    Why: the BitNet fork loads norms that are not F32, and ends the process at the first token. Other runtimes read
    F16 values as F32, or take zeros. Only the loaders of the embedding models read F16 norms. ggml's operations for
    products take no integers, no F64 and no types of activations.

    Example: blk.0.attn_norm.weight as F16 in a bitnet-b1.58 file.

    Fix: convert the tensor to F32, which is lossless.
    """
    known, reported = architecture_view(subject), set[str]()
    for row in known.ternary_model_rows:
        if row.spec is None or row.spec.role not in _FLOAT_ROLES or not row.type or row.type in row.spec.types:
            continue
        if row.type != "I2_S" or len(row.ne) > 1:  # tensors of one dimension have their own rule
            reported.add(row.name)
            yield float_type.at(
                subject.info_span(row.i, "type"), got=TrustedText(row.type), want=TrustedText(" or ".join(row.spec.types)),
                name=row.name, role=TrustedText(ROLES[row.spec.role]),
            )  # fmt: skip
    loader = loader_view(subject)
    for each in () if loader is None else loader.wrong_types:
        row = known.present[each.name]
        # Forks that know the models of bitnet-embedding read F16 norms.
        half = row.spec is not None and each.got in row.spec.types
        of_activations = each.got in NOT_WEIGHTS and len(row.ne) > 1  # G415
        vector = each.got == "I2_S" and len(row.ne) < 2
        if each.name not in reported and not half and not vector and not of_activations:
            yield float_type.at(
                subject.info_span(each.i, "type"), got=TrustedText(each.got), want=TrustedText(each.want), name=each.name,
                role=TrustedText(f"an operand of ggml's {each.operation}"),
            ).at_most(ceiling(subject))  # fmt: skip


@rule("M107", "embedding-type", "tensor {name} is {got}: {reason}", severity=WARNING, clause="4.1",
      when=ternary_models)  # fmt: skip
def embedding_type(subject: LintContext) -> Iterator[Finding]:
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
        elif row.type not in row.spec.types and row.number not in subject.second_readings:
            reason = "no published model has this type here"
        if reason and row.type not in BLOCK_LAYOUTS:  # rows of types with a scale for each group can be read
            yield embedding_type.at(
                subject.info_span(row.i, "type"), got=TrustedText(row.type), want=TrustedText(row.spec.usual), name=row.name,
                reason=TrustedText(reason),
            )  # fmt: skip


def with_file_type_i2s(subject: LintContext) -> bool:
    """models whose file_type is I2_S"""
    known = architecture_view(subject)
    return known.is_declared and known.keys.value("general.file_type") == FILE_TYPE_I2_S


@rule("M108", "projection-left-over", "{got} of {total} projections are not ternary, but file_type is I2_S; the "
      "first is {name}, {kind}", severity=WARNING, clause="4.2",
      when=with_file_type_i2s, provenance=("microsoft/BitNet#621",))  # fmt: skip
def projection_left_over(subject: LintContext) -> Iterator[Finding]:
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
def ternary_types_mixed(subject: LintContext) -> Iterator[Finding]:
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
        words = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
        yield ternary_types_mixed.at(subject.info_span(row.i, "type"), got=TrustedText(words), want=1)


def of_architecture_bitnet(subject: LintContext) -> bool:
    """models of architecture bitnet"""
    return declared_models(subject) and architecture_view(subject).name == "bitnet"


@rule("M114", "scale-twice", "tensor {name} is a second scale of {other}, which has one in its tail: the graph "
      "multiplies by both", severity=WARNING, clause="4.5", fix=Fix.UNSAFE, fix_with="--unsafe --select M114",
      when=of_architecture_bitnet)  # fmt: skip
def scale_twice(subject: LintContext) -> Iterator[Finding]:
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


#: Kinds of vocabularies, in words.
_VOCABULARIES: Final = {"gpt2": "byte-level", "llama": "SentencePiece"}


def of_another_vocabulary(subject: LintContext) -> bool:
    """bitnet models whose vocabulary is of another family"""
    known = architecture_view(subject)
    known_kind = known.tokenizer in _VOCABULARIES
    return known_kind and known.is_declared and known.model.is_bitnet and known.tokenizer != known.model.tokenizer


@rule("M117", "activation-uncertain", "architecture {arch} has a graph with {got}, but its vocabulary is {kind}, "
      "as in models with {other}: only the model's config.json decides", severity=NOTE, clause="4.3",
      fix=Fix.UNSAFE, fix_with="--unsafe --select M117", when=of_another_vocabulary,
      provenance=("microsoft/BitNet#588", "microsoft/BitNet#602"))  # fmt: skip
def activation_uncertain(subject: LintContext) -> Iterator[Finding]:
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
def activation_contradicted(subject: LintContext) -> Iterator[Finding]:
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


def llama_with_sub_norms(subject: LintContext) -> bool:
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
def permutation_uncertain(subject: LintContext) -> Iterator[Finding]:
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
        got, want = TrustedText("neighbors"), TrustedText("halves")
        span, arch = subject.name_span(row.i), TrustedText(known.name)
        yield permutation_uncertain.at(span, got=got, want=want, name=row.name, arch=arch)


# --- gains of norms --------------------------------------------------------------------------------------------------

#: Norms of Gemma that converters store as w + 1; the others are stored unchanged.
_GEMMA_NORMS: Final = ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight")
#: How many norms of other models are examined, evenly spread, how many are needed, and how many values of each.
NORMS: Final = 8
ENOUGH: Final = 4
VALUES: Final = 1024
#: Gains without their 1 have a mean near 0 and at least this share of negative values. Trained gains are rarely negative.
MEAN: Final = 0.25
NEGATIVE: Final = 0.2


def _gains(subject: LintContext, rows: Iterable[Row]) -> list[tuple[Row, tuple[float, ...]]]:
    """Return norms with their first values; without those that are no vector of F32 or F16, or not whole in the file."""
    file, chosen = subject.file, []
    for row in rows:
        if row.i >= 0 and row.type in ("F32", "F16") and len(row.ne) == 1 and row.ne[0]:  # other parts are not read
            start, count = file.tensors.by_index(row.i).span.start, min(row.ne[0], VALUES)
            form = f"{order_prefix(file.byte_order)}{count}{'f' if row.type == 'F32' else 'e'}"
            if start + struct.calcsize(form) <= file.size:
                chosen.append((row, start, form))
    subject.prefetch((start, start + struct.calcsize(form)) for _, start, form in chosen)
    return [(row, struct.unpack(form, file.source.read(start, struct.calcsize(form)))) for row, start, form in chosen]


def gains_less_one(subject: LintContext) -> bool:
    """models of architecture gemma3"""
    return declared_models(subject) and architecture_view(subject).model.gains_less_one


@rule("M116", "gemma-norm", "the gains of {name} have a mean of {got}: they seem to be stored as Gemma's w and not "
      "as w + 1", severity=WARNING, clause="4.6", fix=Fix.UNSAFE,
      when=gains_less_one)  # fmt: skip
def gemma_norm(subject: LintContext) -> Iterator[Finding]:
    """Norms of a Gemma model seem to be stored without the 1 that is added to them.

    Why: Gemma multiplies by 1 + w, but graphs multiply by the stored value, so converters add 1. Without this every
    hidden state is almost zero. Norms on the inputs of projections are stored unchanged.

    Example: a gemma3 file whose attn_norm has a mean of 0.02.

    Fix: convert the model again, or add 1 to its own norms (not to those on the inputs of projections).
    """
    known = architecture_view(subject)
    rows = [known.present[name] for name in _GEMMA_NORMS if name in known.present]
    means = [sum(values) / len(values) for _, values in _gains(subject, rows)]
    if means and len(means) == len(rows) and all(abs(mean) < MEAN for mean in means):
        span = known.file.tensors.by_index(rows[0].i).span
        span = span._replace(stop=min(span.stop, known.file.size))
        want = TrustedText("about 1 or more")
        yield gemma_norm.at(span, got=TrustedText(f"{means[0]:.3g}"), want=want, name=rows[0].name)


@analysis
def _norms(subject: LintContext) -> list[tuple[Row, tuple[float, ...]]]:
    """Return some norms with their first values; empty if each would need its own request in a sample."""
    if subject.ranges_are_few:
        return []
    own = (row for row in architecture_view(subject).ternary_model_rows if row.i >= 0 and row.type == "F32")
    rows = [row for row in own if len(row.ne) == 1 and row.spec is not None and row.spec.role == "norm"]
    return _gains(subject, rows[:: max(1, len(rows) // NORMS)][:NORMS])


def norms_read(subject: LintContext) -> bool:
    """ternary models with four norms, if payloads are read"""
    if subject.reading.mode == "none" or not ternary_by_type_or_key(subject):
        return False
    return len(_norms(subject)) >= ENOUGH


@rule("M121", "gains-all-one", "all gains are exactly 1 in {got:norm} (all that were read); the first is {name}",
      severity=WARNING, clause="4.4", when=norms_read, weights=WeightUse.POSITIONS)  # fmt: skip
def gains_all_one(subject: LintContext) -> Iterator[Finding]:
    """The gains of all norms are exactly 1.

    Why: training begins with gains of 1 and changes all of them. A model whose gains are all 1 was not trained, or its
    gains were lost: the matrices are right, but every layer scales its channels wrongly.

    Example: a converter did not find the norms of a checkpoint, and wrote new ones.

    Fix: convert the model again, with its norms.
    """
    known = architecture_view(subject)
    norms = _norms(subject)
    if all(value == 1.0 for _, values in norms for value in values):
        first = norms[0][0]
        span = known.file.tensors.by_index(first.i).span
        yield gains_all_one.at(span, got=len(norms), name=first.name)


@rule("M122", "gains-around-zero", "the gains of {name} have a mean of {got}, and {share} of them are below 0: the 1 that "
      "is added to them seems to be missing (such norms: {norms} of {want})", severity=WARNING, clause="4.4",
      when=norms_read, weights=WeightUse.POSITIONS)  # fmt: skip
def gains_around_zero(subject: LintContext) -> Iterator[Finding]:
    """Gains are close to 0; trained gains are positive.

    Why: some checkpoints store w for a gain of 1 + w, but graphs multiply by the stored value. Hidden states then
    become almost zero, or change their signs.

    Example: gains of -0.01 and 0.03 in a bitnet-b1.58 file.

    Fix: convert the model again, adding 1 to its norms.
    """
    known = architecture_view(subject)
    # M116 reports norms of architectures whose checkpoints store w.
    norms = [] if known.model.gains_less_one else _norms(subject)
    like = []
    for row, values in norms:
        mean = sum(values) / len(values)
        if abs(mean) < MEAN and (below := sum(value < 0 for value in values) / len(values)) >= NEGATIVE:
            like.append((row, mean, below))
    if like and 2 * len(like) > len(norms):
        row, mean, below = like[0]
        yield gains_around_zero.at(
            known.file.tensors.by_index(row.i).span, got=TrustedText(f"{mean:.3g}"), want=len(norms), name=row.name,
            share=TrustedText(f"{100 * below:.0f} %"), norms=len(like),
        )  # fmt: skip
