"""Rules about the gains of norms: whether they were trained, and whether they were converted correctly."""

from collections.abc import Iterator
from typing import Final

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import TrustedText
from i2s_spec.linter.analysis.architecture_view import Row, architecture_view
from i2s_spec.linter.analysis.conditions import ternary_by_type_or_key
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.rule import WARNING, Finding, Weights, rule

#: How many norms are examined, evenly spread, how many are needed, and how many values of each.
NORMS: Final = 8
ENOUGH: Final = 4
VALUES: Final = 1024
#: Gains without their 1 have a mean near 0 and at least this share of negative values. Trained gains are rarely negative.
MEAN: Final = 0.25
NEGATIVE: Final = 0.2


@analysis
def _norms(subject: Subject) -> list[tuple[Row, tuple[float, ...]]]:
    """Some norms with their first values; empty if each would need its own request in a sample."""
    known = architecture_view(subject)
    if subject.ranges_are_few:
        return []
    rows = [row for row in known.ternary_model_rows if row.type == "F32" and len(row.ne) == 1 and _is_norm(row)]
    step = max(1, len(rows) // NORMS)
    chosen = []
    for row in rows[::step][:NORMS]:
        start, count = known.file.tensors.by_index(row.i).span.start, min(row.ne[0], VALUES)
        if count and start + 4 * count <= known.file.size:
            chosen.append((row, start, count))
    subject.prefetch((start, start + 4 * count) for _, start, count in chosen)
    found = []
    for row, start, count in chosen:
        data = known.file.source.read(start, 4 * count)
        found.append((row, tuple(numbers("f", data, known.file.byte_order))))
    return found


def _is_norm(row: Row) -> bool:
    return row.spec is not None and row.spec.role == "norm"


def norms_read(subject: Subject) -> bool:
    """ternary models with four norms, if payloads are read"""
    if subject.reading.mode == "none" or not ternary_by_type_or_key(subject):
        return False
    return len(_norms(subject)) >= ENOUGH


@rule("M121", "gains-all-one", "all gains are exactly 1 in {got:norm} (all that were read); the first is {name}",
      severity=WARNING, clause="4.4", when=norms_read, weights=Weights.POSITIONS)  # fmt: skip
def gains_all_one(subject: Subject) -> Iterator[Finding]:
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
      when=norms_read, weights=Weights.POSITIONS)  # fmt: skip
def gains_around_zero(subject: Subject) -> Iterator[Finding]:
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
