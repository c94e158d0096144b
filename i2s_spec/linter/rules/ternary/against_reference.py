"""Rules about what only another file of the same model tells: where codes lie, and whether they are the right ones.

The evidence that they need is a reference; without one they do not apply.
"""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.errors import Span, TrustedText, quote
from i2s_spec.light_typing import TYPE_CHECKING
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Needs, rule
from i2s_spec.linter.rules.ternary.i2s_layout import REPACK
from i2s_spec.schema.types import I2_S, TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.linter.reference.compared import Compared
    from i2s_spec.linter.reference.comparison import ReferenceOutcome
    from i2s_spec.linter.reference.floats import FloatsCompared

#: Which files these rules apply to.
WITH_REFERENCE = "files that are compared with a reference (--reference)"


def _compared(subject: Subject) -> Compared | None:
    """The I2_S tensors against the reference; what compares is loaded where there is one."""
    if subject.weights is None:
        return None
    from i2s_spec.linter.reference.compared import compared

    return compared(subject)


def _compared_floats(subject: Subject) -> FloatsCompared | None:
    """The other tensors against the reference."""
    if subject.weights is None:
        return None
    from i2s_spec.linter.reference.floats import compared_floats

    return compared_floats(subject)


def _outcomes(subject: Subject) -> Iterator[tuple[int, int, int, ReferenceOutcome]]:
    """Row, start, bytes of payload, and what was found, of the tensors where something was."""
    found = _compared(subject)
    for row, outcome in found.outcomes if found is not None else ():
        info = subject.file.index.tensor(row)
        yield row, (subject.file.data_start or 0) + info.offset, I2_S.nbytes(info.ne) - TAIL_BYTES, outcome


@rule("I401", "packed-otherwise", "I2_S tensor {name} is packed as {got}, not as {want}: decoded in that way, "
      "{share} of its weights are those of the reference", clause="5.5", when=WITH_REFERENCE,
      needs=Needs.REFERENCE, payload=True, command=REPACK,
      provenance=("microsoft/BitNet 112f853", "microsoft/BitNet without ACT_PARALLEL"))  # fmt: skip
def packed_otherwise(subject: Subject) -> Iterator[Finding]:
    """A tensor holds the right weights in another dialect.

    Why: nothing in a file says how its codes are laid out, and each layout decodes as well as the others, to other
    weights. An ARM build of November 2025 packs blocks of 64, an x86 build without ACT_PARALLEL packs four rows to a
    byte, and released readers expect neither. Trained weights show their layout themselves (I213), random ones do not;
    known weights always decide it: the checkpoint, or another file of the model.

    Example: 'i2s lint model.gguf --reference model-f32.gguf' for a file whose tensors are rows-1x4.

    Fix: 'i2s convert --from rows-1x4 --to canonical' with the dialect named; where that dialect is intended, name
    it with --expect.
    """
    for row, start, size, outcome in _outcomes(subject):
        if outcome.match is not None and subject.weights is not None:
            yield packed_otherwise.at(
                Span(start, start + size, f"data[{row}]"), got=TrustedText(str(outcome.match.dialect)),
                want=TrustedText(subject.weights.expected), name=subject.name(row),
                share=TrustedText(f"{100 * outcome.match.share:.4g} %"),
            )  # fmt: skip


@rule("I402", "weights-differ", "{got} of {of} weights of I2_S tensor {name} are not those of the reference, from element "
      "{first} on{how}", clause="5.4", when=WITH_REFERENCE, needs=Needs.REFERENCE, payload=True)  # fmt: skip
def weights_differ(subject: Subject) -> Iterator[Finding]:
    """A tensor holds other weights than the reference.

    Why: in no dialect are these weights those of the reference. A part was overwritten or is from another model, rows were
    put in another order than the architecture has them, or the weights were made ternary by another rule. Where one of
    the usual mistakes explains it, the finding says which: another tensor of the model, transposed, swapped words,
    inverted signs, rows or columns in another order.

    Example: the rows of attn_q in the order of the checkpoint, in a file of architecture llama.

    Fix: convert the checkpoint again. If the reference is another model, or packed in another dialect, say so.
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
      when=WITH_REFERENCE, needs=Needs.REFERENCE, payload=True,
      provenance=("microsoft/BitNet#616",))  # fmt: skip
def scale_differs(subject: Subject) -> Iterator[Finding]:
    """A tensor has another scale than the reference.

    Why: the codes can be right and every output wrong: a weight_scale that divides was taken for one that multiplies, a
    mean for a maximum, or the scale of one tensor for that of another. Scales that differ by rounding are the same.

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
    """What a scale is instead, in words."""
    if abs(got * want - 1) < 1 / 64:
        return ": one is the reciprocal of the other"
    from i2s_spec.linter.reference.compared import owners_of

    owners = owners_of(subject, got)
    return f": it is that of {quote(owners[0])}" if len(owners) == 1 else ""


@rule("I404", "not-compared", "{got} of {of} I2_S tensors could not be compared with the reference; of {name}: {reason}",
      severity=WARNING, clause="5.5", when=WITH_REFERENCE, needs=Needs.REFERENCE, payload=True)  # fmt: skip
def not_compared(subject: Subject) -> Iterator[Finding]:
    """The reference says nothing about some tensors.

    Why: without their weights nothing tells whether these tensors are packed as they should be. The reference is another
    model, calls them by other names, has other shapes, or holds them in a type that is neither ternary nor of floats.

    Example: a reference with the first shard of a model only.

    Fix: give a reference with all tensors: the checkpoint's folder, or a GGUF file that was converted from it.
    """
    found = _compared(subject)
    if found is not None and found.left:
        row, reason = found.left[0]
        yield not_compared.at(
            subject.name_span(row),
            got=len(found.left),
            of=found.tensors,
            name=subject.name(row),
            reason=TrustedText(reason),
        )


@rule("I405", "floats-differ", "{got} of {of} values of tensor {name} are not those of the reference, from value {first} "
      "on{how}", clause="7.4", when=WITH_REFERENCE, needs=Needs.REFERENCE, payload=True)  # fmt: skip
def floats_differ(subject: Subject) -> Iterator[Finding]:
    """A tensor that is not I2_S holds other values than the reference.

    Why: nothing else checks gains, embeddings and biases, and wrong ones spoil the output as much as wrong trits do:
    gains of another layer, gains that are 1 too small because a converter took them for offsets, rows of the embedding
    shifted by one token. Where one of these explains it, the finding says which. Types of floats may differ; what is
    stored with fewer bits counts as equal where rounding explains the difference.

    Example: blk.3.ffn_norm.weight that holds the gains of blk.4.ffn_norm.weight.

    Fix: convert the checkpoint again. If the reference is another model, give the right one.
    """
    found = _compared_floats(subject)
    for one in found.differ if found is not None else ():
        tensor = subject.file.tensors.by_index(one.row)
        yield floats_differ.at(
            Span(tensor.span.start, tensor.span.stop, f"data[{one.row}]"), got=one.values, want=0, of=one.compared,
            name=subject.name(one.row), first=one.first, how=TrustedText(f"; {one.how}" if one.how else ""),
        )  # fmt: skip


@rule("I406", "floats-not-compared", "{got} of {of} tensors that are not I2_S could not be compared with the reference; of "
      "{name}: {reason}", severity=NOTE, clause="7.4", when=WITH_REFERENCE, needs=Needs.REFERENCE,
      payload=True)  # fmt: skip
def floats_not_compared(subject: Subject) -> Iterator[Finding]:
    """The reference says nothing about some tensors that are not I2_S.

    Why: a comparison that finds nothing is worth as much as what was compared. The reference lacks these tensors, holds
    them in another type or shape, or they are of a type that is compared as bytes only.

    Example: a reference that holds the matrices of a model without its norms.

    Fix: give a reference with all tensors, or look at those that are left by other means.
    """
    found = _compared_floats(subject)
    if found is not None and found.left:
        row, reason = found.left[0]
        yield floats_not_compared.at(
            subject.name_span(row),
            got=len(found.left),
            of=found.tensors,
            name=subject.name(row),
            reason=TrustedText(reason),
        )
