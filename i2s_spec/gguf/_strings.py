"""The check of arrays of strings in plain Python, where `pyx/_strings.pyx` is not compiled (`codec._cpu`).

It agrees with `strings.definition` and `strings.merge_results_definition`. The bytes come in parts; no string is kept,
except the few that the caller asks for: repeated strings are found by 32 bits of their hashes in a table of bounded size.
"""

from __future__ import annotations

import re
import struct
from array import array
from threading import Lock
from typing import Any, Final

_NEEDLES: Final = 64
_MARKER: Final = 64  # bytes of the longest string that is kept as a marker
_CANDIDATES: Final = 16  # different strings almost never have equal hashes by chance
_FAR: Final = 1 << 61
_NUMBERED: Final = re.compile(rb"(\[PAD|<dummy)[0-9]")
_BYTE: Final = re.compile(rb"<0x[0-9A-Fa-f]{2}>")


class _Hashes:
    """Hashes of strings, in an open table that is full to five eighths at most: 0 is an empty place."""

    def __init__(self, most: int) -> None:
        room = 64
        while 5 * room < 8 * most:
            room *= 2
        self._slots = array("I", bytes(4 * room))

    def enter(self, hashed: int) -> bool:
        """Enter a hash; return whether it was there."""
        slots, mask = self._slots, len(self._slots) - 1
        tag, at = hashed >> 29 & 0xFFFFFFFF or 1, hashed & mask
        while slots[at]:
            if slots[at] == tag:
                return True
            at = (at + 1) & mask
        slots[at] = tag
        return False


class _Strings:
    """A walk over an array of strings; `position` is where the next one begins, and `index` its number."""

    def __init__(self, start: int, count: int, big: bool) -> None:
        self.index, self.position, self._count = 0, start, count
        self._feeding = Lock()
        self._length = struct.Struct(">Q" if big else "<Q").unpack_from

    def feed(self, part: Any, most: int) -> Any:
        """Walk over the strings that lie whole in `part`, which begins at `position`; the content of strings longer than
        `most` is skipped.

        :raises RuntimeError: while another thread feeds
        """
        if not self._feeding.acquire(blocking=False):
            raise RuntimeError("another thread feeds this walk")
        try:
            self._walk(bytes(part), most)
        finally:
            self._feeding.release()

    def _walk(self, data: bytes, most: int) -> None:
        at = 0
        while self.index < self._count and len(data) - at >= 8:
            (length,) = self._length(data, at)
            if length > most:
                self.skip(min(length, _FAR))
                self.index += 1
                self.position += 8 + min(length, _FAR)
                break
            if length > len(data) - at - 8:
                break
            at += 8 + length
            self.look(data[at - length : at])
            self.position += 8 + length
            self.index += 1

    def skip(self, length: int) -> None:
        """Note a string that is too long to be looked at."""

    def look(self, string: bytes) -> None:
        """Look at a string."""
        raise NotImplementedError


class Walk(_Strings):
    """The findings so far in one array of strings; `feed` continues with the bytes that follow."""

    def __init__(
        self,
        start: int,
        count: int,
        big: bool,
        seed: tuple[int, int],
        limit: int,
        texts: list[bytes],
        most_forms: int,
        most_marked: int = 0,
    ) -> None:
        if len(texts) > _NEEDLES:
            raise ValueError(f"at most {_NEEDLES} texts are looked for at once")
        super().__init__(start, count, big)
        self._limit, self._forms, self._marked = min(limit, count), most_forms, most_marked
        self._hashes = _Hashes(self._limit)
        self._texts = list(texts)
        self._wanted = set(texts)
        self._candidates: list[tuple[int, int]] = []
        self.empty = self.odd_pairs = self.numbered = self.markers = 0
        self.first_empty = self.first_odd_pair = self.first_numbered = self.longest_at = self.longest = -1
        self.is_utf8 = True
        self.byte_forms: list[int] = []
        self.marked: dict[bytes, int] = {}
        self.needles = [-1] * len(texts)

    def feed(self, part: Any, most: int) -> list[tuple[int, int]]:
        """Continue with the bytes that follow; return the index and the position of strings that seem to be duplicates."""
        super().feed(part, most)
        found, self._candidates = self._candidates, []
        return found

    def skip(self, length: int) -> None:
        """Note a string that is too long to be looked at."""
        self._note_length(length)
        self._odd_pair()
        self.is_utf8 = False

    def _note_length(self, length: int) -> None:
        if length > self.longest:
            self.longest, self.longest_at = length, self.index

    def _odd_pair(self) -> None:
        self.odd_pairs += 1
        if self.first_odd_pair < 0:
            self.first_odd_pair = self.index

    def look(self, string: bytes) -> None:
        """Look at a string."""
        self._note_length(len(string))
        if self.is_utf8 and not string.isascii():
            try:
                string.decode("utf-8")
            except UnicodeDecodeError:
                self.is_utf8 = False
        if string.count(b" ") != 1 or string[0] == 0x20 or string[-1] == 0x20:
            self._odd_pair()
        if string in self._wanted:
            for i, text in enumerate(self._texts):
                if text == string and self.needles[i] < 0:
                    self.needles[i] = self.index
        if not string:
            self.empty += 1
            if self.first_empty < 0:
                self.first_empty = self.index
            return
        if len(string) > 3 and string[0] in b"[<":
            self._look_at_form(string)
        if self.index < self._limit and self._hashes.enter(hash(string)) and len(self._candidates) < _CANDIDATES:
            self._candidates.append((self.index, self.position))

    def _look_at_form(self, string: bytes) -> None:
        if _NUMBERED.match(string):
            self.numbered += 1
            if self.first_numbered < 0:
                self.first_numbered = self.index
        elif string.startswith(b"<0x") and not _BYTE.fullmatch(string) and len(self.byte_forms) < self._forms:
            self.byte_forms.append(self.index)
        elif string.startswith(b"<|") and string.endswith(b"|>"):
            self.markers += 1
            if len(string) <= _MARKER and len(self.marked) < self._marked:
                self.marked.setdefault(string, self.index)


class Merges(_Strings):
    """The results of the merges so far, and whether applicable merges make them; `feed` continues with the bytes that
    follow."""

    def __init__(self, start: int, count: int, big: bool, seed: tuple[int, int]) -> None:
        super().__init__(start, count, big)
        self._firsts: dict[int, int] = {}  # by the hash of a result; negative where no applicable merge makes it
        self.made = 0

    @property
    def results(self) -> int:
        """How many different results there are."""
        return len(self._firsts)

    def look(self, string: bytes) -> None:
        """Look at a merge."""
        left, space, right = string.partition(b" ")
        if not (left and space and right) or b" " in right:
            return
        applicable = all(_is_character(part) or hash(part) in self._firsts for part in (left, right))
        result = hash(left + right)
        first = self._firsts.setdefault(result, ~self.index)
        if applicable and first < 0:
            self._firsts[result] = ~first
            self.made += 1

    def first_unmade(self) -> int:
        """Return the first merge with a result that no applicable merge makes, or -1."""
        return min((~first for first in self._firsts.values() if first < 0), default=-1)


def _is_character(part: bytes) -> bool:
    """Return whether bytes have the length that the first of them announces in UTF-8, or there is only one."""
    first = part[0]
    return len(part) == 1 or len(part) == (first >= 0xC0) + 1 + (first >= 0xE0) + (first >= 0xF0)


def _words(data: Any, big: bool) -> array[int]:
    """Return 32-bit integers, signed; bytes after the last whole one are left out."""
    import sys

    raw = bytes(data)
    words = array("i", raw[: len(raw) // 4 * 4])
    if big != (sys.byteorder == "big"):
        words.byteswap()
    return words


def first_outside(data: Any, big: bool, least: int, most: int) -> int:
    """Return the index of the first 32-bit integer of `data` that is below `least` or above `most`, or -1."""
    return next((i for i, word in enumerate(_words(data, big)) if not least <= word <= most), -1)


def count_equal(data: Any, big: bool, wanted: int) -> int:
    """Return how many of the 32-bit integers of `data` are `wanted`."""
    return _words(data, big).count(wanted)
