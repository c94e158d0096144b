"""Rules that compare a file with another file of the same model: the dialect of its tensors, and their weights.

They apply only where a reference is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from i2s_spec.errors import Span, TrustedText, quote
from i2s_spec.linter.analysis.conditions import compared_with_reference
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Weights, rule
from i2s_spec.linter.rules.ternary.i2s_layout import REPACK
from i2s_spec.schema.types import I2_S, TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.against_reference.compared import Compared
    from i2s_spec.linter.analysis.against_reference.floats import FloatsCompared
    from i2s_spec.linter.reference.comparison import ReferenceOutcome


def _compared(subject: Subject) -> Compared:
    """The I2_S tensors against the reference; the code that compares is loaded only where there is a reference."""
    from i2s_spec.linter.analysis.against_reference.compared import compared

    return compared(subject)


def _compared_floats(subject: Subject) -> FloatsCompared:
    """The other tensors against the reference."""
    from i2s_spec.linter.analysis.against_reference.floats import compared_floats

    return compared_floats(subject)


def _outcomes(subject: Subject) -> Iterator[tuple[int, int, int, ReferenceOutcome]]:
    """Row, start, bytes of payload and findings of the tensors that have findings."""
    for row, outcome in _compared(subject).outcomes:
        info = subject.file.index.tensor(row)
        yield row, (subject.file.data_start or 0) + info.offset, I2_S.nbytes(info.ne) - TAIL_BYTES, outcome


@rule("I401", "packed-otherwise", "I2_S tensor {name} is packed as {got}, not as {want}: decoded as {got}, "
      "{share} of its weights equal those of the reference", clause="5.5", when=compared_with_reference,
      weights=Weights.PART, command=REPACK,
      provenance=("microsoft/BitNet 112f853", "microsoft/BitNet without ACT_PARALLEL"))  # fmt: skip
def packed_otherwise(subject: Subject) -> Iterator[Finding]:
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
      "element {first} on{how}", clause="5.4", when=compared_with_reference, weights=Weights.PART)  # fmt: skip
def weights_differ(subject: Subject) -> Iterator[Finding]:
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
      when=compared_with_reference, weights=Weights.PART,
      provenance=("microsoft/BitNet#616",))  # fmt: skip
def scale_differs(subject: Subject) -> Iterator[Finding]:
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
            how = _scale_words(subject, got, want)
            span = Span(start + size, start + size + 4, f"data[{row}].tail.scale")
            yield scale_differs.at(
                span,
                got=TrustedText(f"{got:.6g}"),
                want=TrustedText(f"{want:.6g}"),
                name=subject.name(row),
                how=TrustedText(how),
            )


def _scale_words(subject: Subject, got: float, want: float) -> str:
    """How a wrong scale is related to other scales, in words."""
    if abs(got * want - 1) < 1 / 64:
        return ": one is the reciprocal of the other"
    from i2s_spec.linter.analysis.against_reference.compared import owners_of

    owners = owners_of(subject, got)
    return f": it is that of {quote(owners[0])}" if len(owners) == 1 else ""


@rule("I404", "not-compared", "{got} of {of} I2_S tensors could not be compared with the reference; of {name}: {reason}",
      severity=WARNING, clause="5.5", when=compared_with_reference, weights=Weights.PART)  # fmt: skip
def not_compared(subject: Subject) -> Iterator[Finding]:
    """Some I2_S tensors could not be compared with the reference.

    Why: without reference weights, the packing of these tensors cannot be checked. The reference is another model, has
    other names or shapes, or stores the tensors in a type that is neither ternary nor float.

    Example: a reference with the first shard of a model only.

    Fix: give a reference with all tensors: the checkpoint's folder, or a GGUF file that was converted from it.
    """
    found = _compared(subject)
    if found.left:
        row, reason = found.left[0]
        yield not_compared.at(
            subject.name_span(row),
            got=len(found.left),
            of=found.tensors,
            name=subject.name(row),
            reason=TrustedText(reason),
        )


@rule("I405", "floats-differ", "{got} of {of} values of tensor {name} differ from the reference, from value "
      "{first} on{how}", clause="7.4", when=compared_with_reference, weights=Weights.PART)  # fmt: skip
def floats_differ(subject: Subject) -> Iterator[Finding]:
    """A tensor that is not I2_S has other values than the reference.

    Why: no other rule checks gains, embeddings and biases, and wrong ones spoil the output as much as wrong trits:
    gains of another layer, gains that are too small by 1 because a converter took them for offsets, rows of the
    embedding shifted by one token. If one of these explains the difference, the finding names it. The float types may
    differ: values count as equal where rounding to the shorter type explains the difference.

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
      "{name}: {reason}", severity=NOTE, clause="7.4", when=compared_with_reference, weights=Weights.PART)  # fmt: skip
def floats_not_compared(subject: Subject) -> Iterator[Finding]:
    """Some tensors that are not I2_S could not be compared with the reference.

    Why: these tensors are unchecked. The reference lacks them, has them in another type or shape, or their type is
    compared only byte by byte.

    Example: a reference that contains the matrices of a model without its norms.

    Fix: give a reference with all tensors, or check the remaining ones by other means.
    """
    found = _compared_floats(subject)
    if found.left:
        row, reason = found.left[0]
        yield floats_not_compared.at(
            subject.name_span(row),
            got=len(found.left),
            of=found.tensors,
            name=subject.name(row),
            reason=TrustedText(reason),
        )
