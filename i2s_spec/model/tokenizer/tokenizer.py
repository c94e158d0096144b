"""The tokenizer of a file: `load_tokenizer` makes it from an open file; it encodes text and decodes ids.

    >>> import io
    >>> from i2s_spec.convert.new import new
    >>> from i2s_spec.gguf.reader import open as open_file
    >>> target = io.BytesIO()
    >>> _ = new(target, "bitnet", layers=1)
    >>> tokenizer = load_tokenizer(open_file(target.getvalue()))
    >>> ids = tokenizer.encode("The weights are ternary.")
    >>> ids[0] == tokenizer.bos, tokenizer.decode(ids)
    (True, 'The weights are ternary.')

Special tokens are found first, by `SpecialTokens`; the text between them is encoded by `byte_level` or `pieces`. A
`TextStream` decodes ids one at a time.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from i2s_spec.convert.made_up_vocabulary import PIECE_SPACE
from i2s_spec.errors import FormatError, SettingError, TrustedText
from i2s_spec.model.tokenizer import vocabulary as faults
from i2s_spec.model.tokenizer.byte_level import (
    PRE_TOKENIZERS,
    RUNTIMES,
    ByteLevel,
    PreTokenizerChoice,
    choose,
    to_bytes,
)
from i2s_spec.model.tokenizer.pieces import Pieces
from i2s_spec.model.tokenizer.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Vocabulary
from i2s_spec.schema.keys import TOKENIZERS

if TYPE_CHECKING:
    from i2s_spec.gguf.source import Origin

#: A text that every pre-tokenizer splits differently: with a vocabulary of real size, the ids show which one was used.
CHECK_TEXT: Final = (
    "Hello, World! It's 2025: I'LL say 1234567 things,\tOK?\n\n  \r\n3.14 + 42 == x^2 ~|`$<> naïve Größe "
    "нещо 你好，世界 कान्हा 🦙🚀 ''''re  end   "
)


def load_tokenizer(file: Origin, pre: str | None = None) -> Tokenizer:
    """Return the tokenizer of a file.

    Its parts are read when they are first used: decoding needs no merges.

    :param file: a `File` that stays open, or an argument of `open`
    :param pre: the name of a pre-tokenizer, which overrides the file; or of a runtime (`bitnet.cpp`, `llama.cpp`,
    `ik_llama.cpp`, `hf`) whose default is used if the file names none; None means `hf`. Only for byte-level
    vocabularies
    :raises FormatError: T901, T909 for a tokenizer that is not known here, T001 to T004, T006, T905 to T908
        and M003 for a broken vocabulary
    :raises SettingError: for a `pre` that does not exist
    """
    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.reader import open as open_file

    return Tokenizer(Vocabulary(file if isinstance(file, File) else open_file(file)), pre)


class Tokenizer:
    """Converts text to token ids and back. `vocabulary` is the vocabulary of the file; see `load_tokenizer`."""

    def __init__(self, vocabulary: Vocabulary, pre: str | None = None) -> None:
        self.vocabulary = vocabulary
        model = vocabulary.model
        if model not in ("gpt2", "llama"):
            entry = vocabulary.metadata.entry("tokenizer.ggml.model")
            if model not in TOKENIZERS:
                raise FormatError(
                    faults.MODEL_UNKNOWN, entry.value_span, got=model, want=TrustedText(", ".join(TOKENIZERS))
                )
            want = TrustedText("gpt2 and llama")
            raise FormatError(faults.MODEL_UNSUPPORTED, entry.value_span, got=model, want=want)
        #: The pre-tokenizer and why it was chosen; None for SentencePiece, which has none.
        self.choice: PreTokenizerChoice | None = self._choice(pre) if model == "gpt2" else None
        if model == "llama" and pre is not None and pre not in RUNTIMES:
            raise SettingError(f"this is a SentencePiece vocabulary: it has no pre-tokenizer to replace by {pre}")
        pieces = model == "llama"
        self.bos = vocabulary.special("bos")
        self.eos = vocabulary.special("eos")
        self.add_bos = vocabulary.flag("add_bos_token", pieces or (self.choice is not None and self.choice.pre.add_bos))
        self.add_eos = vocabulary.flag("add_eos_token", False)
        #: Whether encoding adds a space before the text.
        self.add_space_prefix = pieces and vocabulary.flag("add_space_prefix", True)

    def _choice(self, pre: str | None) -> PreTokenizerChoice:
        metadata = self.vocabulary.metadata
        architecture = metadata.get("general.architecture", "")
        named = self.vocabulary.pre
        try:
            return choose(named, architecture if isinstance(architecture, str) else "", pre)
        except KeyError:
            span = metadata.entry("tokenizer.ggml.pre").value_span
            known = TrustedText(", ".join(each.name for each in PRE_TOKENIZERS))
            raise FormatError(faults.PRE_UNKNOWN, span, got=named, want=known) from None

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.vocabulary)

    @property
    def ends(self) -> frozenset[int]:
        """The tokens after which generation stops."""
        return self.vocabulary.ends

    @cached_property
    def _special(self) -> SpecialTokens:
        return SpecialTokens(self.vocabulary)

    @cached_property
    def _engine(self) -> ByteLevel | Pieces:
        return Pieces(self.vocabulary) if self.choice is None else ByteLevel(self.vocabulary, self.choice.pre)

    def encode(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = False,
        *,
        bos: bool | None = None,
        eos: bool | None = None,
    ) -> list[int]:
        """Return the token ids of a text.

        :param add_special: add the first and the last token, if the file says so
        :param parse_special: recognize control tokens by their text; not for untrusted text
        :param bos: whether to add the first token; overrides the file
        :param eos: the same for the last token
        :raises SettingError: for text that is not Unicode, or that the vocabulary cannot express
        :raises FormatError: for a vocabulary that is broken
        """
        return self.encode_pieces([(text, parse_special)], add_special, bos=bos, eos=eos)

    def encode_pieces(
        self,
        pieces: Iterable[tuple[str, bool] | int],
        add_special: bool = True,
        *,
        bos: bool | None = None,
        eos: bool | None = None,
    ) -> list[int]:
        """Return the token ids of a text in pieces; control tokens are recognized only in marks, and pieces can be
        token ids.

        Adjacent pieces of text are tokenized together; a new piece does not begin a new word by itself.

        :param pieces: (text, whether it is a mark), or a token id; the rest as for `encode`
        :raises SettingError: as `encode`
        """
        begins = bos if bos is not None else add_special and self.add_bos
        ends = eos if eos is not None else add_special and self.add_eos
        ids: list[int] = []
        if begins and self.bos is not None:
            ids.append(self.bos)
        prefix = " " if self.add_space_prefix else ""  # at the start and after every special token, as loaders do
        for part in self._runs(pieces):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._engine.encode(prefix + part)
        if ends and self.eos is not None:
            ids.append(self.eos)
        return ids

    def special_parts(self, text: str) -> list[Part]:
        """Return a text as pieces of text and special tokens, including control tokens."""
        return self._special.split(text, True)

    def _runs(self, pieces: Iterable[tuple[str, bool] | int]) -> Iterator[Part]:
        """Yield pieces as longer texts, with the special tokens between them."""
        text = ""
        for piece in pieces:
            parts: list[Part] = [piece if isinstance(piece, int) else piece[0]]
            if not isinstance(piece, int) and piece[1]:
                parts = self._special.split(piece[0], True)
            for part in parts:
                if isinstance(part, str):
                    text += part
                    continue
                yield from self._user_defined(text)
                yield part
                text = ""
        yield from self._user_defined(text)

    def _user_defined(self, text: str) -> list[Part]:
        """Return a text, split at the tokens that are always recognized."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SettingError(f"the text is not UTF-8 at character {error.start:,}") from None
        return self._special.split(text, False)

    def token_bytes(self, token: int, special: bool = False) -> bytes:
        """Return the bytes that one token adds to a text (including a space at the start of a text)."""
        return token_bytes(self.vocabulary, token, special)

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Return the text of token ids, the inverse of `encode`.

        :param special: whether control tokens are written
        :raises SettingError: for an id that no token has
        """
        stream = self.stream(special, start=True)
        return "".join(map(stream.feed, ids)) + stream.finish()

    def stream(self, special: bool = False, start: bool = False) -> TextStream:
        """Return a decoder for tokens one by one.

        :param start: whether the first token begins a text, rather than continues one
        """
        return TextStream(lambda token: self.token_bytes(token, special), start and self.add_space_prefix)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the ids of a fixed text, little-endian u32 each: equal for tokenizers that split alike."""
        ids = self.encode(CHECK_TEXT, add_special=False)
        return hashlib.sha256(b"".join(i.to_bytes(4, "little") for i in ids)).hexdigest()


# --- decoding --------------------------------------------------------------------------------------------------------
# A token may end inside a character; incomplete bytes are held back until the rest follows, and bytes that can never
# form a character become U+FFFD. The text is untrusted and must be escaped for a terminal.


def token_bytes(vocabulary: Vocabulary, token: int, special: bool = False) -> bytes:
    """Return the bytes that one token adds to a text.

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
    """Return the byte that a piece such as `<0x0A>` represents; its text if it has another form."""
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
        """Return the text that this token completes."""
        data = self._token_bytes(token)
        if self._drop_space and data:
            data = data.removeprefix(b" ")
            self._drop_space = False
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return the rest at the end: U+FFFD for each incomplete sequence."""
        return self._decoder.decode(b"", final=True)


# --- special tokens --------------------------------------------------------------------------------------------------
# User-defined tokens are always recognized; control tokens and the unknown token only on request, so that untrusted
# text cannot end a turn. If tokens overlap, longer ones are recognized first, as in loaders; tokens of equal length in
# the order of their ids.

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
        """Return a text as pieces of text and ids of special tokens, in order.

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
        """Yield every occurrence of every token: minus its length, its id, its position."""
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
