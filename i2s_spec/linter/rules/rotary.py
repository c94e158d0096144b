"""Rules about the rotation of positions in files of any architecture: its factors, and what scaling needs besides them.

Factors divide the frequencies base^(-2i/n) of a head of n rotated elements. `rope_freqs.weight` holds one for each pair;
`rope_factors_long.weight` and `rope_factors_short.weight` hold those for contexts above and below the original length.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import isfinite
from typing import Final

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import Span, TrustedText
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.rule import WARNING, Finding, WeightUse, rule
from i2s_spec.schema import limits
from i2s_spec.schema.faults import KEY_COUNT_SPAN, TENSOR_COUNT_SPAN
from i2s_spec.schema.types import BY_NAME

#: The name that tensors of factors end in; t5 and others have one for each layer.
_FREQS: Final = b"rope_freqs.weight"
_LONG, _SHORT = b"rope_factors_long.weight", b"rope_factors_short.weight"
#: More pairs than any head has.
_MOST: Final = 1 << 12
#: The ratio of neighboring frequencies of a model differs from 1 by more, and is the same for all pairs up to this.
_RATIO: Final = 1e-3
_LIKE: Final = 1e-3
#: So many values are a sequence.
_SEQUENCE: Final = 4


class Factors:
    """A tensor of factors: its row, its name, where its values are, and the values."""

    def __init__(self, row: int, name: bytes, span: Span, values: tuple[float, ...]) -> None:
        self.row, self.name, self.span, self.values = row, name, span, values


@analysis
def _rows(subject: LintContext) -> dict[bytes, int]:
    """Return the first tensor of each kind of factors, by the end of its name."""
    found: dict[bytes, int] = {}
    index = subject.file.index
    if subject.file.fault is not None or index.tensors > limits.MANY_TENSORS:
        return found
    for i in range(index.tensors):
        name = index.tensor(i).name
        if name.endswith((_FREQS, _LONG, _SHORT)):
            kind = next(kind for kind in (_FREQS, _LONG, _SHORT) if name.endswith(kind))
            found.setdefault(kind, i)
    return found


@analysis
def _factors(subject: LintContext) -> tuple[Factors, ...]:
    """Return the float32 factors of a file whose payloads are read; those with a NaN or an infinity are left out."""
    file, found = subject.file, []
    for row in _rows(subject).values():
        tensor = file.tensors.by_index(row)
        span = tensor.span
        if tensor.number != BY_NAME["F32"].number or not len(tensor.ne) > 0 or tensor.elements != tensor.ne[0]:
            continue
        if not 0 < tensor.ne[0] <= _MOST or span.stop > file.size:
            continue
        values = tuple(numbers("f", file.source.read(span.start, 4 * tensor.ne[0]), file.byte_order))
        if all(map(isfinite, values)):
            found.append(Factors(row, tensor.raw_name, span, values))
    return tuple(found)


def factors_read(subject: LintContext) -> bool:
    """models with factors of the rotation, if payloads are read"""
    if subject.reading.mode == "none" or not _rows(subject) or not architecture_view(subject).holds_model:
        return False
    return bool(_factors(subject))


@rule("M033", "rope-factor-value", "factor {index} of {name} is {got}: frequencies are divided by it", clause="3.4",
      when=factors_read, weights=WeightUse.POSITIONS)  # fmt: skip
def rope_factor_value(subject: LintContext) -> Iterator[Finding]:
    """A factor of the rotation is zero or negative.

    Why: programs divide the frequency of a pair by its factor, so that the angle becomes infinite, or the pair is rotated
    backwards. With a zero every output is NaN.

    Example: a tensor of zeros that was never filled.

    Fix: write 1 for pairs that are rotated as in training without scaling, and the scaling's factors for the others.
    """
    for factors in _factors(subject):
        wrong = next((i for i, value in enumerate(factors.values) if value <= 0), None)
        if wrong is not None:
            span = factors.span._replace(start=factors.span.start + 4 * wrong, stop=factors.span.start + 4 * wrong + 4)
            yield rope_factor_value.at(
                span, got=TrustedText(f"{factors.values[wrong]:g}"), name=factors.name, index=wrong
            )  # fmt: skip


def _is_sequence(values: tuple[float, ...]) -> bool:
    """Whether each value is the one before it times the same ratio, as frequencies are."""
    if len(values) < _SEQUENCE:
        return False
    ratio = values[1] / values[0]
    return abs(ratio - 1) > _RATIO and all(abs(b / a / ratio - 1) < _LIKE for a, b in pairwise(values))


def _without_padding(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return factors without the ones at the end, which stand for elements that are not rotated."""
    stop = len(values)
    while stop > 1 and values[stop - 1] == 1:
        stop -= 1
    return values[:stop]


@rule("M034", "rope-factors-odd", "{name}: {reason}", severity=WARNING, clause="3.4", when=factors_read,
      weights=WeightUse.POSITIONS)  # fmt: skip
def rope_factors_odd(subject: LintContext) -> Iterator[Finding]:
    """The values of rope_freqs.weight are not those of factors.

    Why: a factor is 1 for the fastest pairs, which no scaling changes, and grows to the factor of the scaling for the
    slowest. Frequencies in their place (or their reciprocals) look sound, and rotate every pair by wrong angles. A
    factor that falls is one of another pair. Ones at the end stand for elements that are not rotated.

    Example: 1, 0.81, 0.65 and so on, which are base^(-2i/n); or factors in reverse order.

    Fix: write the factors that the configuration of the checkpoint gives, as rope_type llama3 defines them.
    """
    for factors in _factors(subject):
        values = factors.values
        if min(values) <= 0:
            continue  # M033 reports these
        reason = ""
        if _is_sequence(values):
            kind = "falls" if values[1] < values[0] else "rises"
            reason = f"each value {kind} by the same ratio, as frequencies and their reciprocals do, and factors do not"
        elif factors.name.endswith(_FREQS):
            grown = _without_padding(values)
            at = next((i for i, (a, b) in enumerate(pairwise(grown)) if b < a), None)
            if at is not None:
                reason = f"factor {at + 1} is {grown[at + 1]:g}, less than the {grown[at]:g} before it"
            elif values[0] != 1:
                reason = f"the first factor is {values[0]:g}, and no scaling changes the fastest pair"
        if reason:
            yield rope_factors_odd.at(factors.span, name=factors.name, reason=TrustedText(reason))


def _scaling(subject: LintContext) -> tuple[str, Span] | None:
    """Return the type of the scaling, and its place."""
    found = architecture_view(subject).keys.of_prefix("rope.scaling.type")
    return (found[0], found[1]) if found is not None and isinstance(found[0], str) else None


def with_two_sets(subject: LintContext) -> bool:
    """models with factors for long and short contexts, or that say so"""
    if not architecture_view(subject).holds_model or architecture_view(subject).in_parts:
        return False
    scaling = _scaling(subject)
    return bool(_rows(subject).keys() & {_LONG, _SHORT}) or (scaling is not None and scaling[0] == "longrope")


@rule("M035", "rope-factors-missing", "{name} is missing: {reason}", severity=WARNING, clause="3.4",
      when=with_two_sets)  # fmt: skip
def rope_factors_missing(subject: LintContext) -> Iterator[Finding]:
    """The factors for long or for short contexts are missing.

    Why: programs choose one of two sets of factors by the length of the context. Without it they rotate by plain
    frequencies, and report nothing.

    Example: rope.scaling.type = longrope without rope_factors_long.weight.

    Fix: convert the model again; both sets are in the config.json of the checkpoint.
    """
    rows = _rows(subject)
    missing = [name for name in (_LONG, _SHORT) if name not in rows]
    if missing:
        both = len(missing) == 2
        reason = "rope.scaling.type is longrope" if both else "the file has the other set"
        yield rope_factors_missing.at(TENSOR_COUNT_SPAN, name=missing[0], reason=TrustedText(reason))


def with_original_length(subject: LintContext) -> bool:
    """models whose scaling depends on the original length of the context"""
    if not architecture_view(subject).holds_model:
        return False
    scaling = _scaling(subject)
    return (scaling is not None and scaling[0] in ("yarn", "longrope")) or _LONG in _rows(subject)


@rule("M036", "original-length-missing", "rope.scaling.original_context_length is missing: loaders take context_length, "
      "{got}", severity=WARNING, clause="3.4", when=with_original_length)  # fmt: skip
def original_length_missing(subject: LintContext) -> Iterator[Finding]:
    """The scaling needs the original length of the context, which the file does not state.

    Why: YaRN changes frequencies by how often they turn within the original length, and two sets of factors are told
    apart by it. Loaders take context_length in its place, which mostly is the extended length: other frequencies are
    changed than in training.

    Example: rope.scaling.type = yarn with a factor of 4 and no rope.scaling.original_context_length.

    Fix: write the length before the extension (original_max_position_embeddings in config.json).
    """
    known, scaling = architecture_view(subject), _scaling(subject)
    if known.keys.of_prefix("rope.scaling.original_context_length") is not None:
        return
    factor, length = (known.keys.of_prefix(name) for name in ("rope.scaling.factor", "context_length"))
    if scaling is not None and scaling[0] == "yarn" and factor is not None and factor[0] == 1:
        return  # nothing is scaled
    span = scaling[1] if scaling is not None else KEY_COUNT_SPAN
    got = length[0] if length is not None and isinstance(length[0], int) else TrustedText("which is missing too")
    yield original_length_missing.at(span, got=got)
