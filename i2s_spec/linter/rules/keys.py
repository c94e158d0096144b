"""Rules about key-values: their names, then their types and values, and the alignment."""

import re
from collections.abc import Iterator

from i2s_spec.errors import Span, TrustedText
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.strings import is_utf8
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.rule import BYTES_MISSING, NO_DATA_START, NOTE, PLACE_UNKNOWN, WARNING, Finding, Fix, raised, rule
from i2s_spec.schema import faults, limits
from i2s_spec.schema.types import ValueType

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
#: Keys of a published convention, of c2pa-ml: a signed manifest in the file, which is not bound to its bytes.
_MANIFESTS = (b"c2pa:manifest", b"c2pa:manifest.uri")
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

    Why: the GGUF document limits keys to 65,535 bytes. Loaders of I2_S do not check this, so
    a longer key only fills memory; gguf-rs-lib refuses it.

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
def empty_key(subject: LintContext) -> Iterator[Finding]:
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
def duplicate_key(subject: LintContext) -> Iterator[Finding]:
    """A key occurs twice.

    Why: upstream refuses the file, the BitNet fork takes the first value, and JavaScript readers take the last. A
    scanner and a loader can therefore see different files.

    Example: two key-values 'general.architecture', 'llama' and 'bitnet-b1.58'.

    Fix: keep the intended value.
    """
    for i, name, count in subject.repeated(tensors=False):
        yield duplicate_key.at(subject.key_span(i), got=count, want=1, key=name)


@rule("G205", "key-not-ascii", "key {key} is not ASCII", clause="2.4", fix=Fix.UNSAFE, cwe=1007)
def key_not_ascii(subject: LintContext) -> Iterator[Finding]:
    """A key has characters beyond ASCII.

    Why: the GGUF document requires ASCII. With look-alike letters or invisible marks, two different keys look the same.

    Example: 'general.аrchitecture' with a Cyrillic first letter.

    Fix: write the key in ASCII.
    """
    for i, name in subject.odd_keys:
        if not name.isascii() and is_utf8(name):
            yield key_not_ascii.at(subject.key_span(i), key=name)


@rule("G206", "key-control-character", "key {key} contains a control character", clause="2.4",
      fix=Fix.UNSAFE, cwe=158)  # fmt: skip
def key_control_character(subject: LintContext) -> Iterator[Finding]:
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
def key_not_snake_case(subject: LintContext) -> Iterator[Finding]:
    """A key is not made of lower_snake_case segments.

    Why: the GGUF document asks for segments of lower-case letters, digits and underscores, joined by dots. Loaders do
    not check this. BitNet's own architecture names ('bitnet-b1.58') and the keys of signed manifests ('c2pa:manifest')
    break the rule; they are not reported.

    Example: 'General.Name'.

    Fix: rename the key if no program reads it under its current name.
    """
    for i, name in subject.odd_keys:
        if name and name.isascii() and not _CONTROL.search(name) and name not in _MANIFESTS:
            yield key_not_snake_case.at(subject.key_span(i), key=name)


@rule("G208", "key-look-alike", "keys {key} and {other} differ only in case or blanks", severity=WARNING, clause="2.4",
      fix=Fix.UNSAFE, cwe=178)  # fmt: skip
def key_look_alike(subject: LintContext) -> Iterator[Finding]:
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
def key_not_utf8(subject: LintContext) -> Iterator[Finding]:
    """A key is not valid UTF-8.

    Why: strings in a GGUF file are UTF-8, and keys are ASCII. Loaders written in C do not check this; others fail with
    an exception.

    Example: a key with the byte 0xFF.

    Fix: write the key in ASCII.
    """
    for i, name in subject.odd_keys:
        if not name.isascii() and not is_utf8(name):
            yield key_not_utf8.at(subject.key_span(i), key=name)


@rule("G216", "string-not-utf8", "key {key} has strings that are not valid UTF-8: {got}, the first is {what}",
      severity=WARNING, clause="2.4", cwe=176)  # fmt: skip
def string_not_utf8(subject: LintContext) -> Iterator[Finding]:
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


# --- types and values ------------------------------------------------------------------------------------------------

#: Bytes that are read at once to examine values of several keys.
_TOGETHER = 1 << 16

raised(
    faults.VALUE_TYPE_UNKNOWN,
    """A value has a type that does not exist.

    Why: the size of an unknown type is unknown, so nothing after the value can be located. Upstream refuses the file;
    the BitNet fork ends the process.

    Example: value type 99.

    Fix: use one of the types 0 to 12.
    """,
    clause="2.5",
    provenance=("llama.cpp tests/test-gguf.cpp KV_BAD_TYPE",),
    cwe=843,
    stops=PLACE_UNKNOWN,
)

raised(
    faults.ARRAY_TYPE_UNKNOWN,
    """An array has elements of a type that does not exist.

    Why: the size of an unknown type is unknown, so the end of the array cannot be located. Upstream refuses the file;
    the BitNet fork ends the process.

    Example: an array of element type 99.

    Fix: use one of the types 0 to 12.
    """,
    clause="2.5",
    cwe=843,
    stops=PLACE_UNKNOWN,
)

raised(
    faults.ARRAY_PAST_END,
    """An array has more elements than the rest of the file can hold.

    Why: the count is wrong, or the file was truncated. A reader that multiplies count and size can overflow; one that
    allocates or loops before it checks may never return.

    Example: an array of 2^63 bytes in a file of 64.

    Fix: write the number of elements that follow.
    """,
    clause="2.5",
    provenance=("CVE-2024-21825", "ggml-org/llama.cpp#27188"),
    cwe=835,
    stops=BYTES_MISSING,
)

raised(
    faults.ARRAY_TOO_DEEP,
    """Arrays are nested deeper than four levels.

    Why: the GGUF document allows nested arrays. In a few kilobytes, 20,000 levels overflow the stack of a recursive
    reader. No loader of I2_S accepts even two levels;
    candle, pmetal, ferrox and gguf-rs-lib read three.

    Example: an array of arrays, five levels deep.

    Fix: write flat arrays.
    """,
    clause="2.5",
    provenance=("huggingface/huggingface.js#2026",),
    cwe=674,
)

raised(
    faults.ALIGNMENT_TYPE,
    """general.alignment is not a u32.

    Why: loaders expect a u32 and refuse any other type; some end the process with an assertion.

    Example: general.alignment as an i32.

    Fix: write the value as a u32.
    """,
    clause="2.7",
    provenance=("ggml c2cdd2b2", "ggml-org/llama.cpp#26318", "llama.cpp tests/test-gguf.cpp KV_WRONG_TYPE_ALIGN"),
    cwe=617,
    fix=Fix.SAFE,
    stops=NO_DATA_START,
)

raised(
    faults.ALIGNMENT_ZERO,
    """general.alignment is 0.

    Why: readers divide by the alignment to find the data section. The BitNet fork and others crash at this division.

    Example: general.alignment = 0.

    Fix: write the alignment that the offsets were computed with, or remove the key if that is 32.
    """,
    clause="2.7",
    provenance=("CVE-2025-0317", "antirez/gguf-tools#28"),
    cwe=369,
    fix=Fix.UNSAFE,
    stops=NO_DATA_START,
)

raised(
    faults.ALIGNMENT_NOT_POWER_OF_TWO,
    """general.alignment is not a power of two.

    Why: the GGUF document requires only a multiple of 8, but loaders round with bit masks. Upstream refuses the file;
    the BitNet fork computes wrong positions.

    Example: general.alignment = 24.

    Fix: lay the tensors out again with an alignment of 32.
    """,
    clause="2.7",
    provenance=("llama.cpp tests/test-gguf.cpp KV_BAD_ALIGN", "ggml-org/llama.cpp#24997"),
    fix=Fix.UNSAFE,
)


@rule("G211", "nested-array", "the value of key {key} is an array of arrays, which no loader of I2_S accepts", clause="2.5",
      cwe=674)  # fmt: skip
def nested_array(subject: LintContext) -> Iterator[Finding]:
    """A value is an array of arrays.

    Why: the GGUF document allows it, but no loader of I2_S accepts it: upstream reports an invalid type, and the BitNet fork
    and ik_llama.cpp end the process.

    Example: a key of type array with element type 9.

    Fix: write a flat array and its shape.
    """
    for i in subject.file.index.keys_of(ValueType.ARRAY):
        entry = subject.file.index.key(i)
        if entry.element == ValueType.ARRAY:
            yield nested_array.at(entry.element_span, got=entry.element, key=entry.name)


@rule("G215", "odd-bool", "a boolean of key {key} is {got}; only 0 and 1 are defined", severity=WARNING, clause="2.5",
      fix=Fix.SAFE)  # fmt: skip
def odd_bool(subject: LintContext) -> Iterator[Finding]:
    """A boolean is neither 0 nor 1.

    Why: loaders in C take any other byte as true. Readers in languages with a strict boolean type may behave otherwise.

    Example: tokenizer.ggml.add_bos_token = 2.

    Fix: write 1.
    """
    source, index = subject.file.source, subject.file.index
    window, base, end = b"", 0, index.infos_end or source.size
    for i in index.keys_of(ValueType.BOOL):
        entry = index.key(i)
        start, stop = entry.value_start, entry.value_start + entry.count
        if entry.count > _TOGETHER:
            at = _scanner.first_odd_bool(source, start, entry.count)
        else:  # many keys may have one each: one read for each would dominate the time
            if not base <= start <= stop <= base + len(window):
                base, window = start, source.read(start, max(stop, min(start + _TOGETHER, end)) - start)
            rest = window[start - base : stop - base].lstrip(b"\0\1")
            at = stop - len(rest) if rest else -1
        if at >= 0:
            got = source.read(at, 1)[0]
            yield odd_bool.at(Span(at, at + 1, f"key_values[{i}].value"), got=got, want=1, key=entry.name)


@rule("G220", "alignment-not-multiple-of-eight", "general.alignment is {got}; it must be a multiple of 8", clause="2.7",
      fix=Fix.UNSAFE)  # fmt: skip
def alignment_not_multiple_of_eight(subject: LintContext) -> Iterator[Finding]:
    """general.alignment is 1, 2 or 4.

    Why: the GGUF document requires a multiple of 8. llama.cpp and its relatives accept any power of two,
    but readers that access 64-bit numbers in place fail.

    Example: general.alignment = 4.

    Fix: lay the tensors out again with an alignment of 32.
    """
    i = subject.file.index.alignment_key
    alignment = subject.file.alignment
    if i is not None and alignment is not None and alignment % 8:
        yield alignment_not_multiple_of_eight.at(subject.file.index.key(i).value_span, got=alignment, want=8)


@rule("G222", "alignment-not-honoured", "{stated}, but the tensors are laid out with an alignment of {want}{shift}",
      clause="2.7", fix=Fix.UNSAFE, ambiguous=True)  # fmt: skip
def alignment_not_honoured(subject: LintContext) -> Iterator[Finding]:
    """The tensors are laid out with another alignment than the header states.

    Why: llama-quantize and candle copy the key from their input but still pad to 32 bytes; others pad to 64 and write no
    key, which means 32. Readers then compute another start of the data section than the writer, or another place of a
    tensor: they refuse the file, or read weights that are moved by some bytes. The rule looks at the offsets, at the end
    of the file, and at the bytes where tensors meet: it takes the place where they make sense.

    Example: a file with general.alignment = 64 that was quantized to I2_S.

    Fix: state the alignment that was used, or move the data to where the header puts it.
    """
    file, shift = subject.file, subject.shift
    alignment = file.alignment or limits.DEFAULT_ALIGNMENT
    if not subject.ignores_alignment or alignment % 8:  # another rule reports the value
        return
    i = file.index.alignment_key
    stated = f"general.alignment is {alignment:,}"
    if i is not None:
        span = file.index.key(i).value_span
    else:
        stated = f"general.alignment is missing, which means {alignment:,}"
        start, stop = file.infos_end or 0, min(file.size, shift.stated if shift is not None else 0)
        span = (
            Span(start, stop, "padding")
            if shift is not None
            else subject.info_span(subject.placements[0].row, "offset")
        )
    yield alignment_not_honoured.at(
        span, got=alignment, want=subject.effective_alignment, stated=TrustedText(stated),
        shift=TrustedText("" if shift is None else f": all lie {shift.words}"),
    )  # fmt: skip
