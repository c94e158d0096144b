"""Rules about the layout of I2_S tensors: what trained weights show of it, and what a reference decides.

The first part infers layout and code map from the weights; the thresholds are in `layout_inference.hypotheses`. The
second compares the file with another file of the same model: the dialect of its tensors, and their weights. It applies
only where a reference is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import Span, TrustedText, quote
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.conditions import compared_with_reference, layers_read, queries_read
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.layout import code_counts, code_totals, query_order, weight_code_map, weight_layout
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Rule, WeightUse, rule
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS
from i2s_spec.schema.keys import FLOATS
from i2s_spec.schema.types import I2_S, TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.compare.known_weights import ReferenceOutcome
    from i2s_spec.layout_inference.hypotheses import Decision
    from i2s_spec.layout_inference.roles import Matrix
    from i2s_spec.linter.analysis.against_reference import Compared, FloatsCompared

#: The command that converts tensors of another dialect to the canonical one.
REPACK = "i2s convert {path} OUT.gguf --from {got} --to canonical"


def _span(subject: LintContext, matrix: Matrix) -> Span:
    start = matrix.start
    row = next(row for row, _ in subject.i2s() if subject.name(row) == matrix.name.encode("utf-8", "surrogateescape"))
    return Span(start, start + matrix.rows * matrix.cols // 4, f"data[{row}]")


def _score(decision: Decision, name: str) -> TrustedText:
    return TrustedText(f"{decision.sums.get(name, 0.0):,.0f}")


@rule("I213", "layout-contradicted", "the weights are laid out as {got}, not as {want}: in "
      "{comparisons:comparison}, {got} scores {score} and {want} {canonical}", clause="7.7", when=layers_read,
      weights=WeightUse.LAYERS, command=REPACK,
      provenance=("microsoft/BitNet 112f853", "microsoft/BitNet without ACT_PARALLEL"))  # fmt: skip
def layout_contradicted(subject: LintContext) -> Iterator[Finding]:
    """The weights themselves contradict the canonical layout.

    Why: a file does not state the layout of its codes, and every layout decodes without an error. Trained weights show
    their layout by correlations that exist only if the weights are decoded correctly: between the gains of a norm and
    the shares of zeros in the columns that they scale, and between the rows of one matrix and the columns of the next.
    A finding requires twice the score of the next best layout, and a lead that chance gives once in 10^9 files. Random
    weights do not reach this.

    Example: a trained model that an ARM build of November 2025 quantized, whose tensors are interleave-64.

    Fix: 'i2s convert --from interleave-64 --to canonical', with the layout that the finding names.
    """
    found = weight_layout(subject)
    if found is None or found.usual in (None, CANONICAL.layout.name):
        return
    name = found.usual
    assert name is not None
    alike = [one.matrix for one in found.tensors if one.decision.name == name]
    first = min(alike or [one.matrix for one in found.tensors], key=lambda matrix: matrix.start)
    code_map = weight_code_map(subject)
    foreign = name in LAYOUTS and code_map != CANONICAL.code_map  # the command for the conversion must name both
    yield layout_contradicted.at(
        _span(subject, first),
        got=TrustedText(f"{name}/{code_map.name}" if foreign else name),
        want=TrustedText(CANONICAL.layout.name),
        comparisons=found.whole.freedom,
        score=_score(found.whole, name),
        canonical=_score(found.whole, CANONICAL.layout.name),
    )


@rule("I214", "layouts-mixed", "I2_S tensor {name} is laid out as {got}, but most others as {want}: its weights "
      "score {score} in {got} and {usual} in {want}", clause="7.7", when=layers_read, weights=WeightUse.LAYERS)  # fmt: skip
def layouts_mixed(subject: LintContext) -> Iterator[Finding]:
    """Tensors of one file are laid out differently.

    Why: a runtime reads all I2_S tensors of a file in one layout, so it reads some of these tensors wrongly. Such files
    result from merging tensors of two conversions, or from a payload whose words were swapped or shifted by a block.

    Example: blk.3.ffn_up.weight as interleave-64 in an otherwise canonical file.

    Fix: take all tensors from one conversion, or convert the tensor that the finding names.
    """
    found = weight_layout(subject)
    if found is None or found.usual is None:
        return
    for one in found.otherwise(found.usual):
        name = one.decision.name
        assert name is not None
        yield layouts_mixed.at(
            _span(subject, one.matrix), got=TrustedText(name), want=TrustedText(found.usual), name=one.matrix.name,
            score=_score(one.decision, name), usual=_score(one.decision, found.usual),
        )  # fmt: skip


#: How architectures rotate, in words.
_ROTATED: Final = {"neox": "rows in the two halves", "norm": "neighboring rows"}


@rule("I215", "rows-for-other-rotation", "in attn_q and attn_k the densities of {got} of a head are correlated, "
      "but {arch} rotates {want}: {comparisons:comparison scores|comparisons score} {halves} for the "
      "halves of heads, {neighbors} for "
      "neighbors",
      severity=WARNING, clause="7.7", when=queries_read, weights=WeightUse.LAYERS)  # fmt: skip
def rows_for_other_rotation(subject: LintContext) -> Iterator[Finding]:
    """The rows of queries and keys are in the order of another architecture.

    Why: rotary embedding combines pairs of rows of a head, and training makes the two rows of a pair similar: they have
    about the same number of nonzero weights. Converters permute the rows for architectures that rotate neighboring rows
    (llama), and do not permute them for those that rotate the halves of a head (bitnet). With the wrong order a model
    still writes text, but its perplexity doubles. Random weights show no order. Of matrices stored as floats (F32, F16,
    BF16), the magnitudes of a row added up stand for its density, in eight layers at most.

    Example: a bitnet-b1.58 file whose rows were permuted by a converter for llama.

    Fix: convert the checkpoint again under the right architecture. 'i2s identify FILE --likelihood' compares both
    orders on a text.
    """
    known = architecture_view(subject)
    if not known.is_declared:
        return
    pairs = query_order(subject)
    if pairs is None or pairs.order is None or pairs.order == known.model.rope:
        return
    found = weight_layout(subject)
    if found is not None:
        from i2s_spec.layout_inference.evidence import ROTATED

        matrices = (matrix for matrix in found.roles.matrices.values() if matrix.role in ROTATED)
        span = _span(subject, min(matrices, key=lambda each: each.start))
    else:
        row = next(row for row in known.rows if row.type in FLOATS and row.name.endswith("attn_q.weight"))
        span = subject.name_span(row.i)
    yield rows_for_other_rotation.at(
        span, got=TrustedText(_ROTATED[pairs.order]), want=TrustedText(_ROTATED[known.model.rope]),
        arch=TrustedText(known.model.name), comparisons=pairs.comparisons, halves=TrustedText(f"{pairs.halves:,.0f}"),
        neighbors=TrustedText(f"{pairs.neighbors:,.0f}"),
    )  # fmt: skip


@rule("I216", "code-map-contradicted", "the weights have the codes of {got}, not of {want}: read as {want}, "
      "{minus} of them would be -1 and {plus} +1, but trained weights have equally many of both",
      clause="7.7", when=layers_read, weights=WeightUse.LAYERS, command=REPACK)  # fmt: skip
def code_map_contradicted(subject: LintContext) -> Iterator[Finding]:
    """The weights themselves contradict the canonical code map.

    Why: a file does not state its code map, and every code map decodes without an error. Trained weights have as many
    values of -1 as of +1. If two other codes are equally frequent instead, the file uses another code map, and a
    canonical reader takes, for example, zeros for -1. This balance does not show which of the two codes is -1.

    Example: a trained model whose writer used 0, 1, 2 for 0, +1, -1, as one description of the format says.

    Fix: 'i2s convert --from LAYOUT/CODE-MAP --to canonical', with the code map that the finding names.
    """
    found = weight_layout(subject)
    if found is None or found.usual not in (None, CANONICAL.layout.name):  # I213 names both
        return
    from i2s_spec.layout_inference.counts import foreign_code_map

    counts = code_totals(subject)
    code_map = foreign_code_map(counts, code_counts(subject))
    if code_map is None or code_map.unused != CANONICAL.code_map.unused:  # I202 detects it by the codes in use
        return
    usual = CANONICAL.code_map
    minus, plus = (f"{100 * counts[usual.code_of(trit)] / sum(counts):.1f} %" for trit in (-1, 1))
    yield code_map_contradicted.at(
        _span(subject, min(found.roles.matrices.values(), key=lambda matrix: matrix.start)),
        got=TrustedText(f"{CANONICAL.layout.name}/{code_map.name}"), want=TrustedText(usual.name),
        minus=TrustedText(minus), plus=TrustedText(plus),
    )  # fmt: skip


@rule("I217", "tensor-without-agreement", "I2_S tensor {name} agrees with its layer in no layout: its weights "
      "score {score} at best, as chance gives, but those of the other {role} score {least} and more", severity=WARNING,
      clause="7.7",
      when=layers_read, weights=WeightUse.LAYERS)  # fmt: skip
def tensor_without_agreement(subject: LintContext) -> Iterator[Finding]:
    """One tensor does not fit the rest of the model.

    Why: in a trained model, a matrix reads its channels in the order in which other matrices write them, and its
    weights show this. If a matrix fits no other, but the matrices of the same role in other layers do, then it was
    transposed, shifted by a part of a block, shuffled, exchanged with a matrix of the same shape, or overwritten. A
    model with one such tensor still writes text, but worse.

    Example: blk.1.attn_q.weight written column by column, in a file whose other matrices are sound.

    Fix: convert the tensor again. With a right copy of the model, 'i2s lint --reference' and 'i2s diff' name the
    mistake.
    """
    found = weight_layout(subject)
    if found is None or found.usual is None:
        return
    strangers = found.strangers()
    names = {each.matrix.name for each in (*strangers, *found.otherwise(found.usual))}
    for one in strangers:
        role = one.matrix.role
        others = [each for each in found.tensors if each.matrix.role == role and each.matrix.name not in names]
        least = min(others, key=lambda each: each.decision.sums.get(found.usual or "", 0.0))
        yield tensor_without_agreement.at(
            _span(subject, one.matrix), name=one.matrix.name, role=TrustedText(role),
            score=TrustedText(f"{max(one.decision.sums.values()):,.0f}"), least=_score(least.decision, found.usual),
        )  # fmt: skip


# --- against a reference ---------------------------------------------------------------------------------------------


def _compared(subject: LintContext) -> Compared:
    """Return the I2_S tensors against the reference; the code that compares is loaded only where there is a
    reference.
    """
    from i2s_spec.linter.analysis.against_reference import compared

    return compared(subject)


def _compared_floats(subject: LintContext) -> FloatsCompared:
    """Return the other tensors against the reference."""
    from i2s_spec.linter.analysis.against_reference import compared_floats

    return compared_floats(subject)


def _outcomes(subject: LintContext) -> Iterator[tuple[int, int, int, ReferenceOutcome]]:
    """Yield row, start, bytes of payload and findings of the tensors that have findings."""
    for row, outcome in _compared(subject).outcomes:
        info = subject.file.index.tensor(row)
        yield row, (subject.file.data_start or 0) + info.offset, I2_S.nbytes(info.ne) - TAIL_BYTES, outcome


@rule("I401", "packed-otherwise", "I2_S tensor {name} is packed as {got}, not as {want}: decoded as {got}, "
      "{share} of its weights equal those of the reference", clause="5.5", when=compared_with_reference,
      weights=WeightUse.PART, command=REPACK,
      provenance=("microsoft/BitNet 112f853", "microsoft/BitNet without ACT_PARALLEL"))  # fmt: skip
def packed_otherwise(subject: LintContext) -> Iterator[Finding]:
    """A tensor holds the right weights in another dialect.

    Why: a file does not state the layout of its codes, and every layout decodes without an error, to different weights.
    An ARM build of November 2025 packs blocks of 64; an x86 build without ACT_PARALLEL packs four rows into a byte;
    released readers expect neither. Trained weights show their layout (I213), random ones do not. Known weights always
    decide it: those of the checkpoint, or of another file of the model.

    Example: 'i2s lint model.gguf --reference model-f32.gguf' for a file whose tensors are rows-1x4.

    Fix: 'i2s convert --from rows-1x4 --to canonical', with the dialect that the finding names. If that dialect is
    intended, declare it with --expect.
    """
    assert subject.weights is not None
    for row, start, size, outcome in _outcomes(subject):
        if outcome.match is not None:
            yield packed_otherwise.at(
                Span(start, start + size, f"data[{row}]"), got=TrustedText(str(outcome.match.dialect)),
                want=TrustedText(subject.weights.expected), name=subject.name(row),
                share=TrustedText(f"{100 * outcome.match.share:.4g} %"),
            )  # fmt: skip


@rule("I402", "weights-differ", "{got} of {of} weights of I2_S tensor {name} differ from the reference, from "
      "element {first} on{how}", clause="5.4", when=compared_with_reference, weights=WeightUse.PART)  # fmt: skip
def weights_differ(subject: LintContext) -> Iterator[Finding]:
    """A tensor has other weights than the reference.

    Why: the weights equal those of the reference in no dialect. A part was overwritten or comes from another model, the
    rows are not in the order of the architecture, or the weights were made ternary by another rule. If a common mistake
    explains the difference, the finding names it: another tensor of the model, a transposed matrix, swapped words,
    inverted signs, rows or columns in another order.

    Example: the rows of attn_q in the order of the checkpoint, in a file of architecture llama.

    Fix: convert the checkpoint again. If the reference is another model, give the right one; if it is packed in another
    dialect, name that dialect.
    """
    for row, start, _, outcome in _outcomes(subject):
        difference = outcome.difference
        if difference is not None and outcome.match is None:
            span = Span(start + difference.start, start + difference.stop, f"data[{row}]")
            yield weights_differ.at(
                span, got=difference.weights, want=0, name=subject.name(row), of=difference.compared,
                first=difference.first, how=TrustedText(f"; {outcome.how}" if outcome.how else ""),
            )  # fmt: skip


@rule("I403", "scale-differs", "the scale of I2_S tensor {name} is {got}, and {want} in the reference{how}", clause="6.2",
      when=compared_with_reference, weights=WeightUse.PART,
      provenance=("microsoft/BitNet#616",))  # fmt: skip
def scale_differs(subject: LintContext) -> Iterator[Finding]:
    """A tensor has another scale than the reference.

    Why: with right codes and a wrong scale, every output is wrong. The writer multiplied by a weight_scale that must
    divide, took a mean instead of a maximum, or used the scale of another tensor. Differences within rounding are not
    reported.

    Example: 0.703 where the reference has 1.42, its reciprocal.

    Fix: find out which of the two the model was trained with, and convert the other file again.
    """
    for row, start, size, outcome in _outcomes(subject):
        if outcome.scale is not None:
            got, want = outcome.scale
            shown = {"got": TrustedText(f"{got:.6g}"), "want": TrustedText(f"{want:.6g}")}
            span, how = (
                Span(start + size, start + size + 4, f"data[{row}].tail.scale"),
                _scale_words(subject, got, want),
            )
            yield scale_differs.at(span, **shown, name=subject.name(row), how=TrustedText(how))


def _scale_words(subject: LintContext, got: float, want: float) -> str:
    """Return the relation of a wrong scale to other scales, in words."""
    if abs(got * want - 1) < 1 / 64:
        return ": one is the reciprocal of the other"
    from i2s_spec.linter.analysis.against_reference import owners_of

    owners = owners_of(subject, got)
    return f": it is that of {quote(owners[0])}" if len(owners) == 1 else ""


@rule("I404", "not-compared", "{got} of {of} I2_S tensors could not be compared with the reference; of {name}: {reason}",
      severity=WARNING, clause="5.5", when=compared_with_reference, weights=WeightUse.PART)  # fmt: skip
def not_compared(subject: LintContext) -> Iterator[Finding]:
    """Some I2_S tensors could not be compared with the reference.

    Why: without reference weights, the packing of these tensors cannot be checked. The reference is another model, has
    other names or shapes, or stores the tensors in a type that is neither ternary nor float.

    Example: a reference with the first shard of a model only.

    Fix: give a reference with all tensors: the checkpoint's folder, or a GGUF file that was converted from it.
    """
    yield from _left_out(subject, not_compared, _compared(subject))


def _left_out(subject: LintContext, made: Rule, found: Compared | FloatsCompared) -> Iterator[Finding]:
    """Yield one finding for all tensors that could not be compared, on the first."""
    if found.left:
        row, reason = found.left[0]
        span, words = subject.name_span(row), TrustedText(reason)
        yield made.at(span, got=len(found.left), of=found.tensors, name=subject.name(row), reason=words)


@rule("I405", "floats-differ", "{got} of {of} values of tensor {name} differ from the reference, from value "
      "{first} on{how}", clause="7.4", when=compared_with_reference, weights=WeightUse.PART)  # fmt: skip
def floats_differ(subject: LintContext) -> Iterator[Finding]:
    """A tensor that is not I2_S has other values than the reference.

    Why: no other rule checks gains, embeddings and biases, and wrong ones spoil the output as much as wrong trits:
    gains of another layer, gains that are too small by 1 because a converter took them for offsets, rows of the
    embedding shifted by one token. Matrices that are floats, or of another ternary type, are compared in the same way:
    rows of queries and keys in the order of the checkpoint, or a scale that was not inverted, are as wrong there. If one of
    these explains the difference, the finding names it. The types may differ: values count as equal where rounding to the
    shorter type explains the difference, and ternary matrices agree with weights that round to their trits.

    Example: blk.3.ffn_norm.weight that holds the gains of blk.4.ffn_norm.weight.

    Fix: convert the checkpoint again. If the reference is another model, give the right one.
    """
    for one in _compared_floats(subject).differ:
        tensor = subject.file.tensors.by_index(one.row)
        yield floats_differ.at(
            Span(tensor.span.start, tensor.span.stop, f"data[{one.row}]"), got=one.values, want=0, of=one.compared,
            name=subject.name(one.row), first=one.first, how=TrustedText(f"; {one.how}" if one.how else ""),
        )  # fmt: skip


@rule("I406", "floats-not-compared", "{got} of {of} tensors that are not I2_S could not be compared with the reference; of "
      "{name}: {reason}", severity=NOTE, clause="7.4", when=compared_with_reference, weights=WeightUse.PART)  # fmt: skip
def floats_not_compared(subject: LintContext) -> Iterator[Finding]:
    """Some tensors that are not I2_S could not be compared with the reference.

    Why: these tensors are unchecked. The reference lacks them, has them in another type or shape, or their type is
    compared only byte by byte.

    Example: a reference that contains the matrices of a model without its norms.

    Fix: give a reference with all tensors, or check the remaining ones by other means.
    """
    yield from _left_out(subject, floats_not_compared, _compared_floats(subject))
