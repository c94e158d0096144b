"""Rules about the tensors that an architecture needs: which ones the file has, and their shapes."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from i2s_spec.errors import TrustedText
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, Row, architecture_view
from i2s_spec.linter.analysis.conditions import (
    declared_models,
    ternary_by_type_or_key,
    ternary_embedding_models,
    ternary_models,
)
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.schema.architectures.inventory import TensorSpec
from i2s_spec.schema.architectures.keys import EXPECTED, REQUIRED
from i2s_spec.schema.checks import TENSOR_COUNT_SPAN


@rule("M101", "tensor-missing", "tensor {name} is missing ({meaning})", clause="4.1", when=ternary_by_type_or_key,
      provenance=("microsoft/BitNet#226",))  # fmt: skip
def tensor_missing(subject: Subject) -> Iterator[Finding]:
    """A tensor that the architecture's graph needs is missing.

    Why: loaders look up every tensor of the architecture by name, and refuse the file: 'tensor not found'. Readers that
    continue without it, as some do without sub-norms, compute something else.

    Example: a bitnet-b1.58 file without blk.0.attn_sub_norm.weight.

    Fix: convert the model again. If the tensors belong to another architecture, write the name of that one.
    """
    known = architecture_view(subject)
    for name, spec in known.wanted:
        if spec.need == REQUIRED and name not in known.present:
            yield tensor_missing.at(
                TENSOR_COUNT_SPAN, name=TrustedText(name), meaning=TrustedText(spec.meaning.rstrip(".").lower())
            )


def _absent(known: ArchitectureView) -> str:
    """The kind of layers that the file does not have: `dense` or `experts`."""
    return "dense" if known.has_experts else "experts"


def _others(name: str, known: ArchitectureView) -> str:
    """The other architectures with a tensor of this name, in words."""
    others = [other.prefix for other in ARCHITECTURES.values() if other.match(name) and other.prefix != known.name]
    names = list(dict.fromkeys(others))
    return f"; {' and '.join(names)} have it" if names else "; no declared architecture has it"


@rule("M102", "tensor-unknown", "tensor {name} does not exist in architecture {arch}{others}", clause="4.1",
      fix=Fix.UNSAFE, when=ternary_by_type_or_key, provenance=("microsoft/BitNet#226",))  # fmt: skip
def tensor_unknown(subject: Subject) -> Iterator[Finding]:
    """A tensor does not belong to the architecture.

    Why: loaders compare the number of tensors that they know with the number in the file, and refuse the file: 'wrong
    number of tensors'. Typical cases are sub-norms in a llama file, separate scale tensors in a file of any
    architecture but bitnet, and output.weight in a bitnet file.

    Example: blk.0.attn_sub_norm.weight in a file of architecture llama.

    Fix: write the name of the architecture that has these tensors, or remove the tensor.
    """
    known = architecture_view(subject)
    absent = _absent(known)
    for row in known.ternary_model_rows:
        out_of_place = row.spec is not None and row.spec.when == absent
        if (row.spec is None or out_of_place) and not row.name.endswith("_scale"):  # these have their own rule
            others = _others(row.name, known) if row.spec is None else "; expert_count excludes it"
            yield tensor_unknown.at(
                subject.name_span(row.i), name=row.name, arch=TrustedText(known.name), others=TrustedText(others)
            )  # fmt: skip


def _shapes(known: ArchitectureView) -> Iterator[tuple[Row, tuple[int, ...]]]:
    """The tensors whose shape is declared, with the declared shape in their layer."""
    h = known.h
    if h is None:
        return
    absent = _absent(known)
    shapes: dict[tuple[str, int | None], tuple[int, ...]] = {}
    for row in known.ternary_model_rows:
        if row.spec is None or row.spec.when == absent:
            continue
        if row.layer is None or row.layer < h.layers:
            like = row.spec.name, row.layer if h.varying else None  # layers of one size share their shapes
            ne = shapes.get(like)
            if ne is None:
                sizes = h.at(row.layer) if row.layer is not None else h
                ne = shapes[like] = tuple(getattr(sizes, size) for size in row.spec.ne)
            yield row, ne


def _stripped(ne: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without trailing dimensions of 1, which writers may omit."""
    while len(ne) > 1 and ne[-1] == 1:
        ne = ne[:-1]
    return ne


@rule("M103", "tensor-shape", "tensor {name} has the shape {got}; the metadata require {want}{hint}", clause="4.2",
      when=ternary_by_type_or_key, cwe=1284)  # fmt: skip
def tensor_shape(subject: Subject) -> Iterator[Finding]:
    """A tensor's shape does not follow from the metadata.

    Why: loaders compute every shape from the metadata, and refuse the file: 'has wrong shape'. A reader that takes the
    shape from the tensor info multiplies matrices that do not fit.

    Example: attn_k has 512 rows, and head_count_kv requires 128; or a matrix was transposed.

    Fix: correct the metadata, or convert the model again.
    """
    known = architecture_view(subject)
    for row, ne in _shapes(known):
        got, want = _stripped(row.ne), _stripped(ne)
        vocabulary = row.spec is not None and "vocab" in row.spec.ne and got[:1] == want[:1] and len(got) == len(want)
        if got != want and not vocabulary:
            hint = ", transposed" if got == want[::-1] else ""
            yield tensor_shape.at(
                subject.info_span(row.i, "ne"), got=row.ne, want=ne, name=row.name, hint=TrustedText(hint)
            )  # fmt: skip


@rule("M104", "block-count", "block_count is {want}, but the file has tensors of {got:layer}{which}",
      clause="4.1", when=ternary_by_type_or_key,
      provenance=("ggml-org/llama.cpp#25821", "ggml-org/llama.cpp#26051"))  # fmt: skip
def block_count(subject: Subject) -> Iterator[Finding]:
    """The layers that have tensors do not match block_count.

    Why: loaders expect the tensors of the layers 0 to block_count - 1, and no others. They refuse a missing tensor
    ('not found') and an additional one ('wrong number of tensors').

    Example: block_count = 30 with tensors up to blk.27, or with none for blk.3.

    Fix: write the number of layers that the file has, or convert the model again.
    """
    known = architecture_view(subject)
    if known.h is None or known.in_parts:
        return
    wanted = set(range(known.h.layers))
    missing, extra = sorted(wanted - known.layers), sorted(known.layers - wanted)
    if missing or extra:
        which = "; the first missing layer is blk.{:,}" if missing else "; the first additional layer is blk.{:,}"
        span = known.keys.value_span(f"{known.name}.block_count")
        words = TrustedText(which.format((missing or extra)[0]))
        yield block_count.at(span, got=len(known.layers), want=known.h.layers, which=words)


@rule("M105", "embedding-rows", "tensor {name} has {got:row}; the vocabulary has {want:token}", clause="4.1",
      fix=Fix.UNSAFE, when=ternary_by_type_or_key, cwe=125)  # fmt: skip
def embedding_rows(subject: Subject) -> Iterator[Finding]:
    """The embedding, or the head, has another number of rows than there are tokens.

    Why: loaders refuse the file: 'has wrong shape'. A reader that does not check this reads beyond the embedding for
    the last tokens.

    Example: token_embd.weight with 32,000 rows and 32,002 tokens.

    Fix: add filler tokens, or convert the model again with its added tokens.
    """
    known = architecture_view(subject)
    size = known.keys.own("vocab_size")
    for row, ne in _shapes(known):
        if row.spec is not None and "vocab" in row.spec.ne and len(row.ne) == len(ne) == 2 and row.ne[0] == ne[0]:
            disagreed = None not in (size, known.tokens) and size != known.tokens
            if row.ne[1] != ne[1] and not (disagreed and row.ne[1] in (size, known.tokens)):
                yield embedding_rows.at(subject.info_span(row.i, "ne"), got=row.ne[1], want=ne[1], name=row.name)


def with_expected_head(subject: Subject) -> bool:
    """ternary models of architecture llama"""
    return ternary_models(subject) and any(
        _is_expected_head(spec) for spec in architecture_view(subject).model.inventory
    )


def _is_expected_head(spec: TensorSpec) -> bool:
    return spec.need == EXPECTED and spec.role == "head"


@rule("M112", "head-missing", "output.weight is missing: loaders use token_embd.weight as the head; the file does "
      "not show whether the model was trained so", severity=NOTE, clause="4.1",
      when=with_expected_head)  # fmt: skip
def head_missing(subject: Subject) -> Iterator[Finding]:
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


def with_tied_head(subject: Subject) -> bool:
    """models of architecture bitnet-25 or bitnet-b1.58"""
    return declared_models(subject) and architecture_view(subject).model.head == "tied"


@rule("M113", "head-ignored", "tensor {name} of {got:byte} is loaded and never used", severity=NOTE, clause="4.1",
      fix=Fix.UNSAFE, when=with_tied_head,
      provenance=("microsoft/BitNet#226", "ikawrakow/ik_llama.cpp#388"))  # fmt: skip
def head_ignored(subject: Subject) -> Iterator[Finding]:
    """The file has a head, but the architecture's graph uses the embedding instead.

    Why: the head wastes space: 657 MB of 1.84 GB in the file of 2B-4T before 22 April 2025. ik_llama.cpp does use it,
    so a head that differs from the embedding gives another result there.

    Example: output.weight in a bitnet-25 file.

    Fix: remove the tensor.
    """
    known = architecture_view(subject)
    row = known.present.get("output.weight")
    if row is not None and row.spec is not None:
        size = subject.file.tensors.by_index(row.i)
        got = size.nbytes if size.type is not None and size.ne and size.ne[0] % size.type.block == 0 else 0
        yield head_ignored.at(subject.name_span(row.i), got=got, want=0, name=row.name)


@rule("M115", "input-norms-missing", "{got:input norm is|input norms are} missing (each normalizes the input of a "
      "projection); the first is {name}",
      severity=WARNING, clause="4.6", when=ternary_embedding_models)  # fmt: skip
def input_norms_missing(subject: Subject) -> Iterator[Finding]:
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


def with_published_name(subject: Subject) -> bool:
    """files that bear a published model's name"""
    known = architecture_view(subject)
    return known.is_declared and known.keys.value("general.name") in _PUBLISHED_NAMES


@rule("M120", "release-changed", "the name, the sizes and the tensors are those of {name}, whose published file "
      "has {want:byte}; this file has {got}", severity=NOTE, clause="4.7", when=with_published_name,
      provenance=("microsoft/BitNet#226",))  # fmt: skip
def release_changed(subject: Subject) -> Iterator[Finding]:
    """A file with the name and the tensors of a published one has another size.

    Why: somebody changed the metadata or appended data. This may be a repair, but it is not the published file.

    Example: the file of 2B-4T (general.name bitnet2b) with another chat template.

    Fix: compare the SHA-256 with that of the published file.
    """
    known = architecture_view(subject)
    from i2s_spec.schema.programs.releases import RELEASES

    types = Counter(row.type for row in known.rows)
    for release in RELEASES:
        if release.architecture != known.name or release.size in (None, subject.file.size):
            continue
        same = all(known.keys.own(name) == size for name, size in release.model.items())
        if same and dict(release.types) == types:
            span = known.keys.value_span("general.name")
            yield release_changed.at(span, got=subject.file.size, want=release.size, name=TrustedText(release.name))


def embedding_models(subject: Subject) -> bool:
    """embedding models"""
    return declared_models(subject) and architecture_view(subject).model.embedding_model


@rule("P301", "input-norms-upstream", "{got:input norm is|input norms are} unknown to stock llama.cpp, which refuses "
      "the file; the first is {name}", severity=WARNING, clause="4.6", when=embedding_models)  # fmt: skip
def input_norms_upstream(subject: Subject) -> Iterator[Finding]:
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
