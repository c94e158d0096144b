"""This module makes different words from syllables, to fill a vocabulary; each is built from shorter ones.

>>> new_words(" ", 3, {"ba"})
[('be', ['b e']), ('bi', ['b i']), ('bo', ['b o'])]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from typing import Final

#: Syllables of the words that fill a vocabulary, open and closed. No letter both ends a syllable and begins another
#: one, so a word can be split into syllables in only one way, and all words differ. The ends are tokens of the trained
#: vocabulary.
_OPEN: Final = tuple(map("".join, product("bdgk", "aeiou")))
_ENDS: Final = ("ll", "m", "n", "r", "st")
_CLOSED: Final = tuple(syllable + _ENDS[i % 5] for i, syllable in enumerate(_OPEN))


def new_words(space: str, count: int, taken: Collection[str]) -> list[tuple[str, list[str]]]:
    """`count` new words, each with the pairs `a b` from which it can be merged; a and b come earlier or are in `taken`."""
    words: list[tuple[str, list[str]]] = []
    for word, pairs in _all_words(space):
        if len(words) >= count:
            break
        if word not in taken:
            words.append((word, pairs))
    return words


def _all_words(space: str) -> Iterator[tuple[str, list[str]]]:
    """Words of one syllable, of two, and so on; for each length, those without a space come first."""
    for syllable in _OPEN:
        yield syllable, [f"{syllable[0]} {syllable[1]}"]
    for syllable in _CLOSED:
        yield syllable, [f"{syllable[:2]} {syllable[2:]}"]
    syllables = (*_OPEN, *_CLOSED)
    for syllable in syllables:
        yield space + syllable, [f"{space} {syllable}"]
    for length in range(2, 5):
        for parts in product(syllables, repeat=length):
            word = "".join(parts)
            yield word, _splits(parts, "")
        for parts in product(syllables, repeat=length):
            word = "".join(parts)
            yield space + word, [f"{space} {word}", *_splits(parts, space)]


def _splits(parts: tuple[str, ...], space: str) -> list[str]:
    """The ways to cut a word between two syllables."""
    return [f"{space}{''.join(parts[:i])} {''.join(parts[i:])}" for i in range(1, len(parts))]
