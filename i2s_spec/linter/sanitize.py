"""Sanitized copies: `sanitize` writes a file anew from the parts that were understood, without everything else.

It keeps what the specification declares: known keys with known types, and tensors. It leaves out unknown keys, bytes
that no tensor owns (padding, gaps, bytes after the last tensor), bytes 4 to 31 of I2_S tails, control characters in
texts, chat templates with errors, and on request every chat template. Tokens are left unchanged: their text is part of
the model. The result has the standard layout of our writer, so the same file gives the same bytes everywhere. The
weights stay the same; their identity proves it.

First come the functions that find what is removed and what replaces it, then `sanitize` itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, cast

from i2s_spec.convert.rewrite import Replacement, Value, rewrite
from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.atomic_file import Target, refuse_inputs, refuse_taken
from i2s_spec.gguf.data_section import TensorBytes
from i2s_spec.gguf.reader import File, KeyValue, Tensor
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import Origin, chunks, require_written, source_of
from i2s_spec.gguf.split_set import TYPES
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.rule import Finding
from i2s_spec.linter.rules import all_rules
from i2s_spec.linter.rules.i2s_extent import form_of_a_writer
from i2s_spec.linter.rules.keys import odd_bool
from i2s_spec.linter.rules.model_keys import foreign_prefix, key_type
from i2s_spec.linter.rules.template import (
    is_template,
    read_texts,
    template_reaches_out,
    template_runs_long,
    text_not_read,
)
from i2s_spec.schema import faults, limits
from i2s_spec.schema.keys import REQUIRED
from i2s_spec.schema.types import I2_S, TAIL_BYTES, ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.writer import Progress


# --- what is left out, and what replaces it --------------------------------------------------------------------------

_ALIGNMENT: Final = "general.alignment"

#: Characters that control a terminal or the direction of text: C0 except tabs and line ends, DEL, C1, bidirectional marks.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

#: Longer texts are not searched for control characters but left out.
_LONGEST_TEXT: Final = 16 << 20

#: A longer array of booleans with an invalid one among them is refused.
_MOST_BOOLEANS: Final = 1 << 20


class Removed(NamedTuple):
    """Something that the sanitized file does not have: where it was, what it was, and its number of bytes."""

    span: Span
    what: str
    size: int


def refused(finding: Finding) -> FormatError:
    """Return a finding as the error with which a file is refused."""
    return FormatError(finding.rule.fault, finding.span, finding.got, finding.want, **finding.details)


class Keys(NamedTuple):
    """The changes to keys: which are dropped, and which get another value."""

    dropped: list[str]
    changed: dict[str, Value]


def keys_of(subject: LintContext, keep_unknown: bool, drop_template: bool, left_out: list[Removed]) -> Keys:
    """Return the changes to all keys; removed parts are added to `left_out`.

    :raises ValueError: for an architecture whose keys are not known, without `keep_unknown`
    :raises FormatError: M003 if a required key has another type than loaders ask for
    """
    known = architecture_view(subject)
    if known.architecture is None and not keep_unknown and known.name:
        raise ValueError(f"the keys of architecture {quote(known.name)} are not known; --keep-unknown keeps them")
    keys, hazards = Keys([], {}), _hazards(subject)
    for i, entry in enumerate(subject.file.metadata.rows):
        why = _unwanted(known, entry, keep_unknown, drop_template)
        if why is None and i in hazards:
            why = f"key {quote(entry.name)}, because of {hazards[i]}"
        if why is not None:
            keys.dropped.append(entry.key)
            left_out.append(Removed(entry.span, why, entry.span.stop - entry.span.start))
            continue
        value = _cleaned(subject.file, entry, left_out)
        if value is not None:
            keys.changed[entry.key] = value
    return keys


def _hazards(subject: LintContext) -> dict[int, str]:
    """Return the numbers of keys whose templates have errors, or could not be examined to their end, each with the
    rule.
    """
    texts = read_texts(subject)
    found = {text.i: text_not_read for text in texts.unread if text.is_template}
    rules = {"reach": template_reaches_out, "loop": template_runs_long}
    found.update((text.i, rules[hazard.kind]) for text, hazard in reversed(texts.hazards) if hazard.kind in rules)
    return {i: f"{rule.code} {rule.slug}" for i, rule in found.items()}


def _unwanted(known: ArchitectureView, entry: KeyValue, keep_unknown: bool, drop_template: bool) -> str | None:
    """Say why a key is left out; None for one that stays."""
    name = quote(entry.name)
    if not entry.name or not entry.name.isascii() or not entry.key.isprintable():
        return f"key {name}, because its name is empty or not printable"
    if len(entry.name) > limits.MAX_KEY_LENGTH:
        return f"key {name}, because its name is too long"
    if entry.key == _ALIGNMENT:
        return "key general.alignment: tensors are now aligned to 32 bytes"
    if drop_template and is_template(entry.name):
        return f"key {name}, as requested"
    key = known.keys.declared.get(entry.key)
    types = key.types if key is not None else (TYPES[entry.name].label,) if entry.name in TYPES else None
    if types is None:
        return None if keep_unknown else f"key {name}, which the specification does not know"
    if entry.label not in types:
        if key is not None and key.need == REQUIRED:
            start = entry.span.start + 8 + len(entry.name)
            span, got = Span(start, start + 4, f"{entry.span.path}.type"), TrustedText(f"a value of type {entry.label}")
            raise refused(key_type.at(span, got=got, want=TrustedText(" or ".join(types)), key=entry.name))
        return f"key {name}, of type {entry.label} instead of {' or '.join(types)}"
    size = entry.value_span.stop - entry.value_span.start
    if _is_text(entry) and size > _LONGEST_TEXT:
        return f"key {name}, a text of {counted(size, 'byte')}"
    return None


def _is_text(entry: KeyValue) -> bool:
    """Whether a value is text for people or programs; not for tokens, whose text is part of the model."""
    if entry.type == ValueType.ARRAY and entry.element == ValueType.STRING:
        return not entry.key.startswith("tokenizer.")
    return entry.type == ValueType.STRING


def _cleaned(file: File, entry: KeyValue, left_out: list[Removed]) -> Value | None:
    """Return the value that replaces that of a key: text without control characters, valid booleans."""
    if _is_text(entry):
        found = file.metadata.decode(entry)
        texts = [found] if isinstance(found, str) else found
        clean = [_plain(text) for text in texts]
        if clean == texts:
            return None
        lost = sum(len(text.encode("utf-8", "surrogateescape")) for text in texts) - sum(
            map(len, map(str.encode, clean))
        )
        left_out.append(Removed(entry.value_span, "control characters, or bytes that are not text", lost))
        if isinstance(found, str):
            return Value(ValueType.STRING, clean[0])
        return Value(ValueType.ARRAY, clean, ValueType.STRING)
    if ValueType.BOOL in (entry.type, entry.element):
        at = _scanner.first_odd_bool(file.source, entry.value_span.start, entry.count)
        if at >= 0 and entry.count > _MOST_BOOLEANS:
            raise refused(odd_bool.at(Span(at, at + 1, entry.value_span.path), key=entry.name, got=255, want=1))
        if at >= 0:
            left_out.append(Removed(entry.value_span, "booleans other than 0 and 1, which become 1", 0))
            value = file.metadata.decode(entry)
            return Value(ValueType(entry.type), value, ValueType.BOOL if entry.type == ValueType.ARRAY else None)
    return None


def _plain(text: str) -> str:
    return _CONTROLS.sub("", text).encode("utf-8", "surrogateescape").decode("utf-8", "ignore")


def names(file: File, left_out: list[Removed]) -> dict[str, str]:
    """Return printable names for tensors whose names are not printable."""
    names: dict[str, str] = {}
    for tensor in file.tensors.rows:
        if not tensor.name.isprintable():
            names[tensor.name] = "".join(char for char in tensor.name if char.isprintable())
            span = tensor.info_span
            span = Span(span.start + 8, span.start + 8 + len(tensor.raw_name), f"{span.path}.name")
            lost = len(tensor.raw_name) - len(names[tensor.name].encode())
            left_out.append(Removed(span, "unprintable characters of a name", lost))
    return names


def tails(file: File, left_out: list[Removed]) -> dict[str, Replacement]:
    """Return I2_S tensors whose tail holds more than the scale, with functions that give their bytes without the rest."""
    tails: dict[str, Replacement] = {}
    for tensor in file.tensors.rows:
        if tensor.type is I2_S and any(tensor.tail[4:]):
            tail = tensor.tail_span
            tails[tensor.name] = Replacement("I2_S", _without_rest(file, tensor))
            span = Span(tail.start + 4, tail.stop, f"{tail.path}.unused")
            left_out.append(Removed(span, "bytes after the scale, which mean nothing", TAIL_BYTES - 4))
    return tails


def _without_rest(file: File, tensor: Tensor) -> Callable[[], Iterator[bytes]]:
    def make() -> Iterator[bytes]:
        yield from chunks(file.source, tensor.span.start, tensor.tail_span.start + 4)
        yield bytes(TAIL_BYTES - 4)

    return make


def unowned(file: File) -> Iterator[Removed]:
    """Yield byte ranges after the tensor infos that belong to no tensor and are not all zeros."""
    assert file.infos_end is not None
    end = file.infos_end
    for start, stop, _ in (*sorted(tensor.span for tensor in file.tensors.rows), Span(file.size, file.size)):
        if end < start and _scanner.first_nonzero(file.source, end, start) >= 0:
            path = "trailing" if start == file.size else "padding"
            yield Removed(Span(end, start, path), "bytes that no tensor owns", start - end)
        end = stop  # in a file that is understood, tensors do not share bytes


# --- the copy --------------------------------------------------------------------------------------------------------


class Sanitized(NamedTuple):
    """The result: what was left out, how many keys and tensors are kept, and the identity of the weights.

    `renamed` tensors got a new name; only this changes the identity.
    """

    path: str
    left_out: tuple[Removed, ...]
    keys: int
    tensors: int
    renamed: int
    weights: str
    size_before: int
    size: int
    written: bool


def sanitize(
    origin: Origin,
    target: Target | None = None,
    *,
    keep_unknown: bool = False,
    drop_template: bool = False,
    force: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Sanitized:
    """Write a copy with only the known parts of a file.

    :param origin: a path, a buffer, a seekable stream or a `Source`
    :param target: a path, or a binary stream; without it nothing is written
    :param keep_unknown: keep keys that the specification does not know, if they have printable names
    :param drop_template: remove the chat template, which is a program
    :param force: replace an existing file, but never the one that is read
    :param threads: how many threads decode tensors for the proof
    :param progress: called now and then with (bytes done, bytes to do), for each of several stages
    :returns: the removed parts, and the proof
    :raises FormatError: if the file cannot be read or understood: the linter's finding
    :raises ValueError: for an architecture whose keys are not known, without `keep_unknown`; for a target that is the
        origin, for a file that consists of holes, and for bytes beside tensors that may be weights
    :raises FileExistsError, OSError: as `OutputFile` does; then the target is as it was
    """
    source = source_of(origin)
    path = os.fspath(origin) if isinstance(origin, str | os.PathLike) else None
    try:
        if target is not None:
            try:
                refuse_inputs(target, source)
            except FileExistsError:
                raise ValueError("OUT is the file that is read; give the sanitized file another name") from None
            if isinstance(target, str | os.PathLike):
                refuse_taken(target, force)
        file = File(source)
        subject = LintContext(file, path)
        _require_understood(subject, keep_unknown)
        require_written(source)
        return _rewritten(subject, target, keep_unknown, drop_template, force, threads, progress)
    finally:
        if path is not None:
            source.close()


def _require_understood(subject: LintContext, keep_unknown: bool) -> None:
    """Refuse a file with a part that is not understood.

    If the keys of a model had another architecture's prefix, they would be left out as unknown, and nobody could repair
    that. I2_S tensors without tails, whose scales are elsewhere, have no form in which they could be written.
    """
    unusable = (error for error in subject.file.passed if error.fault in faults.ALIGNMENTS)
    fault = subject.file.fault or next(unusable, None)
    if fault is not None:
        raise fault
    needed = [rule for rule in all_rules() if rule.ambiguous]
    for rule in needed if keep_unknown else (*needed, foreign_prefix):
        for finding in rule.check(subject) if rule.check is not None else ():
            raise refused(finding)
    for finding in form_of_a_writer.findings(subject) if subject.lacks_tails else ():
        raise refused(finding)


def _rewritten(
    subject: LintContext,
    target: Target | None,
    keep_unknown: bool,
    drop_template: bool,
    force: bool,
    threads: int,
    progress: Progress | None,
) -> Sanitized:
    from i2s_spec.compare.hash import weights_digest

    file = subject.file
    left_out: list[Removed] = []
    keys = keys_of(subject, keep_unknown, drop_template, left_out)
    new_names = names(file, left_out)
    new_tails = tails(file, left_out)
    left_out += _without_weights(subject, unowned(file))
    weights = weights_digest(file, threads=threads, progress=progress)
    size = rewrite(
        file, _Nowhere.made() if target is None else target, set=keys.changed, drop_keys=keys.dropped, alignment=32,
        rename_tensors=new_names, replace=new_tails, force=force, progress=progress,
    )  # fmt: skip
    if isinstance(target, str | os.PathLike):
        _prove(target, weights if not new_names else None, threads, progress)
    left_out.sort(key=lambda each: each.span)
    return Sanitized(
        path=subject.path if subject.path is not None else file.name,
        left_out=tuple(left_out),
        keys=len(file.metadata) - len(keys.dropped),
        tensors=file.index.tensors,
        renamed=len(new_names),
        weights=weights,
        size_before=file.size,
        size=size,
        written=target is not None,
    )


def _without_weights(subject: LintContext, ranges: Iterable[Removed]) -> Iterator[Removed]:
    """Yield ranges that belong to no tensor under any known meaning of a type number, wherever the data section may
    begin.

    :raises ValueError: for one that may hold weights
    """
    held: TensorBytes | None = None
    for each in ranges:
        held = held or TensorBytes(subject.file.tensors, subject.file.data_section.possible_starts)
        if (why := held.why_not(*each.span[:2])) is not None:
            where = f"{counted(each.size, 'byte')} at 0x{each.span.start:x}"
            raise ValueError(f"{where} would be left out and may be weights: {why}")
        yield each


def _prove(target: str | os.PathLike[str], wanted: str | None, threads: int, progress: Progress | None) -> None:
    """Check that the written file has the same weights and is complete."""
    from i2s_spec.compare.hash import weights_digest

    with open_file(target) as file:
        found = weights_digest(file, threads=threads, progress=progress)
    if wanted is not None and found != wanted:
        os.unlink(target)
        raise RuntimeError("the sanitized file has other weights; it was removed")


class _Nowhere:
    """A stream that discards everything."""

    @staticmethod
    def made() -> BinaryIO:
        return cast(BinaryIO, _Nowhere())

    def write(self, data: Any) -> int:
        return len(data)
