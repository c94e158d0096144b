"""Arrays of strings, examined without decoding: what is empty, repeated, too long, or not as it should be.

A vocabulary has 128,256 tokens and 280,147 merges; as Python strings they would take longer to make than all other
rules of the linter take. `examine` walks over their bytes once, `examine_definition` says on a list what it finds.

    >>> seen = examine_definition([b"a", b"b c", b"", b"a"], [b"b c"])
    >>> seen.empty, seen.first_empty, seen.same, seen.found
    (1, 2, (0, 3), (1,))

`utf8_damage` tells that a whole file went through a text decoder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf import _strings
from i2s_spec.gguf.source import Source
from i2s_spec.schema import faults
from i2s_spec.schema.faults import MAGIC

#: Strings that are compared with each other; no vocabulary has as many. The table takes 8 to 16 bytes for each.
COMPARED: Final = 1 << 20

#: Strings longer than this are measured and not examined: no token is as long.
LONGEST: Final = 1 << 16

#: Odd byte tokens that are kept.
CACHED: Final = 16

#: Markers, strings of the form `<|...|>`, that are kept, and bytes of the longest of them: all of a vocabulary.
MARKED: Final = 1024
LONGEST_MARKER: Final = 64

_PART: Final = 1 << 18
#: Strings with equal hashes that are compared byte for byte; of different ones there is hardly a single pair.
_CONFIRMED: Final = 8


class Strings(NamedTuple):
    """What was seen in an array of strings; places are indices, -1 where there is none.

    `same` are the first string, not an empty one, that occurs a second time and where it does, as far as they were
    compared. `odd_pairs` counts those that are not two texts joined by one space; `numbered` those that only fill up a
    vocabulary, as `[PAD7]` and `<dummy7>`; `byte_forms` are the first ones that begin like a byte token, `<0x`, and are
    none. `found` has a place for each text that was looked for. `markers` counts strings of the form `<|...|>`, and `marked`
    has the first place of each of the first ones. `is_utf8` says that every string is valid UTF-8; it is
    False as well where there are strings that were not examined.
    """

    total: int
    empty: int
    first_empty: int
    longest: int
    longest_at: int
    same: tuple[int, int] | None
    odd_pairs: int
    first_odd_pair: int
    numbered: int
    first_numbered: int
    byte_forms: tuple[int, ...]
    found: tuple[int, ...]
    markers: int
    marked: dict[bytes, int]
    is_utf8: bool


def examine(
    source: Source,
    start: int,
    stop: int,
    count: int,
    big: bool,
    texts: Sequence[bytes] = (),
    compared: int = COMPARED,
) -> Strings:
    """Look at an array of `count` strings between two places of a file, in one pass and with bounded memory.

    :param start: where its first string begins, with its length
    :param texts: what else is looked for: strings of the array that are equal to them, at most 64
    :param compared: how many strings, from the first one on, are compared with each other
    :raises FormatError: where the file no longer holds what was indexed
    """
    walk = _strings.Walk(start, count, big, _seed(), compared, list(texts), CACHED, MARKED)
    same: tuple[int, int] | None = None
    confirmed = 0
    for part in _parts(source, walk, count, stop):
        for second, second_at in walk.feed(part, LONGEST):
            if same is None and confirmed < _CONFIRMED:
                confirmed += 1
                first = _first(source, start, stop, big, second, _text(source, second_at, stop, big))
                same = (first, second) if first >= 0 else None
    return Strings(
        count, walk.empty, walk.first_empty, max(walk.longest, 0), walk.longest_at, same, walk.odd_pairs,
        walk.first_odd_pair, walk.numbered, walk.first_numbered, tuple(walk.byte_forms), tuple(walk.needles),
        walk.markers, walk.marked, walk.is_utf8,
    )  # fmt: skip


def _seed() -> tuple[int, int]:
    seed = tuple(numbers("Q", os.urandom(16), sys.byteorder))
    return seed[0], seed[1] | 1


def _parts(source: Source, walk: _strings.Walk | _strings.Merges, count: int, stop: int) -> Iterator[memoryview]:
    """Yield the parts of an array of strings, each from where a walk is, until it has passed `count` strings.

    :raises FormatError: if the walk does not advance, or leaves the array
    """
    buffer = None
    while walk.index < count:
        at = walk.position
        if stop - at < 8:
            raise _changed(at, stop)
        # One string of at most LONGEST bytes fits into each part whole.
        size = min(_PART + LONGEST, stop - at)
        view = source.view
        if view is not None:
            yield view[at : at + size]
        else:
            buffer = buffer if buffer is not None else bytearray(size)
            part = memoryview(buffer)[:size]
            source.readinto(at, part)
            yield part
        if walk.position == at or walk.position > stop:
            raise _changed(at, stop)


def examine_definition(strings: Sequence[bytes], texts: Sequence[bytes] = (), compared: int = COMPARED) -> Strings:
    """Return what `examine` finds in an array, defined on a list."""

    def places(holds: list[bool]) -> tuple[int, int]:
        return sum(holds), holds.index(True) if any(holds) else -1

    short = [string if len(string) <= LONGEST else None for string in strings]
    empty, first_empty = places([string == b"" for string in strings])
    odd_pairs, first_odd_pair = places([string is None or not _is_pair(string) for string in short])
    numbered, first_numbered = places([string is not None and _is_numbered(string) for string in short])
    lengths = [len(string) for string in strings]
    longest = max(lengths, default=0)
    met: dict[bytes, int] = {}
    same = None
    for i, string in enumerate(short[:compared]):
        if string and met.setdefault(string, i) != i and same is None:
            same = (met[string], i)
    forms = [i for i, string in enumerate(short) if string and string[:3] == b"<0x" and not _is_byte(string)]
    forms = [i for i in forms if len(strings[i]) > 3]
    found = tuple(short.index(text) if text in short else -1 for text in texts)
    markers = [(string, i) for i, string in enumerate(short) if string is not None and _is_marker(string)]
    marked: dict[bytes, int] = {}
    for string, i in markers:
        if len(string) <= LONGEST_MARKER and len(marked) < MARKED:
            marked.setdefault(string, i)
    return Strings(
        len(strings), empty, first_empty, longest, lengths.index(longest) if lengths else -1, same, odd_pairs,
        first_odd_pair, numbered, first_numbered, tuple(forms[:CACHED]), found, len(markers), marked,
        all(string is not None and is_utf8(string) for string in short),
    )  # fmt: skip


def _is_pair(string: bytes) -> bool:
    left, space, right = string.partition(b" ")
    return bool(left and space and right) and b" " not in right


def is_utf8(string: bytes) -> bool:
    """Whether bytes are valid UTF-8, as Python has it."""
    try:
        string.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_numbered(string: bytes) -> bool:
    rest = next((string[len(start) :] for start in (b"[PAD", b"<dummy") if string.startswith(start)), b"")
    return rest[:1].isdigit()


def _is_marker(string: bytes) -> bool:
    return len(string) > 3 and string.startswith(b"<|") and string.endswith(b"|>")


def _is_byte(string: bytes) -> bool:
    digits = b"0123456789abcdefABCDEF"
    return len(string) == 6 and string[5:] == b">" and string[3] in digits and string[4] in digits


# --- merges ----------------------------------------------------------------------------------------------------------
# A merge joins two parts to a result. It is applicable if each part is a single character or the result of an earlier
# merge. Vocabularies that were made from tiktoken's list every split of a token, of which one is enough.


class MergeResults(NamedTuple):
    """How many different results the merges of a list have, how many of them no applicable merge makes, and the first
    merge with such a result, or -1."""

    results: int
    unmade: int
    first_unmade: int


def merge_results(source: Source, start: int, stop: int, count: int, big: bool) -> MergeResults:
    """Look at the merges of an array, at most the first `COMPARED`, in one pass and with bounded memory.

    :param start: where its first string begins, with its length
    :raises FormatError: where the file no longer holds what was indexed
    """
    count = min(count, COMPARED)
    walk = _strings.Merges(start, count, big, _seed())
    for part in _parts(source, walk, count, stop):
        walk.feed(part, LONGEST)
    unmade = walk.results - walk.made
    return MergeResults(walk.results, unmade, walk.first_unmade() if unmade else -1)


def merge_results_definition(merges: Sequence[bytes]) -> MergeResults:
    """Return what `merge_results` finds, defined on a list; strings other than two parts with one space are skipped."""
    firsts: dict[bytes, int] = {}
    made: set[bytes] = set()
    for i, merge in enumerate(merges[:COMPARED]):
        if len(merge) > LONGEST or not _is_pair(merge):
            continue
        parts = merge.split(b" ")
        applicable = all(_is_character(part) or part in firsts for part in parts)
        result = b"".join(parts)
        firsts.setdefault(result, i)
        if applicable:
            made.add(result)
    unmade = [i for result, i in firsts.items() if result not in made]
    return MergeResults(len(firsts), len(unmade), min(unmade, default=-1))


def _is_character(part: bytes) -> bool:
    """Whether bytes have the length that the first of them announces in UTF-8, or there is only one."""
    first = part[0]
    return len(part) == 1 or len(part) == (first >= 0xC0) + 1 + (first >= 0xE0) + (first >= 0xF0)


def _first(source: Source, start: int, stop: int, big: bool, count: int, text: bytes) -> int:
    """Which of the first `count` strings of an array is a text, or -1."""
    return examine(source, start, stop, count, big, [text], 0).found[0]


def span_of(source: Source, start: int, stop: int, big: bool, index: int) -> tuple[int, int]:
    """Where the text of one string of an array lies; the strings before it are passed over.

    :raises FormatError: where the file no longer holds what was indexed
    """
    walk = _strings.Walk(start, index, big, (0, 1), 0, [], 0)
    while walk.index < index:
        at = walk.position
        if stop - at < 8:
            raise _changed(at, stop)
        walk.feed(source.read(at, min(_PART + LONGEST, stop - at)), LONGEST)
        if walk.position == at:
            raise _changed(at, stop)
    start = walk.position
    if not 0 <= start <= stop - 8:
        raise _changed(stop, stop)
    length = int.from_bytes(source.read(start, 8), "big" if big else "little")
    return start + 8, min(start + 8 + length, stop)


def first_outside(source: Source, start: int, count: int, big: bool, least: int, most: int) -> int:
    """Return the index of the first of `count` 32-bit integers that is below `least` or above `most`, or -1."""
    done = 0
    while done < count:
        part = min(_PART // 4, count - done)
        at = _strings.first_outside(source.read(start + 4 * done, 4 * part), big, least, most)
        if at >= 0:
            return done + at
        done += part
    return -1


def count_equal(source: Source, start: int, count: int, big: bool, wanted: int) -> int:
    """How many of `count` 32-bit integers are `wanted`."""
    done = found = 0
    while done < count:
        part = min(_PART // 4, count - done)
        found += _strings.count_equal(source.read(start + 4 * done, 4 * part), big, wanted)
        done += part
    return found


def _text(source: Source, at: int, stop: int, big: bool) -> bytes:
    length = int.from_bytes(source.read(at, 8), "big" if big else "little")
    if length > stop - at - 8:
        raise _changed(at, stop)
    return source.read(at + 8, length)


def _changed(at: int, stop: int) -> FormatError:
    reason = TrustedText("the strings of an array no longer fill its bytes")
    return FormatError(faults.CHANGED, Span(min(at, stop), stop), reason=reason)


# --- UTF-8 damage ----------------------------------------------------------------------------------------------------
# All of such a file is UTF-8, which files of weights are not (12.1).

#: How many bytes are examined from the start, and in each of so many windows through the rest of the file.
_HEAD: Final = 1 << 16
_WINDOW: Final = 1 << 14
_WINDOWS: Final = 8

#: So many characters beyond ASCII are no accident. Of those, a vocabulary has few that are U+FFFD or controls; of bytes
#: that were decoded nearly all are U+FFFD, or a quarter is a control character of Latin-1.
_LEAST: Final = 16
_SHARE: Final = 8

_REPLACED: Final = "bytes that are not UTF-8 became U+FFFD (EF BF BD), and what they were is lost"
_LATIN_1: Final = "each byte above 127 became the two bytes of a Latin-1 character in UTF-8, which can be undone"


def utf8_damage(source: Source) -> FormatError | None:
    """Return the fault of a file that was decoded as text and encoded as UTF-8; None where some bytes are not UTF-8.

    A bounded part of the file is read. Vocabularies are UTF-8 too, so the file has to hold many characters that only a
    decoder puts there.

    :raises FormatError: S901, S903 where the file cannot be read
    """
    size = source.size
    if size < len(MAGIC) or source.read(0, len(MAGIC)) != MAGIC:
        return None
    step = max(_WINDOW, (size - _HEAD) // _WINDOWS)
    starts = [(0, _HEAD), *((at, _WINDOW) for at in range(_HEAD, max(size - _WINDOW, _HEAD), step))]
    if size > _HEAD:
        starts.append((max(_HEAD, size - _WINDOW), _WINDOW))
    beyond = replaced = controls = 0
    for start, length in starts:
        text = _window_text(source.read(start, min(length, size - start)), first=start == 0)
        if text is None:
            return None
        beyond += sum(1 for character in text if character > "\x7f")
        replaced += text.count("\ufffd")
        controls += sum(1 for character in text if "\x80" <= character <= "\x9f")
    if beyond < _LEAST:
        return None
    kind = _REPLACED if replaced * _SHARE >= beyond else _LATIN_1 if controls * _SHARE >= beyond else None
    return (
        None
        if kind is None
        else FormatError(faults.TEXT_DECODED, Span(0, len(MAGIC), "header.magic"), kind=TrustedText(kind))
    )


def _window_text(data: bytes, *, first: bool) -> str | None:
    """Return a window as text; characters that its edges cut are left out."""
    start = 0
    while not first and start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    try:
        return data[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(data) - start - error.start < 4:
            return data[start : start + error.start].decode("utf-8")
        return None
