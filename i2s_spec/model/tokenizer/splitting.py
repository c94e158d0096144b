"""This module encodes with a byte-level vocabulary in pure Python, if the library `tokenizers` is not installed.

Text is split by the expressions of a pre-tokenizer, and the letters of each part are merged by rank, the lowest first,
of equal ones the leftmost. It gives the same ids, but is slower for new parts; letters, numbers and punctuation are
those of Python's Unicode version.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

#: Characters of Unicode's property White_Space; Python's own class has four more separators.
_WHITE: Final = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

#: The parts of an expression that Python writes differently.
_CLASS: Final = re.compile(r"\\p\{([LNP])\}|\\([sS])|\\.|[\[\]]", re.DOTALL)

#: Most parts whose ids are cached.
_RETAINED: Final = 1 << 14


@cache
def _categories() -> str:
    """The first letter of the general category of every code point."""
    return "".join(map(unicodedata.category, map(chr, range(0x110000))))[::2]


@cache
def _members(category: str) -> str:
    """The characters of a general category, in the syntax of a character class."""
    runs = re.finditer(f"{category}+", _categories())
    return "".join(rf"\U{run.start():08x}-\U{run.end() - 1:08x}" for run in runs)


@cache
def expression(source: str) -> re.Pattern[str]:
    r"""An expression with `\p{...}` and Unicode's white space, translated for Python's `re`.

    >>> expression(r" ?\p{L}+|\s+").findall("Wörter  und")
    ['Wörter', ' ', ' und']
    """
    inside = False

    def python(match: re.Match[str]) -> str:
        nonlocal inside
        if match[0] in "[]":
            inside = match[0] == "["
            return match[0]
        if match[1] is None and match[2] is None:
            return match[0]
        members = _WHITE if match[2] else _members(match[1])
        return members if inside else f"[{'^' if match[2] == 'S' else ''}{members}]"

    return re.compile(_CLASS.sub(python, source))


class Splitting:
    """Encodes pieces of text by the words of a vocabulary, its merges, and the expressions of a pre-tokenizer."""

    def __init__(
        self,
        words: Mapping[str, int],
        merges: Iterable[tuple[str, str]],
        splits: Sequence[str],
        letters: Mapping[int, str],
        ignore_merges: bool,
    ) -> None:
        self._words, self._letters, self._ignore_merges = words, letters, ignore_merges
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._splits = [expression(each) for each in splits]
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The token ids of a piece of text."""
        parts = [text] if text else []
        for split in self._splits:
            parts = [inner for part in parts for inner in _cut(split, part)]
        ids: list[int] = []
        for part in parts:
            known = self._known.get(part)
            if known is None:
                known = self._merged("".join([self._letters[byte] for byte in part.encode()]))
                if len(self._known) < _RETAINED:
                    self._known[part] = known
            ids += known
        return ids

    def _merged(self, letters: str) -> list[int]:
        """The ids of one part, by merging the pair of neighbors with the lowest rank until there is none."""
        if self._ignore_merges and letters in self._words:
            return [self._words[letters]]
        ranks, parts = self._ranks, list(letters)
        after, before = [*range(1, len(parts)), -1], list(range(-1, len(parts) - 1))
        pairs = [(rank, at, pair) for at, pair in enumerate(pairwise(parts))
                 if (rank := ranks.get(pair)) is not None]  # fmt: skip
        heapq.heapify(pairs)
        while pairs:
            _, left, pair = heapq.heappop(pairs)
            right = after[left]
            if right < 0 or (parts[left], parts[right]) != pair:
                continue  # one of them has been merged with another one meanwhile
            parts[left] += parts[right]
            parts[right] = ""
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            for first, second in ((before[left], left), (left, after[left])):
                if (
                    first >= 0
                    and second >= 0
                    and (rank := ranks.get(pair := (parts[first], parts[second]))) is not None
                ):
                    heapq.heappush(pairs, (rank, first, pair))
        return [self._words[part] for part in parts if part]


def _cut(split: re.Pattern[str], text: str) -> Iterable[str]:
    """The matches of an expression, and the parts between them."""
    at = 0
    for match in split.finditer(text):
        if match.start() > at:
            yield text[at : match.start()]
        if match.end() > match.start():
            yield match[0]
        at = match.end()
    if at < len(text):
        yield text[at:]
