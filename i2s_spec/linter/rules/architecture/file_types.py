"""Rules about numbers that mean different things in different forks."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from i2s_spec.errors import Span, TrustedText
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view
from i2s_spec.linter.analysis.conditions import declared_models
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.schema.architectures import keys
from i2s_spec.schema.architectures.inventory import TERNARY_TYPES

_FILE_TYPE: Final = "general.file_type"

#: File types that only give the width of most floats; in these files, tensors of another float type are common.
_MIXED: Final = frozenset({0, 1, 32})


def _commonest(known: ArchitectureView) -> tuple[str, int, int] | None:
    """The most common type of the projections, the number of projections with it, and the number of all."""
    counts = Counter(row.type for row in known.projections() if row.type)
    if not counts:
        return None
    name = max(counts, key=counts.__getitem__)  # the first of equals
    return name, counts[name], sum(counts.values())


def _stated(known: ArchitectureView) -> tuple[int, Span] | None:
    """`general.file_type` and its position; None if it is missing, or a rule on types reports it."""
    value = known.keys.value(_FILE_TYPE)
    return (value, known.keys.value_span(_FILE_TYPE)) if isinstance(value, int) else None


def _unusual(known: ArchitectureView) -> bool:
    """Whether file type and projections are known, and are no usual pair."""
    stated, common = _stated(known), _commonest(known)
    return stated is not None and common is not None and (stated[0], common[0]) not in keys.USUAL_FILE_TYPES


def of_ambiguous_number(subject: Subject) -> bool:
    """models whose file_type means different things to different forks"""
    known = architecture_view(subject)
    stated = _stated(known) if known.is_declared and _unusual(known) else None
    if stated is None:
        return False
    from i2s_spec.schema import numbers

    return len(numbers.file_types(stated[0])) > 1


@rule("M030", "file-type-contents", "general.file_type is {got} ({meaning}), and {count} of {total} projections are {kind}: "
      "{want}", severity=WARNING, clause="3.1", fix=Fix.SAFE, when=declared_models,
      provenance=("microsoft/BitNet#621", "microsoft/BitNet#620"))  # fmt: skip
def file_type_contents(subject: Subject) -> Iterator[Finding]:
    """general.file_type names another type than most projections have.

    Why: loaders only print the number, but people and programs choose files by it. BitNet's converter writes 40
    although the tensors are F16 when it fails to quantize a Llama model: 14.9 GB instead of 2.7 GB. The same number
    means different types in different forks; the message lists the meanings.

    Example: 40 in a file whose projections are F16.

    Fix: write the number of the type that most projections have, and find out why they have this type.
    """
    known = architecture_view(subject)
    stated, common = _stated(known), _commonest(known)
    if stated is None or common is None or (stated[0], common[0]) in keys.USUAL_FILE_TYPES:
        return
    from i2s_spec.schema import numbers

    value, span = stated
    kind, count, total = common
    if (
        not any(kind in meaning.tensors for each in numbers.FILE_TYPES.values() for meaning in each)
        and kind in TERNARY_TYPES
    ):
        return  # no file_type is known for it
    meanings = numbers.file_types(value)
    ternary = any(row.is_ternary for row in known.projections())
    fits = any(kind in meaning.tensors for meaning in meanings)
    concerns = ternary or any("I2_S" in meaning.tensors for meaning in meanings)
    if fits or not concerns or (value in _MIXED and not ternary):
        return
    number = next((n for n, m in numbers.FILE_TYPES.items() if kind in m[0].tensors), None)
    number = number if number is not None else next((n for n, name in keys.FILE_TYPES.items() if name == kind), None)
    want = TrustedText(f"{kind} is {number}" if number is not None else f"there is no number for {kind}")
    yield file_type_contents.at(
        span, got=value, want=want, meaning=TrustedText(numbers.file_type_words(value)), count=count, total=total,
        kind=TrustedText(kind),
    )  # fmt: skip


@rule("M031", "file-type-collision", "general.file_type is {got}: {meaning}; the tensors are {kind}", severity=NOTE,
      clause="3.1", when=of_ambiguous_number,
      provenance=("microsoft/BitNet#620",))  # fmt: skip
def file_type_collision(subject: Subject) -> Iterator[Finding]:
    """general.file_type is a number that several forks use for different types.

    Why: other programs display another type. No program computes anything from the number, so the only harm is
    confusion. The number 40 in I2_S files is not reported: every published I2_S file has it, and upstream displays Q1_0
    for all of them.

    Example: 39 in a TL2 file, which upstream llama.cpp calls NVFP4.

    Fix: the file needs no repair. Tell its users which fork wrote it.
    """
    known = architecture_view(subject)
    stated, common = _stated(known), _commonest(known)
    assert stated is not None
    assert common is not None
    from i2s_spec.schema import numbers

    value, span = stated
    if known.is_ternary and any(common[0] in meaning.tensors for meaning in numbers.file_types(value)):
        words = TrustedText(numbers.file_type_words(value))
        yield file_type_collision.at(span, got=value, meaning=words, kind=TrustedText(common[0]))
