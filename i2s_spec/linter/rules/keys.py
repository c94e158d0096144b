"""Rules about the names of key-values."""

import re
from collections.abc import Iterator

from i2s_spec.errors import Span, TrustedText
from i2s_spec.gguf import _scanner
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import BYTES_MISSING, NOTE, WARNING, Finding, Fix, raised, rule
from i2s_spec.schema import faults, limits
from i2s_spec.schema.types import ValueType

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_STRING, _ARRAY = int(ValueType.STRING), int(ValueType.ARRAY)


def _length_span(start: int, i: int) -> Span:
    return Span(start, start + 8, f"key_values[{i}].key.length")


raised(
    faults.METADATA_TRUNCATED,
    """The file ends inside its metadata.

    Why: the file has fewer key-values than the header counts, or it was truncated. Nothing after the last complete
    key-value can be located.

    Example: a download that stopped after 100 kB.

    Fix: fetch the file again; if it is complete, write the right count.
    """,
    clause="2.4",
    provenance=("CVE-2024-41130",),
    cwe=125,
    stops=BYTES_MISSING,
)

raised(
    faults.KEY_TOO_LONG,
    """A key is longer than 65,535 bytes.

    Why: the GGUF document limits keys to 65,535 bytes. No loader checks this, so a longer key only fills memory.

    Example: a key of 70,000 times 'a'.

    Fix: shorten the key; long text belongs into the value.
    """,
    clause="2.4",
    provenance=("llama.cpp tests/test-gguf.cpp KV_BAD_KEY_SIZE",),
    cwe=770,
)

raised(
    faults.STRING_PAST_END,
    """A string is longer than the rest of the file.

    Why: the length is wrong, or bytes before it are missing or inserted, so that other bytes are read as a length. A
    reader that adds 1 for a NUL overflows at 2^64 - 1; one that allocates before it checks can be made to allocate any
    amount.

    Example: a key length of 2^63.

    Fix: write the string's length in bytes as a u64.
    """,
    clause="2.4",
    provenance=("CVE-2024-23496", "CVE-2024-12055", "CVE-2025-0315", "CVE-2025-66959", "ggml-org/llama.cpp#19856"),
    cwe=125,
    stops=BYTES_MISSING,
)


@rule("G202", "empty-key", "key-value {index} has an empty key", clause="2.4", fix=Fix.UNSAFE,
      provenance=("ggml 64b07822", "llama.cpp tests/test-gguf.cpp KV_EMPTY_KEY"))  # fmt: skip
def empty_key(subject: Subject) -> Iterator[Finding]:
    """A key is empty.

    Why: upstream has refused such files since July 2026. Older loaders accept them but cannot look the value up.

    Example: a key-value that begins with a length of 0.

    Fix: name the key, or remove the key-value.
    """
    for i, name in subject.odd_keys:
        if not name:
            start = subject.file.index.key(i).start
            yield empty_key.at(_length_span(start, i), got=0, index=i)


@rule("G203", "duplicate-key", "key {key} is given {got:time}; loaders disagree about which value counts", clause="2.4",
      fix=Fix.UNSAFE, cwe=694,
      provenance=("ggml 41c67eea", "llama.cpp tests/test-gguf.cpp KV_DUPLICATE_KEY"), ambiguous=True)  # fmt: skip
def duplicate_key(subject: Subject) -> Iterator[Finding]:
    """A key occurs twice.

    Why: upstream refuses the file, the BitNet fork takes the first value, and JavaScript readers take the last. A
    scanner and a loader can therefore see different files.

    Example: two key-values 'general.architecture', 'llama' and 'bitnet-b1.58'.

    Fix: keep the intended value.
    """
    if subject.file.index.all_differ(tensors=False):
        return
    counts: dict[bytes, int] = {}
    for _, name in subject.key_names():
        counts[name] = counts.get(name, 0) + 1
    twice = {name for name, count in counts.items() if count > 1}
    if not twice:
        return
    met: set[bytes] = set()
    for i, name in subject.key_names():
        if name in twice and name in met:
            twice.discard(name)  # one finding for each key, at its second occurrence
            yield duplicate_key.at(subject.key_span(i), got=counts[name], want=1, key=name)
        met.add(name)


@rule("G205", "key-not-ascii", "key {key} is not ASCII", clause="2.4", fix=Fix.UNSAFE, cwe=1007)
def key_not_ascii(subject: Subject) -> Iterator[Finding]:
    """A key has characters beyond ASCII.

    Why: the GGUF document requires ASCII. With look-alike letters or invisible marks, two different keys look the same.

    Example: 'general.аrchitecture' with a Cyrillic first letter.

    Fix: write the key in ASCII.
    """
    for i, name in subject.odd_keys:
        if not name.isascii() and _is_utf8(name):
            yield key_not_ascii.at(subject.key_span(i), key=name)


def _is_utf8(name: bytes) -> bool:
    from i2s_spec.gguf.string_arrays import is_utf8  # few files have unusual names

    return is_utf8(name)


@rule("G206", "key-control-character", "key {key} contains a control character", clause="2.4",
      fix=Fix.UNSAFE, cwe=158)  # fmt: skip
def key_control_character(subject: Subject) -> Iterator[Finding]:
    """A key contains NUL or another control character.

    Why: C code compares keys up to the first NUL, so it takes two different keys for one. Other control characters act
    on the terminal that prints the key.

    Example: 'general.name\\x00.hidden'.

    Fix: remove the characters.
    """
    for i, name in subject.odd_keys:
        if _CONTROL.search(name):
            yield key_control_character.at(subject.key_span(i), key=name)


@rule("G207", "key-not-snake-case", "key {key} is not made of lower_snake_case segments", severity=NOTE,
      clause="2.4")  # fmt: skip
def key_not_snake_case(subject: Subject) -> Iterator[Finding]:
    """A key is not made of lower_snake_case segments.

    Why: the GGUF document asks for segments of lower-case letters, digits and underscores, joined by dots. Loaders do
    not check this. BitNet's own architecture names ('bitnet-b1.58') break the rule; they are not reported.

    Example: 'General.Name'.

    Fix: rename the key if no program reads it under its current name.
    """
    for i, name in subject.odd_keys:
        if name and name.isascii() and not _CONTROL.search(name):
            yield key_not_snake_case.at(subject.key_span(i), key=name)


@rule("G208", "key-look-alike", "keys {key} and {other} differ only in case or blanks", severity=WARNING, clause="2.4",
      fix=Fix.UNSAFE, cwe=178)  # fmt: skip
def key_look_alike(subject: Subject) -> Iterator[Finding]:
    """Two keys differ only in case, blanks or what follows a NUL.

    Why: a reader that ignores case, trims blanks or stops at a NUL sees one key; another reader sees two.

    Example: 'general.name' and 'General.Name'.

    Fix: keep the intended key.
    """
    if subject.file.index.keys > limits.MANY_KEYS:
        return
    met: dict[bytes, bytes] = {}
    for i, name in subject.key_names():
        folded = name.partition(b"\0")[0].strip().lower()
        other = met.setdefault(folded, name)
        if other != name and folded:
            yield key_look_alike.at(subject.key_span(i), got=name, want=other, key=name, other=other)


@rule("G221", "key-not-utf8", "key {key} is not valid UTF-8", clause="2.4", fix=Fix.UNSAFE, cwe=176)
def key_not_utf8(subject: Subject) -> Iterator[Finding]:
    """A key is not valid UTF-8.

    Why: strings in a GGUF file are UTF-8, and keys are ASCII. Loaders written in C do not check this; others fail with
    an exception.

    Example: a key with the byte 0xFF.

    Fix: write the key in ASCII.
    """
    for i, name in subject.odd_keys:
        if not name.isascii() and not _is_utf8(name):
            yield key_not_utf8.at(subject.key_span(i), key=name)


@rule("G216", "string-not-utf8", "key {key} has strings that are not valid UTF-8: {got}, the first is {what}",
      severity=WARNING, clause="2.4", cwe=176)  # fmt: skip
def string_not_utf8(subject: Subject) -> Iterator[Finding]:
    """A string value is not valid UTF-8.

    Why: strings in a GGUF file are UTF-8. Loaders written in C pass the bytes on; others fail when they decode them.

    Example: a token that contains half of a multi-byte character.

    Fix: write the text as UTF-8. A byte-level vocabulary represents single bytes by printable characters.
    """
    file = subject.file
    singles: list[tuple[int, int, int]] = []
    sound = architecture_view(subject).sound_arrays
    for i in file.index.keys_of(_STRING):
        entry = file.index.key(i)
        start, stop = entry.value_start, entry.stop
        if entry.type == _STRING:
            singles.append((i, start, stop - start))
        elif entry.type == _ARRAY and entry.element == _STRING and i not in sound:
            bad, first = _scanner.invalid_utf8_in_array(file.source, start, stop, entry.count, file.byte_order == "big")
            if first is not None:
                span = Span(first[1], first[2], f"key_values[{i}].value.items[{first[0]}]")
                yield string_not_utf8.at(
                    span, got=bad, want=0, key=entry.name, what=TrustedText(f"element {first[0]:,}")
                )
    for position in _scanner.invalid_utf8(file.source, [single[1:] for single in singles]):
        i, start, length = singles[position]
        span = Span(start, start + length, f"key_values[{i}].value")
        yield string_not_utf8.at(span, got=1, want=0, key=file.index.key(i).name, what=TrustedText("the value itself"))
