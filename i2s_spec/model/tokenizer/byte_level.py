"""This module encodes text with a byte-level vocabulary: split by regular expressions, bytes as letters, merges by rank.

The library `tokenizers` does the work if it is installed (extra `[tokenizer]`), else `splitting`; this module builds
either from the vocabulary of the file, and refuses input on which the library would abort or give wrong results
silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from i2s_spec.convert.synthetic.vocabulary import alphabet
from i2s_spec.errors import SettingError, counted
from i2s_spec.model.tokenizer.pretokenizers import PreTokenizer
from i2s_spec.model.tokenizer.splitting import Splitting
from i2s_spec.model.tokenizer.vocabulary import CONTROL, USER_DEFINED, Vocabulary

_MARKS: Final = (CONTROL, USER_DEFINED)

#: Longest run of white space, in characters: the expressions backtrack over it, and the library gives up at three times
#: as much.
MOST_WHITE_SPACE: Final = 1_000_000


def _letters() -> dict[int, str]:
    """The character that represents each byte in tokens."""
    printable = [byte for byte in range(256) if chr(byte) in set(alphabet())]
    others = [byte for byte in range(256) if byte not in printable]
    return dict(zip((*printable, *others), alphabet(), strict=True))


LETTER_OF: Final = _letters()
BYTE_OF: Final = {letter: byte for byte, letter in LETTER_OF.items()}


def to_bytes(token: str) -> bytes:
    """The bytes that a byte-level token represents; characters outside the alphabet represent themselves.

    >>> to_bytes("Ġworld")
    b' world'
    """
    return b"".join(
        bytes((BYTE_OF[letter],)) if letter in BYTE_OF else letter.encode("utf-8", "surrogateescape")
        for letter in token
    )


class ByteLevel:
    """Encodes pieces of text without special tokens.

    :raises FormatError: for a broken vocabulary
    """

    def __init__(self, vocabulary: Vocabulary, pre: PreTokenizer) -> None:
        merges, words = vocabulary.merges, dict(vocabulary.ids)
        # Control tokens are not words, whatever their text, unless merges use them.
        marks = {token for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True) if kind in _MARKS}
        marks -= marks.intersection(chain(chain.from_iterable(merges), map("".join, merges), alphabet()))
        if not _is_text("".join(words)):  # tokens that are not UTF-8 never occur in text
            marks.update(token for token in words if not _is_text(token))
            merges = [pair for pair in merges if _is_text(pair[0] + pair[1])]
        for token in marks:
            del words[token]
        self._missing = frozenset(byte for byte, letter in LETTER_OF.items() if letter not in words)
        self._ids = (
            _library(words, merges, pre) or Splitting(words, merges, pre.splits, LETTER_OF, pre.ignore_merges).encode
        )

    def encode(self, text: str) -> list[int]:
        """The token ids of a piece of text.

        :raises SettingError: for text with a byte that has no token in the vocabulary, or with too long a run of white
        space
        """
        if self._missing and (missing := self._missing.intersection(text.encode())):
            raise SettingError(f"the vocabulary has no token for the byte 0x{min(missing):02x}, which is in the text")
        if len(text) > MOST_WHITE_SPACE:
            longest = max((match.end() - match.start() for match in re.finditer(r"\s+", text)), default=0)
            if longest > MOST_WHITE_SPACE:
                raise SettingError(
                    f"the text has {counted(longest, 'character')} of white space in a row; "
                    f"the limit is {MOST_WHITE_SPACE:,}"
                )
        return self._ids(text)


def _library(
    words: dict[str, int], merges: Sequence[tuple[str, str]], pre: PreTokenizer
) -> Callable[[str], list[int]] | None:
    """The library's tokenizer, if it is installed."""
    try:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    except ImportError:
        return None
    model: Any = models.BPE(words, list(merges), ignore_merges=pre.ignore_merges)
    tokenizer: Any = Tokenizer(model)
    splits = [pre_tokenizers.Split(Regex(each), "isolated") for each in pre.splits]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return found

    return ids


def _is_text(token: str) -> bool:
    """Whether a token is UTF-8 (invalid bytes were read as surrogates)."""
    try:
        token.encode()
    except UnicodeEncodeError:
        return False
    return True
