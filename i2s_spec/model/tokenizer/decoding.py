"""This module decodes token ids to text, all at once or one by one.

A token may end inside a character; incomplete bytes are held back until the rest follows, and bytes that can never form
a character become U+FFFD. The text is untrusted and must be escaped for a terminal.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from i2s_spec.convert.synthetic.vocabulary import PIECE_SPACE
from i2s_spec.errors import SettingError
from i2s_spec.model.tokenizer.byte_level import to_bytes
from i2s_spec.model.tokenizer.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Vocabulary


def token_bytes(vocabulary: Vocabulary, token: int, special: bool = False) -> bytes:
    """The bytes that one token adds to a text.

    :param special: whether control tokens and the unknown token are written; if not, they add nothing
    :raises SettingError: for an id that no token has
    """
    if not 0 <= token < len(vocabulary):
        raise SettingError(f"there is no token {token:,}; ids are 0 to {len(vocabulary) - 1:,}")
    text, kind = vocabulary.tokens[token], vocabulary.types[token]
    if kind in (CONTROL, UNKNOWN):
        return text.encode("utf-8", "surrogateescape") if special else b""
    if kind == USER_DEFINED:
        return text.encode("utf-8", "surrogateescape")
    if vocabulary.model != "llama":
        return to_bytes(text) if kind == NORMAL else b""
    if kind == BYTE:
        return _byte_piece(text)
    return text.replace(PIECE_SPACE, " ").encode("utf-8", "surrogateescape") if kind == NORMAL else b""


def _byte_piece(text: str) -> bytes:
    """The byte that a piece such as `<0x0A>` represents; its text if it has another form."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return bytes.fromhex(text[3:5])
        except ValueError:
            pass
    return text.encode("utf-8", "surrogateescape")


class TextStream:
    """Decodes tokens one after another.

    :param token_bytes: the bytes of a token
    :param drop_space: whether the first space of the text is dropped, because encoding put it there
    """

    def __init__(self, token_bytes: Callable[[int], bytes], drop_space: bool = False) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._drop_space = drop_space

    def feed(self, token: int) -> str:
        """The text that this token completes."""
        data = self._token_bytes(token)
        if self._drop_space and data:
            data = data.removeprefix(b" ")
            self._drop_space = False
        return self._decoder.decode(data)

    def finish(self) -> str:
        """The rest at the end: U+FFFD for each incomplete sequence."""
        return self._decoder.decode(b"", final=True)
