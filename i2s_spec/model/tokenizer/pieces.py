"""Encode text with a SentencePiece-style vocabulary: characters are joined to pieces, best score first.

Neighbors are joined if the joined text is a piece; of all such pairs the one with the highest score comes first, of
equal ones the leftmost. A remaining character that is not a piece becomes the tokens of its bytes (`<0xNN>`). Loaders
do this for `tokenizer.ggml.model` = llama, whether the vocabulary was trained as BPE or as unigrams.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

from i2s_spec.convert.made_up_vocabulary import PIECE_SPACE
from i2s_spec.errors import SettingError
from i2s_spec.model.tokenizer.vocabulary import Vocabulary

#: Most words whose pieces are cached; then the cache is cleared.
_WORDS_RETAINED: Final = 1 << 16

#: Most characters of all pieces together for which pairs of characters are collected.
_PAIRS_WORTH: Final = 1 << 22


class Pieces:
    """Encodes pieces of text without special tokens.

    :raises FormatError: for a vocabulary that is broken
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids = vocabulary.ids
        self._ranks = {piece: -score for piece, score in zip(vocabulary.tokens, vocabulary.scores, strict=True)}
        self._unknown = vocabulary.special("unknown")
        self._bytes = [self._ids.get(f"<0x{byte:02X}>") for byte in range(256)]
        # Two characters that are neighbors in no piece are never joined, so text can be split into words there.
        self._pairs: set[str] | None = None
        if sum(map(len, self._ids)) <= _PAIRS_WORTH:
            self._pairs = {a + b for piece in self._ids for a, b in pairwise(piece)}
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a piece of text; spaces become `▁` first.

        :raises SettingError: for a character that has neither a piece nor bytes, in a vocabulary without an unknown token
        """
        ids: list[int] = []
        for word in self._words(text.replace(" ", PIECE_SPACE)):
            found = self._known.get(word)
            if found is None:
                if len(self._known) >= _WORDS_RETAINED:
                    self._known.clear()
                found = self._known[word] = self._joined(word)
            ids += found
        return ids

    def _words(self, text: str) -> list[str]:
        """Return a text cut at every position that no piece can span."""
        pairs = self._pairs
        if pairs is None:
            return [text] if text else []
        cuts = [i for i, pair in enumerate(pairwise(text), 1) if pair[0] + pair[1] not in pairs]
        return [text[a:b] for a, b in zip((0, *cuts), (*cuts, len(text)), strict=True) if b > a]

    def _joined(self, word: str) -> list[int]:
        """Return the ids of the pieces of a word."""
        ranks = self._ranks
        return [i for part in joined(word, lambda left, right: ranks.get(left + right)) for i in self._ids_of(part)]

    def _ids_of(self, part: str) -> list[int]:
        found = self._ids.get(part)
        if found is not None:
            return [found]
        ids = []
        for byte in part.encode():
            i = self._bytes[byte]
            if i is None:
                i = self._unknown
            if i is None:
                raise SettingError(f"the vocabulary has no token for the byte 0x{byte:02x}, which is in the text")
            ids.append(i)
        return ids


def joined(letters: Iterable[str], rank: Callable[[str, str], float | None]) -> list[str]:
    """Return the parts that are left when neighbors have been joined as long as a pair of them has a rank.

    :param rank: gives the rank of a pair, None if it is not joined; the lowest comes first, of equal ones the leftmost
    """
    parts = list(letters)
    after, before = [*range(1, len(parts)), -1], list(range(-1, len(parts) - 1))
    pairs = [
        (found, at, at + 1, len(left) + len(right))
        for at, (left, right) in enumerate(pairwise(parts))
        if (found := rank(left, right)) is not None
    ]
    heapq.heapify(pairs)
    while pairs:
        _, left, right, size = heapq.heappop(pairs)
        if not parts[left] or not parts[right] or len(parts[left]) + len(parts[right]) != size:
            continue  # one of them has been joined with another one meanwhile
        parts[left] += parts[right]
        parts[right] = ""
        after[left] = after[right]
        if after[left] >= 0:
            before[after[left]] = left
        for one, other in ((before[left], left), (left, after[left])):
            if one >= 0 and other >= 0 and (found := rank(parts[one], parts[other])) is not None:
                heapq.heappush(pairs, (found, one, other, len(parts[one]) + len(parts[other])))
    return [part for part in parts if part]
