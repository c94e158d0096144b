"""Encode text with a byte-level vocabulary: split by regular expressions, bytes as letters, merges by rank.

`ByteLevel` encodes, in Python alone; on real text it is as fast as the library `tokenizers`, whose ids it has to give
(tests). Letters, numbers and punctuation are those of Python's Unicode version. `PRE_TOKENIZERS` declares how text is
split, and `choose` follows a runtime where the file does not say it:

    >>> choose(None, "bitnet-b1.58", "bitnet.cpp").pre.name, choose(None, "bitnet-b1.58", "hf").pre.name
    ('default', 'llama-bpe')
    >>> choose("qwen2", "qwen3", "bitnet.cpp").pre.name
    'qwen2'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

from i2s_spec.convert.made_up_vocabulary import alphabet
from i2s_spec.errors import SettingError, quote
from i2s_spec.model.tokenizer.pieces import joined
from i2s_spec.model.tokenizer.vocabulary import CONTROL, USER_DEFINED, Vocabulary
from i2s_spec.schema.architectures import declared_architecture

_MARKS: Final = (CONTROL, USER_DEFINED)

#: Most parts whose ids are cached.
_RETAINED: Final = 1 << 14


def _letters() -> dict[int, str]:
    """Return the character that represents each byte in tokens."""
    printable = [byte for byte in range(256) if chr(byte) in set(alphabet())]
    others = [byte for byte in range(256) if byte not in printable]
    return dict(zip((*printable, *others), alphabet(), strict=True))


LETTER_OF: Final = _letters()
BYTE_OF: Final = {letter: byte for byte, letter in LETTER_OF.items()}


def to_bytes(token: str) -> bytes:
    """Return the bytes that a byte-level token represents; characters outside the alphabet represent themselves.

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
        for token in marks.difference(chain(chain.from_iterable(merges), map("".join, merges), alphabet())):
            del words[token]
        self._missing = frozenset(byte for byte, letter in LETTER_OF.items() if letter not in words)
        self._words, self._whole_words = words, pre.ignore_merges
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._splits = [expression(each) for each in pre.splits]
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a piece of text.

        :raises SettingError: for text with a byte that has no token in the vocabulary
        """
        if self._missing and (missing := self._missing.intersection(text.encode())):
            raise SettingError(f"the vocabulary has no token for the byte 0x{min(missing):02x}, which is in the text")
        parts = [text] if text else []
        for split in self._splits:
            parts = [inner for part in parts for inner in _cut(split, part)]
        ids: list[int] = []
        for part in parts:
            known = self._known.get(part)
            if known is None:
                known = self._merged("".join([LETTER_OF[byte] for byte in part.encode()]))
                if len(self._known) < _RETAINED:
                    self._known[part] = known
            ids += known
        return ids

    def _merged(self, letters: str) -> list[int]:
        """Return the ids of one part."""
        if self._whole_words and letters in self._words:
            return [self._words[letters]]
        ranks = self._ranks
        return [self._words[part] for part in joined(letters, lambda left, right: ranks.get((left, right)))]


# --- splitting -------------------------------------------------------------------------------------------------------

#: Characters of Unicode's property White_Space; Python's own class has four more separators.
_WHITE: Final = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

#: The parts of an expression that Python writes differently.
_CLASS: Final = re.compile(r"\\p\{([LMNP])\}|\\([sS])|\\.|[\[\]]", re.DOTALL)


#: Planes of Unicode without letters, marks, numbers and punctuation: to ask about each code point takes 0.1 s.
_EMPTY: Final = range(0x40000, 0xE0000)


@cache
def _categories() -> str:
    """Return the first letter of the general category of every code point up to the last that has text."""
    planes = range(_EMPTY.start), range(_EMPTY.stop, _EMPTY.stop + 0x10000)
    first, last = ("".join(map(unicodedata.category, map(chr, plane)))[::2] for plane in planes)
    return first + "C" * len(_EMPTY) + last


@cache
def _members(category: str) -> str:
    """Return the characters of a general category, in the syntax of a character class."""
    runs = re.finditer(f"{category}+", _categories())
    return "".join(rf"\U{run.start():08x}-\U{run.end() - 1:08x}" for run in runs)


@cache
def expression(source: str) -> re.Pattern[str]:
    r"""Return an expression with `\p{...}` and Unicode's white space, translated for Python's `re`.

    >>> expression(r" ?\p{L}+|\s+(?!\S)").findall("Wörter  und")
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


def _cut(split: re.Pattern[str], text: str) -> Iterable[str]:
    """Yield the matches of an expression, and the parts between them."""
    at = 0
    for match in split.finditer(text):
        if match.start() > at:
            yield text[at : match.start()]
        if match.end() > match.start():
            yield match[0]
        at = match.end()
    if at < len(text):
        yield text[at:]


# --- pre-tokenizers --------------------------------------------------------------------------------------------------
# One `PreTokenizer` for each name, and which runtime uses which. A pre-tokenizer is a list of regular expressions. The
# first splits the text into its matches and the parts between them, the next splits each of those parts, and so on;
# merges never cross a boundary.
#
# `tokenizer.ggml.pre` names it. The official BitNet-b1.58-2B-4T file has no such key (clause 3.5): bitnet.cpp, llama.cpp
# and ik_llama.cpp then warn and use `default`, and Hugging Face reads the tokenizer's own file, which says `llama3`.


class PreTokenizer(NamedTuple):
    """How text is split, and other properties that the name implies."""

    name: str
    splits: tuple[str, ...]
    #: Its other names.
    aliases: tuple[str, ...] = ()
    #: Whether a part that is a whole token becomes that token, without merges.
    ignore_merges: bool = False
    #: Whether a text gets a first token if the file does not say.
    add_bos: bool = False


_CONTRACTIONS: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"


def _modern(numbers: str, letters: str = r"\p{L}") -> tuple[str, ...]:
    """Return the expression of Llama 3 and its relatives, which differ in how many digits stay together, and whether
    marks are letters."""
    word = letters if letters == r"\p{L}" else f"[{letters}]"
    rest = rf" ?[^\s{letters}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return (rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{word}+|{numbers}|{rest}",)


PRE_TOKENIZERS: Final = (
    PreTokenizer("llama-bpe", _modern(r"\p{N}{1,3}"), ("llama3", "llama-v3"), ignore_merges=True, add_bos=True),
    PreTokenizer("falcon3", _modern(r"\p{N}{1,3}"), ignore_merges=True, add_bos=True),
    PreTokenizer("falcon_e", _modern(r"\p{N}{1,3}"), ignore_merges=True),
    PreTokenizer("qwen2", _modern(r"\p{N}")),
    PreTokenizer("qwen35", _modern(r"\p{N}", r"\p{L}\p{M}")),
    PreTokenizer("gpt-2", (_GPT2,), ("gpt2",)),
    PreTokenizer("default", (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
)

#: Every pre-tokenizer by each of its names.
BY_NAME: Final = {name: pre for pre in PRE_TOKENIZERS for name in (pre.name, *pre.aliases)}

#: The default of each runtime if the file names none; for `hf` it depends on the architecture.
RUNTIMES: Final[dict[str, str | None]] = {
    "bitnet.cpp": "default",
    "llama.cpp": "default",
    "ik_llama.cpp": "default",
    "hf": None,
}

DEFAULT_RUNTIME: Final = "hf"


class PreTokenizerChoice(NamedTuple):
    """A pre-tokenizer and why it was chosen; `assumed` if the file did not name it."""

    pre: PreTokenizer
    why: str
    assumed: bool = False


def choose(named: str | None, architecture: str, asked: str | None = None) -> PreTokenizerChoice:
    """Return the pre-tokenizer for a byte-level vocabulary.

    :param named: the value of `tokenizer.ggml.pre`; None if the key is missing
    :param architecture: the value of `general.architecture`
    :param asked: the name of a pre-tokenizer, which overrides the file; or that of a runtime (`RUNTIMES`), which
    decides only if the file names none; None means `hf`
    :raises SettingError: for a name that is neither
    :raises KeyError: if the file names one that is not known here
    """
    if asked is not None and asked not in RUNTIMES:
        if asked not in BY_NAME:
            known = ", ".join((*BY_NAME, *RUNTIMES))
            raise SettingError(f"there is no pre-tokenizer {quote(asked)}; there are {known}")
        return PreTokenizerChoice(BY_NAME[asked], "as asked")
    if named is not None:
        return PreTokenizerChoice(BY_NAME[named], "named by the file")
    runtime = asked or DEFAULT_RUNTIME
    declared = declared_architecture(architecture)
    trained = None if declared is None else declared.pre_tokenizer
    name = RUNTIMES[runtime] or trained or "default"
    if RUNTIMES[runtime] is None and trained is not None:
        return PreTokenizerChoice(
            BY_NAME[name], f"the tokenizer that {architecture} models were trained with", assumed=True
        )
    return PreTokenizerChoice(BY_NAME[name], f"as {runtime} does", assumed=True)
