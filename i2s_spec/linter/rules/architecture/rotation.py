"""Rules about the Hadamard rotation that PrismML's models fold into their weights, and the keys that declare it."""

from collections.abc import Iterator
from typing import Final

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.rule import NOTE, WARNING, Finding, rule
from i2s_spec.schema.architectures.rotation import KEYS, PREFIX, Rotation, RotationError, declared
from i2s_spec.schema.checks import KEY_COUNT_SPAN
from i2s_spec.schema.types import BY_NAME

#: The numbers of the types in PrismML's own files; programs that know them also know the keys.
_OF_PRISM: Final = frozenset({BY_NAME["PQ2_0"].number, BY_NAME["PTQ1_0"].number})

#: Most elements of an array that is examined: published files have 28,672 signs.
_MOST: Final = 1 << 20


@analysis
def _places(subject: Subject) -> dict[str, int]:
    """The key-values of a file that declare a rotation, by their names without the prefix."""
    prefix = PREFIX.encode()
    return {
        name[len(prefix) :].decode("ascii", "replace"): i for i, name in subject.key_names() if name.startswith(prefix)
    }


def with_rotation_keys(subject: Subject) -> bool:
    """files with prism.hadamard keys"""
    return bool(_places(subject))


def with_rotated_types(subject: Subject) -> bool:
    """files with tensors of types 142 and 143"""
    return not _OF_PRISM.isdisjoint(subject.type_numbers)


def _declared(subject: Subject) -> Rotation | RotationError | None:
    """The declared rotation, or what is wrong with the keys; None if there are too many to examine."""
    metadata = subject.file.metadata
    try:
        found = {key.name: metadata[key.name] for key in KEYS if key.name in metadata}
    except FormatError:  # other rules report these
        return None
    if any(isinstance(value, list) and len(value) > _MOST for value in found.values()):
        return None
    try:
        return declared({PREFIX: None, **found})
    except RotationError as error:
        return error
    except TypeError:
        return RotationError("version", "or another key has a value of another type than it should")


@rule("M040", "rotation-keys", "prism.hadamard.{key} {why}: the rotation of the weights is unknown", clause="3.8",
      when=with_rotation_keys, provenance=("PrismML-Eng/llama.cpp#119", "PrismML-Eng/llama.cpp#120"))  # fmt: skip
def rotation_keys(subject: Subject) -> Iterator[Finding]:
    """The keys of a rotation are incomplete or invalid.

    Why: the weights are rotated, so the inputs of their products must be rotated too. PrismML's loader refuses the
    file; a loader that continues would compute noise. The block size is a power of two that divides every row. The
    signs are -1 and +1, as many for each width as it has elements, and the width of every folded weight is listed.

    Example: sign_mode explicit without sign_values, or a sign of 0.

    Fix: the file cannot be repaired. Convert the checkpoint again.
    """
    found, places = _declared(subject), _places(subject)
    if isinstance(found, Rotation):
        found = _misfit(subject, found)
    if isinstance(found, RotationError):
        at = places.get(found.key)
        span = KEY_COUNT_SPAN if at is None else subject.key_span(at)
        yield rotation_keys.at(span, got=found.key, key=TrustedText(found.key), why=TrustedText(found.why))


def _misfit(subject: Subject, rotation: Rotation) -> RotationError | None:
    """The first contradiction to the tensors of the file."""
    rows = {name.decode("utf-8", "replace"): i for i, name in subject.tensor_names()}
    for key, names in (("weight_names", rotation.weights), ("inverse_weight_names", rotation.tables)):
        for name in names:
            if name not in rows:
                return RotationError(key, "names a tensor that the file does not have")
            width = subject.file.index.tensor(rows[name]).ne[0]
            try:
                rotation.require_width(width)
                rotation.signs_of(width)
            except RotationError as error:
                return error
    return None


@rule("M041", "rotation-ignored", "{count} of {total} weights that are rotated according to prism.hadamard have "
      "types that programs load without checking these keys; the first is {name} of type {kind}: such programs "
      "compute something else", severity=WARNING,
      clause="3.8", when=with_rotation_keys,
      provenance=("ggml-org/llama.cpp#29058", "ggml-org/llama.cpp#29077"))  # fmt: skip
def rotation_ignored(subject: Subject) -> Iterator[Finding]:
    """Rotated weights have a type that programs without support for the rotation read.

    Why: only programs that know the keys read the types 142 and 143. Other programs read Q2_0 and similar types, too:
    llama.cpp, which closed the request for the rotation without merging it, loads such a file without a message, and
    the model writes nonsense.

    Example: prism.hadamard.* over tensors of type 42.

    Fix: run the file with PrismML's fork, or take a file whose weights are not rotated.
    """
    found = _declared(subject)
    if not isinstance(found, Rotation):
        return
    named = {name.encode() for name in (*found.weights, *found.tables)}
    rotated = [i for i, name in subject.tensor_names() if name in named]
    others = [i for i in rotated if subject.file.index.tensor(i).type not in _OF_PRISM]
    if others:
        first = subject.file.tensors.by_index(others[0])
        kind = first.type.name if first.type is not None else str(first.number)
        yield rotation_ignored.at(
            subject.info_span(others[0], "type"), got=first.number, count=len(others), total=len(rotated),
            name=first.raw_name, kind=TrustedText(kind),
        )  # fmt: skip


@rule("M042", "rotation-unsaid", "{count:tensor has|tensors have} type {got}, but no key declares how the rows "
      "are rotated: programs treat them as not rotated", severity=NOTE, clause="3.8",
      when=with_rotated_types,
      provenance=("PrismML-Eng/llama.cpp#242",))  # fmt: skip
def rotation_unsaid(subject: Subject) -> Iterator[Finding]:
    """Tensors have types that PrismML made for rotated weights, but no key declares a rotation.

    Why: the weights may not be rotated, as in files that llama-quantize makes of other models. But if they are rotated
    and the keys were lost, the file loads without an error and the model writes nonsense.

    Example: a tool copied a Bonsai 2 file and left out the keys that it does not know.

    Fix: compare the keys with those of the file that it was made from.
    """
    tensor = subject.file.index.tensor
    rows = [i for i in range(subject.file.index.tensors) if tensor(i).type in _OF_PRISM]
    if not _places(subject):
        span: Span = subject.info_span(rows[0], "type")
        yield rotation_unsaid.at(span, got=tensor(rows[0]).type, count=len(rows))
