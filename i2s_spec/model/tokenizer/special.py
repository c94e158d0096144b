"""This module finds the special tokens in a text, and splits the text at them.

User-defined tokens are always recognized; control tokens and the unknown token only on request, so that untrusted text
cannot end a turn. If tokens overlap, longer ones are recognized first, as in loaders; tokens of equal length in the
order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.model.tokenizer.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, Vocabulary

#: A piece of text, or a token.
Part = str | int


class SpecialTokens:
    """The tokens of a vocabulary that are found in text before it is tokenized.

    The search time is proportional to the text and to the number of different lengths of tokens with the same first
    character, not to the number of tokens.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens = vocabulary.tokens
        kinds = (CONTROL, UNKNOWN, USER_DEFINED)
        special = [i for i, kind in enumerate(vocabulary.types) if kind in kinds]
        self._ids = {tokens[i]: i for i in special}
        self._always = {tokens[i]: i for i in special if vocabulary.types[i] == USER_DEFINED}
        # The lengths of tokens with the same first character.
        lengths: dict[str, set[int]] = {}
        for token in self._ids:
            lengths.setdefault(token[0], set()).add(len(token))
        self._lengths = {first: sorted(each) for first, each in lengths.items()}

    def split(self, text: str, control: bool) -> list[Part]:
        """A text as pieces of text and ids of special tokens, in order.

        :param control: whether control tokens and the unknown token are recognized, too
        """
        taken = bytearray(len(text))
        retained: list[tuple[int, int, int]] = []
        for minus, token, start in sorted(self._matches(text, control)):
            stop = start - minus
            if taken.find(1, start, stop) < 0:
                taken[start:stop] = b"\1" * (stop - start)
                retained.append((start, stop, token))
        parts: list[Part] = []
        at = 0
        for start, stop, token in sorted(retained):
            if start > at:
                parts.append(text[at:start])
            parts.append(token)
            at = stop
        if at < len(text):
            parts.append(text[at:])
        return parts

    def _matches(self, text: str, control: bool) -> Iterator[tuple[int, int, int]]:
        """Every occurrence of every token: minus its length, its id, its position."""
        wanted = self._ids if control else self._always
        if not wanted:
            return
        for first, lengths in self._lengths.items():
            at = text.find(first)
            while at >= 0:
                for length in lengths:
                    found = wanted.get(text[at : at + length])
                    if found is not None and at + length <= len(text):
                        yield -length, found, at
                at = text.find(first, at + 1)
