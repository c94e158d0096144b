"""Rules about the tensors that an architecture needs: which there are, and their shapes."""

from collections import Counter
from collections.abc import Iterator

from i2s_spec.errors import TrustedText
from i2s_spec.light_typing import Final
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, Row, architecture_view
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.schema.architectures.keys import EXPECTED, REQUIRED
from i2s_spec.schema.checks import TENSOR_COUNT_SPAN
from i2s_spec.schema.programs.releases import RELEASES

MODELS: Final = "models of a declared architecture that are ternary, or say so"


@rule("M101", "tensor-missing", "tensor {name} is missing ({meaning})", clause="4.1", when=MODELS,
      provenance=("microsoft/BitNet#226",))  # fmt: skip
def tensor_missing(subject: Subject) -> Iterator[Finding]:
    """A tensor is missing that the architecture's graph needs.

    Why: loaders look every tensor of the architecture up by its name and refuse: 'tensor not found'. Readers that go on
    without it, as some do without sub-norms, compute something else.

    Example: a bitnet-b1.58 file without blk.0.attn_sub_norm.weight.

    Fix: convert the model again; where the tensors are those of another architecture, name that one.
    """
    known = architecture_view(subject)
    for name, spec in known.wanted:
        if spec.need == REQUIRED and name not in known.present:
            yield tensor_missing.at(
                TENSOR_COUNT_SPAN, name=TrustedText(name), meaning=TrustedText(spec.meaning.rstrip(".").lower())
            )


def _absent(known: ArchitectureView) -> str:
    """Of which kind of layers the file has none: `dense` or `experts`."""
    return "dense" if known.has_experts else "experts"


def _others(name: str, known: ArchitectureView) -> str:
    """Which other architectures have a tensor of this name, in words."""
    others = [other.prefix for other in ARCHITECTURES.values() if other.match(name) and other.prefix != known.name]
    names = list(dict.fromkeys(others))
    return f"; {' and '.join(names)} have it" if names else "; no declared architecture has it"


@rule("M102", "tensor-unknown", "tensor {name} does not exist in architecture {arch}{others}", clause="4.1",
      fix=Fix.UNSAFE, when=MODELS, provenance=("microsoft/BitNet#226",))  # fmt: skip
def tensor_unknown(subject: Subject) -> Iterator[Finding]:
    """A tensor does not belong to the architecture.

    Why: loaders count the tensors that they know against those that the file has, and refuse: 'wrong number of
    tensors'. Typical cases are sub-norms under llama, scales beside the tails under any architecture but bitnet, and
    output.weight under bitnet.

    Example: blk.0.attn_sub_norm.weight in a file of architecture llama.

    Fix: name the architecture that has these tensors, or drop the tensor.
    """
    known = architecture_view(subject)
    absent = _absent(known)
    for row in known.ternary_model_rows:
        out_of_place = row.spec is not None and row.spec.when == absent
        if (row.spec is None or out_of_place) and not row.name.endswith("_scale"):  # which have a rule of their own
            others = _others(row.name, known) if row.spec is None else "; expert_count excludes it"
            yield tensor_unknown.at(
                subject.name_span(row.i), name=row.name, arch=TrustedText(known.name), others=TrustedText(others)
            )  # fmt: skip


def _shapes(known: ArchitectureView) -> Iterator[tuple[Row, tuple[int, ...]]]:
    """The tensors whose shape is declared, and that shape, for the layer that they are in."""
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
    """A shape without the dimensions of 1 after it, which writers may leave out."""
    while len(ne) > 1 and ne[-1] == 1:
        ne = ne[:-1]
    return ne


@rule("M103", "tensor-shape", "tensor {name} has the shape {got}; {want} follows from the metadata{hint}", clause="4.2",
      when=MODELS, cwe=1284)  # fmt: skip
def tensor_shape(subject: Subject) -> Iterator[Finding]:
    """A tensor has another shape than the metadata say.

    Why: loaders compute every shape from the metadata and refuse: 'has wrong shape'. A reader that takes the shape from
    the table multiplies matrices that do not fit.

    Example: attn_k of 512 rows where head_count_kv asks for 128; a matrix that was transposed.

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


@rule("M104", "block-count", "block_count is {want}, and the number of layers that have tensors is {got}{which}",
      clause="4.1", when=MODELS,
      provenance=("ggml-org/llama.cpp#25821", "ggml-org/llama.cpp#26051"))  # fmt: skip
def block_count(subject: Subject) -> Iterator[Finding]:
    """The layers that have tensors are not those that block_count says.

    Why: loaders ask for the tensors of every layer from 0 to block_count - 1, and for no others: one that is missing is
    'not found', one too many makes a 'wrong number of tensors'.

    Example: block_count = 30 with tensors up to blk.27; blk.3 left out.

    Fix: write the number of layers that are there, or convert the model again.
    """
    known = architecture_view(subject)
    if known.h is None or known.in_parts or not known.is_bitnet:
        return
    wanted = set(range(known.h.layers))
    missing, extra = sorted(wanted - known.layers), sorted(known.layers - wanted)
    if missing or extra:
        which = "; the first that is missing is blk.{:,}" if missing else "; the first that is too many is blk.{:,}"
        span = known.keys.value_span(f"{known.name}.block_count")
        words = TrustedText(which.format((missing or extra)[0]))
        yield block_count.at(span, got=len(known.layers), want=known.h.layers, which=words)


@rule("M105", "embedding-rows", "tensor {name} has {got:row}; the vocabulary has {want:token}", clause="4.1",
      fix=Fix.UNSAFE, when=MODELS, cwe=125)  # fmt: skip
def embedding_rows(subject: Subject) -> Iterator[Finding]:
    """The embedding, or the head, has another number of rows than there are tokens.

    Why: loaders refuse it: 'has wrong shape'. A reader that does not look reads beyond the embedding for the last
    tokens.

    Example: token_embd.weight with 32,000 rows and 32,002 tokens.

    Fix: fill up the tokens, or convert the model again with its added tokens.
    """
    known = architecture_view(subject)
    size = known.keys.own("vocab_size")
    for row, ne in _shapes(known):
        if row.spec is not None and "vocab" in row.spec.ne and len(row.ne) == len(ne) == 2 and row.ne[0] == ne[0]:
            disagreed = None not in (size, known.tokens) and size != known.tokens
            if row.ne[1] != ne[1] and not (disagreed and row.ne[1] in (size, known.tokens)):
                yield embedding_rows.at(subject.info_span(row.i, "ne"), got=row.ne[1], want=ne[1], name=row.name)


@rule("M112", "head-missing", "output.weight is missing: loaders take token_embd.weight for the head; whether the model was "
      "trained so cannot be told from the file", severity=NOTE, clause="4.1",
      when="ternary models of architecture llama")  # fmt: skip
def head_missing(subject: Subject) -> Iterator[Finding]:
    """The head of a model is missing that published models have untied.

    Why: loaders fall back on the embedding without a word. Llama3-8B-1.58 and Falcon3-1.58bit have a head of their own;
    without it they answer nonsense. A model that was trained with a tied head is sound.

    Example: a Llama3-8B-1.58 file of 290 tensors.

    Fix: compare with tie_word_embeddings in the config.json that the model came with.
    """
    known = architecture_view(subject)
    if known.is_ternary:
        for name, spec in known.wanted:
            if spec.need == EXPECTED and spec.role == "head" and name not in known.present:
                yield head_missing.at(TENSOR_COUNT_SPAN)


@rule("M113", "head-ignored", "tensor {name} of {got:byte} is loaded and never used", severity=NOTE, clause="4.1",
      fix=Fix.UNSAFE, when="models of architecture bitnet-25 or bitnet-b1.58",
      provenance=("microsoft/BitNet#226", "ikawrakow/ik_llama.cpp#388"))  # fmt: skip
def head_ignored(subject: Subject) -> Iterator[Finding]:
    """There is a head, and the architecture's graph multiplies by the embedding.

    Why: the file is larger than it need be; 657 MB of 1.84 GB in the file of 2B-4T before 22 April 2025. ik_llama.cpp
    does use it, so that a head that is not the embedding gives two results.

    Example: output.weight in a bitnet-25 file.

    Fix: drop the tensor.
    """
    known = architecture_view(subject)
    row = known.present.get("output.weight")
    if row is not None and known.model is not None and known.model.head == "tied" and row.spec is not None:
        size = subject.file.tensors.by_index(row.i)
        got = size.nbytes if size.type is not None and size.ne and size.ne[0] % size.type.block == 0 else 0
        yield head_ignored.at(subject.name_span(row.i), got=got, want=0, name=row.name)


@rule("M115", "input-norms-missing", "{got:input norm is|input norms are} missing (each normalizes "
      "what enters a projection); the first is {name}",
      severity=WARNING, clause="4.6", when="ternary embedding models")  # fmt: skip
def input_norms_missing(subject: Subject) -> Iterator[Finding]:
    """Norms on what enters projections are missing in a ternary embedding model.

    Why: the models were trained with a norm before each projection's activations are quantized. Loaders take them as
    optional: without them the graph runs, and the vectors are wrong.

    Example: a bitnet-embedding-0.6b file without blk.0.attn_q_norm_in.weight.

    Fix: convert the model again, with the converter for embedding models.
    """
    known = architecture_view(subject)
    if known.is_ternary:
        expected = (name for name, spec in known.wanted if spec.need == EXPECTED and spec.role == "norm")
        missing = [name for name in expected if name not in known.present]
        if missing:
            yield input_norms_missing.at(TENSOR_COUNT_SPAN, got=len(missing), want=0, name=TrustedText(missing[0]))


#: What `general.name` says in published files of 2B-4T.
_PUBLISHED_NAMES: Final = frozenset({"bitnet2b", "bitnet2b_2501"})


@rule("M120", "release-changed", "the name, the sizes and the tensors are those of {name}, whose file has {want:byte}; "
      "this one has {got}", severity=NOTE, clause="4.7", when="files that bear a published model's name",
      provenance=("microsoft/BitNet#226",))  # fmt: skip
def release_changed(subject: Subject) -> Iterator[Finding]:
    """A file with the name and the tensors of a published one has another size.

    Why: somebody changed its metadata, or appended something. That may be a repair; it is not the published file.

    Example: bitnet2b with another chat template.

    Fix: compare the SHA-256 with that of the published file.
    """
    known = architecture_view(subject)
    if known.model is None or known.keys.value("general.name") not in _PUBLISHED_NAMES:
        return
    types = Counter(row.type for row in known.rows)
    for release in RELEASES:
        if release.architecture != known.name or release.size in (None, subject.file.size):
            continue
        same = all(known.keys.own(name) == size for name, size in release.model.items())
        if same and dict(release.types) == dict(types):
            span = known.keys.value_span("general.name")
            yield release_changed.at(span, got=subject.file.size, want=release.size, name=TrustedText(release.name))


@rule("P301", "input-norms-upstream", "{got:input norm is|input norms are} unknown to stock llama.cpp, which refuses "
      "the file; the first is {name}", severity=WARNING, clause="4.6", when="embedding models")  # fmt: skip
def input_norms_upstream(subject: Subject) -> Iterator[Finding]:
    """The file has norms that stock loaders of qwen3 and gemma3 do not know.

    Why: only BitNet's fork of 2026 looks for them. Upstream llama.cpp, and what is built on it, counts one tensor too
    many for each and refuses: 'wrong number of tensors'.

    Example: every file of bitnet-embedding-0.6b.

    Fix: none in the file; run it with BitNet's fork.
    """
    known = architecture_view(subject)
    rows = [row for row in known.rows if row.spec is not None and row.name.endswith("_norm_in.weight")]
    if rows:
        yield input_norms_upstream.at(subject.name_span(rows[0].i), got=len(rows), want=0, name=rows[0].name)
